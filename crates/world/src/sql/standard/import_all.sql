-- {from}: behind which row; {rows_max}: how many at most
-- Rows in the order of their keys, and one row without a key: since when entries of the log aren't merged into them.
SELECT * FROM (
    SELECT changed_at, key_id, epoch, sequence, owner, count, limit_count, expires_at FROM tidegate_counts
    WHERE {from}
    ORDER BY key_id, epoch, sequence, owner
    LIMIT {rows_max}
) AS page
UNION ALL
SELECT COALESCE((SELECT written_at FROM tidegate_publishes WHERE merged_at = 0 ORDER BY id LIMIT 1), {now}),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL
