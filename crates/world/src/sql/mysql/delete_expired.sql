-- {counts_before}, {demands_before}, {slices_before}: how long ago each ended, in µs; {rows_max}: how many of each
DELETE FROM tidegate_counts WHERE expires_at <= {now} - {counts_before} ORDER BY expires_at LIMIT {rows_max};
DELETE FROM tidegate_demands WHERE reported_at < {now} - {demands_before} ORDER BY reported_at LIMIT {rows_max};
DELETE FROM tidegate_slices WHERE expires_at < {now} - {slices_before} ORDER BY expires_at LIMIT {rows_max};
