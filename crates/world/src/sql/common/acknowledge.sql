-- {key}, {owner}, {generation}, {known_us}: nobody can go by what was never written, and nothing is taken back. Ignored by
-- an older copy of the store, as in confirm.sql.
UPDATE tidegate_slices SET acknowledged = {generation}
WHERE key_id = {key} AND owner = {owner} AND generation >= {generation} AND acknowledged < {generation}
    AND COALESCE((SELECT confirmed_at FROM tidegate_owners WHERE id = {owner}), 0) >= {known_us};
