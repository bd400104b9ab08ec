-- {owner}
-- What an owner holds, and one row without a key: the present, when what the owner acknowledged last was read, and how
-- many grants were written so far.
SELECT {now} AS expires_at, NULL AS key_id,
    (SELECT confirmed_at FROM tidegate_owners WHERE id = {owner}) AS generation,
    (SELECT revision FROM tidegate_fleet WHERE id = 1) AS amount, NULL AS rate_parts, NULL AS whole
UNION ALL
SELECT expires_at, key_id, generation, amount, rate_parts, whole FROM tidegate_slices WHERE owner = {owner}
