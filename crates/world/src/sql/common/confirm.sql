-- {owner}: all its nodes went by its slices just now
UPDATE tidegate_owners SET confirmed_at = {greatest}(confirmed_at, {now}) WHERE id = {owner};
