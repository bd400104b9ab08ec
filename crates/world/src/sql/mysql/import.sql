-- {changed}: instant in µs; {behind}: which rows of that instant; {rows_max}: how many at most
-- A page of what changed, in order, and one row without a key: the present.
(SELECT changed_at, key_id, epoch, sequence, owner, count, limit_count, expires_at
    FROM tidegate_counts
    WHERE changed_at >= {changed} AND {behind}
    ORDER BY changed_at, key_id, epoch, sequence, owner
    LIMIT {rows_max})
UNION ALL
SELECT {now}, NULL, NULL, NULL, NULL, NULL, NULL, NULL
