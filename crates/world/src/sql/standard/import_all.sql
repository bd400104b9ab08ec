-- {from}: behind which row; {rows_max}: how many at most
-- Rows in the order of their keys, and one row without a key: the present.
SELECT * FROM (
    SELECT changed_at, key_id, epoch, sequence, owner, count, limit_count, expires_at FROM tidegate_counts
    WHERE {from}
    ORDER BY key_id, epoch, sequence, owner
    LIMIT {rows_max}
) AS page
UNION ALL
SELECT {now}, NULL, NULL, NULL, NULL, NULL, NULL, NULL
