-- {keys}: comma-separated
DELETE FROM tidegate_slices WHERE key_id IN ({keys});
