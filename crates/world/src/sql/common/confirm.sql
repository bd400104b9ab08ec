-- {owner}: all its nodes went by the slices that were read at {read_us}; no read is later than now. Ignored by a store
-- that has confirmed less than {known_us}: it is an older copy of the one that this is meant for.
UPDATE tidegate_owners SET confirmed_at = {greatest}(confirmed_at, {least}({read_us}, {now})) WHERE id = {owner} AND confirmed_at >= {known_us};
