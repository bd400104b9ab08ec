-- {key}, {owner}, {generation}: nobody can go by what was never written, and nothing is taken back
UPDATE tidegate_slices SET acknowledged = {generation}
WHERE key_id = {key} AND owner = {owner} AND generation >= {generation} AND acknowledged < {generation};
