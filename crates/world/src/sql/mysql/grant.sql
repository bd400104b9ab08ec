-- {rows}: (key_id, owner, generation, amount, rate_parts, whole, expires_at, acknowledged, before_amount, before_rate_parts, before_until), …
-- An older generation is ignored, the same one renews. Assignments are made from left to right, so generation
-- comes last.
INSERT INTO tidegate_slices
    (key_id, owner, generation, amount, rate_parts, whole, expires_at, acknowledged, before_amount, before_rate_parts,
    before_until)
VALUES {rows}
ON DUPLICATE KEY UPDATE
    amount = IF(VALUES(generation) >= generation, VALUES(amount), amount),
    rate_parts = IF(VALUES(generation) >= generation, VALUES(rate_parts), rate_parts),
    whole = IF(VALUES(generation) >= generation, VALUES(whole), whole),
    expires_at = IF(VALUES(generation) > generation, VALUES(expires_at),
        IF(VALUES(generation) = generation, GREATEST(expires_at, VALUES(expires_at)), expires_at)),
    acknowledged = IF(VALUES(generation) >= generation, GREATEST(acknowledged, VALUES(acknowledged)), acknowledged),
    before_amount = IF(VALUES(generation) >= generation, VALUES(before_amount), before_amount),
    before_rate_parts = IF(VALUES(generation) >= generation, VALUES(before_rate_parts), before_rate_parts),
    before_until = IF(VALUES(generation) >= generation, VALUES(before_until), before_until),
    generation = GREATEST(generation, VALUES(generation));
