-- {last}: the last entry that was seen; {missing}: further ones that weren't; {entries_max}: how many at most
-- Entries of the log, and the last one that was seen without its payload: there is always a row that tells the time.
SELECT written_at, id, owner, CASE WHEN id = {last} THEN NULL ELSE payload END, {now}
FROM tidegate_publishes WHERE id >= {last} {missing} ORDER BY id LIMIT {entries_max}
