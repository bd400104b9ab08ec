-- The log of the rules, for SQLite. logged_at is in microseconds since 1970. What is changed, replaced and valued is
-- the control plane's, and so is what subjects, places and items are hashes of.
CREATE TABLE tidegate_rule_head (
    id INTEGER NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
);
INSERT INTO tidegate_rule_head (id, version) VALUES (1, 0);

CREATE TABLE tidegate_rule_log (
    version INTEGER NOT NULL PRIMARY KEY,
    logged_at INTEGER NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    changes INTEGER NOT NULL,
    changed BLOB NOT NULL,
    replaced BLOB NOT NULL
);

CREATE TABLE tidegate_rule_subjects (
    subject BLOB NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (subject, version)
) WITHOUT ROWID;

CREATE TABLE tidegate_rules (
    place BLOB NOT NULL,
    item BLOB NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (place, item)
) WITHOUT ROWID;

INSERT INTO tidegate_schema (version) VALUES (2);
