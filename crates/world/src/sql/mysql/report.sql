-- {rows}: (key_id, owner, algorithm, amount, interval_ns, interval_of, is_abuse, milli_per_second, reported_at, tenant, namespace, rule, identifier), …
INSERT INTO tidegate_demands
    (key_id, owner, algorithm, amount, interval_ns, interval_of, is_abuse, milli_per_second, reported_at,
    tenant, namespace, rule, identifier)
VALUES {rows}
ON DUPLICATE KEY UPDATE
    algorithm = VALUES(algorithm), amount = VALUES(amount), interval_ns = VALUES(interval_ns),
    interval_of = VALUES(interval_of), is_abuse = VALUES(is_abuse),
    milli_per_second = VALUES(milli_per_second), reported_at = VALUES(reported_at),
    tenant = VALUES(tenant), namespace = VALUES(namespace), rule = VALUES(rule), identifier = VALUES(identifier)
