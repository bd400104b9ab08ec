-- {counts_before}, {log_before}, {demands_before}, {slices_before}: how long ago each ended, in µs; {rows_max}: how many of
-- each. What is expired is looked up without locking anything: a range that is deleted directly would wait for
-- whoever writes the first row behind it. The last entry of the log stays: readers tell by it that it is the same.
DELETE counts FROM tidegate_counts AS counts JOIN (
    SELECT key_id, epoch, sequence, owner FROM tidegate_counts
    WHERE expires_at <= {now} - {counts_before} ORDER BY expires_at LIMIT {rows_max}
) AS expired USING (key_id, epoch, sequence, owner);
DELETE FROM tidegate_publishes WHERE merged_at > 0 AND merged_at < {now} - {log_before}
    AND id < (SELECT id FROM (SELECT MAX(id) AS id FROM tidegate_publishes) AS newest)
    ORDER BY merged_at, id LIMIT {rows_max};
DELETE FROM tidegate_demands WHERE reported_at < {now} - {demands_before} ORDER BY reported_at LIMIT {rows_max};
DELETE FROM tidegate_slices WHERE expires_at < {now} - {slices_before} ORDER BY expires_at LIMIT {rows_max};
