-- {owner}; {keys}: comma-separated
-- What the table of counts has of an owner's cells of some keys, and one row without a key: since when entries of the
-- log aren't merged into it, and the present.
SELECT key_id, epoch, sequence, count, 0 FROM tidegate_counts WHERE owner = {owner} AND key_id IN ({keys})
UNION ALL
SELECT NULL, NULL, NULL,
    COALESCE((SELECT written_at FROM tidegate_publishes WHERE merged_at = 0 ORDER BY id LIMIT 1), {now}), {now}
