-- {rows}: (key_id, owner, generation, amount, rate_parts, whole, expires_at, acknowledged, before_amount, before_rate_parts, before_until), …
-- An older generation is ignored, the same one renews.
INSERT INTO tidegate_slices
    (key_id, owner, generation, amount, rate_parts, whole, expires_at, acknowledged, before_amount, before_rate_parts,
    before_until)
VALUES {rows}
ON CONFLICT (key_id, owner) DO UPDATE SET
    generation = excluded.generation,
    amount = excluded.amount,
    rate_parts = excluded.rate_parts,
    whole = excluded.whole,
    expires_at = CASE WHEN excluded.generation > tidegate_slices.generation THEN excluded.expires_at
        ELSE {greatest}(tidegate_slices.expires_at, excluded.expires_at) END,
    acknowledged = {greatest}(tidegate_slices.acknowledged, excluded.acknowledged),
    before_amount = excluded.before_amount,
    before_rate_parts = excluded.before_rate_parts,
    before_until = excluded.before_until
WHERE excluded.generation >= tidegate_slices.generation;
