-- {owner}
-- What an owner holds, and one row without a key: the present.
SELECT {now} AS expires_at, NULL AS key_id, NULL AS generation, NULL AS amount, NULL AS rate_parts, NULL AS whole
UNION ALL
SELECT expires_at, key_id, generation, amount, rate_parts, whole FROM tidegate_slices WHERE owner = {owner}
