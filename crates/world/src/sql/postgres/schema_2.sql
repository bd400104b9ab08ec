-- The log of the rules, for PostgreSQL. logged_at is in microseconds since 1970. What is changed, replaced and valued
-- is the control plane's, and so is what subjects, places and items are hashes of.
CREATE TABLE tidegate_rule_head (
    id BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO tidegate_rule_head (id, version) VALUES (1, 0);

CREATE TABLE tidegate_rule_log (
    version BIGINT NOT NULL PRIMARY KEY,
    logged_at BIGINT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    changes BIGINT NOT NULL,
    changed BYTEA NOT NULL,
    replaced BYTEA NOT NULL
);

CREATE TABLE tidegate_rule_subjects (
    subject BYTEA NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (subject, version)
);

CREATE TABLE tidegate_rules (
    place BYTEA NOT NULL,
    item BYTEA NOT NULL,
    value BYTEA NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (place, item)
);

INSERT INTO tidegate_schema (version) VALUES (2);
