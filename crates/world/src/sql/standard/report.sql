-- {rows}: (key_id, owner, algorithm, amount, interval_ns, interval_of, is_abuse, milli_per_second, reported_at, tenant, namespace, rule, identifier), …
INSERT INTO tidegate_demands
    (key_id, owner, algorithm, amount, interval_ns, interval_of, is_abuse, milli_per_second, reported_at,
    tenant, namespace, rule, identifier)
VALUES {rows}
ON CONFLICT (key_id, owner) DO UPDATE SET
    algorithm = excluded.algorithm, amount = excluded.amount, interval_ns = excluded.interval_ns,
    interval_of = excluded.interval_of, is_abuse = excluded.is_abuse,
    milli_per_second = excluded.milli_per_second, reported_at = excluded.reported_at,
    tenant = excluded.tenant, namespace = excluded.namespace, rule = excluded.rule, identifier = excluded.identifier
