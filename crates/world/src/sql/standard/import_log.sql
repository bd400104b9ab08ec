-- {changed}: since when, in µs; {entries_max}: how many at most
-- Entries of the log, and one row without a payload: the oldest instant that it reaches back to, the last entry that
-- there is, and the present.
SELECT * FROM (
    SELECT written_at, id, owner, payload, {now} FROM tidegate_publishes
    WHERE id >= (SELECT MIN(id) FROM tidegate_publishes WHERE written_at >= {changed})
    ORDER BY id
    LIMIT {entries_max}
) AS page
UNION ALL
SELECT COALESCE((SELECT MIN(written_at) FROM tidegate_publishes), {now}),
    COALESCE((SELECT MAX(id) FROM tidegate_publishes), 0), NULL, NULL, {now}
