-- {rows_max}: one more than may be
SELECT owner, key_id, generation, amount, rate_parts, whole, expires_at, acknowledged, before_amount, before_rate_parts,
    before_until
FROM tidegate_slices ORDER BY key_id, owner LIMIT {rows_max}
