-- {changed}: since when, in µs; {entries_max}: how many at most
-- Entries of the log, and one row without a payload: the present, and the last entry that there is.
(
    SELECT changed_at, id, owner, payload, {now} FROM tidegate_log
    WHERE id >= (SELECT MIN(id) FROM tidegate_log WHERE changed_at >= {changed})
    ORDER BY id
    LIMIT {entries_max}
)
UNION ALL
SELECT {now}, COALESCE((SELECT MAX(id) FROM tidegate_log), 0), NULL, NULL, {now}
