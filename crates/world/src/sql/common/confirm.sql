-- {owner}: all its nodes went by the slices that were read at {read_us}; no read is later than now
UPDATE tidegate_owners SET confirmed_at = {greatest}(confirmed_at, {least}({read_us}, {now})) WHERE id = {owner};
