-- {keys}: comma-separated
DELETE FROM tidegate_slices WHERE key_id IN ({keys});
DELETE FROM tidegate_demands WHERE key_id IN ({keys});
