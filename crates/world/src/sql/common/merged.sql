-- {entries}: ids, comma-separated: what these carry is in the table of counts
UPDATE tidegate_publishes SET merged_at = {now} WHERE id IN ({entries});
