-- {rows}: (key_id, epoch, sequence, owner, count, limit_count, expires_at, changed_at, tenant, namespace, rule, identifier), …
-- With names, which a cell's first row has: merge.sql is the same without them.
-- Merges by max. What didn't grow stays as it is.
INSERT INTO tidegate_counts
    (key_id, epoch, sequence, owner, count, limit_count, expires_at, changed_at, tenant, namespace, rule, identifier)
VALUES {rows}
ON CONFLICT (key_id, epoch, sequence, owner) DO UPDATE SET
    count = excluded.count,
    limit_count = excluded.limit_count,
    expires_at = {greatest}(tidegate_counts.expires_at, excluded.expires_at),
    changed_at = excluded.changed_at,
    tenant = COALESCE(tidegate_counts.tenant, excluded.tenant),
    namespace = COALESCE(tidegate_counts.namespace, excluded.namespace),
    rule = COALESCE(tidegate_counts.rule, excluded.rule),
    identifier = COALESCE(tidegate_counts.identifier, excluded.identifier)
WHERE excluded.count > tidegate_counts.count;
