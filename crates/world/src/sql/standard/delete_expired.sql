-- {counts_before}, {log_before}, {demands_before}, {slices_before}: how long ago each ended, in µs; {rows_max}: how many of each
-- {skip_locked}: whoever publishes one of them just now isn't waited for
DELETE FROM tidegate_counts WHERE (key_id, epoch, sequence, owner) IN (
    SELECT key_id, epoch, sequence, owner FROM tidegate_counts
    WHERE expires_at <= {now} - {counts_before} ORDER BY expires_at LIMIT {rows_max} {skip_locked});
DELETE FROM tidegate_publishes WHERE id IN (
    SELECT id FROM tidegate_publishes
    WHERE merged_at > 0 AND merged_at < {now} - {log_before} AND id < (SELECT MAX(id) FROM tidegate_publishes)
    ORDER BY merged_at, id LIMIT {rows_max} {skip_locked});
DELETE FROM tidegate_demands WHERE (key_id, owner) IN (
    SELECT key_id, owner FROM tidegate_demands
    WHERE reported_at < {now} - {demands_before} ORDER BY reported_at LIMIT {rows_max} {skip_locked});
DELETE FROM tidegate_slices WHERE (key_id, owner) IN (
    SELECT key_id, owner FROM tidegate_slices
    WHERE expires_at < {now} - {slices_before} ORDER BY expires_at LIMIT {rows_max} {skip_locked});
