-- {rows}: (key_id, epoch, sequence, owner, count, limit_count, expires_at, changed_at, tenant, namespace, rule, identifier), …
-- With names, which a cell's first row has: merge.sql is the same without them.
-- Merges by max. What didn't grow stays as it is; assignments are made from left to right, so count comes last.
INSERT INTO tidegate_counts
    (key_id, epoch, sequence, owner, count, limit_count, expires_at, changed_at, tenant, namespace, rule, identifier)
VALUES {rows}
ON DUPLICATE KEY UPDATE
    changed_at = IF(VALUES(count) > count, VALUES(changed_at), changed_at),
    limit_count = IF(VALUES(count) > count, VALUES(limit_count), limit_count),
    expires_at = IF(VALUES(count) > count, GREATEST(expires_at, VALUES(expires_at)), expires_at),
    tenant = COALESCE(tenant, VALUES(tenant)),
    namespace = COALESCE(namespace, VALUES(namespace)),
    rule = COALESCE(rule, VALUES(rule)),
    identifier = COALESCE(identifier, VALUES(identifier)),
    count = GREATEST(count, VALUES(count));
