-- {after}: behind which entry; {entries_max}: how many at most
-- Entries of the log that the table of counts doesn't have yet.
SELECT written_at, id, owner, payload, names, {now} FROM tidegate_publishes
WHERE merged_at = 0 AND id > {after} ORDER BY id LIMIT {entries_max}
