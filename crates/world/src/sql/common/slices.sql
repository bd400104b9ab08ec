-- {owner}
-- What an owner holds, and one row without a key: the present, and when what the owner acknowledged last was read.
SELECT {now} AS expires_at, NULL AS key_id,
    (SELECT confirmed_at FROM tidegate_owners WHERE id = {owner}) AS generation, NULL AS amount, NULL AS rate_parts,
    NULL AS whole
UNION ALL
SELECT expires_at, key_id, generation, amount, rate_parts, whole FROM tidegate_slices WHERE owner = {owner}
