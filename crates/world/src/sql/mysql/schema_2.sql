-- The log of the rules, for MySQL and MariaDB. logged_at is in microseconds since 1970. What is changed, replaced and
-- valued is the control plane's, and so is what subjects, places and items are hashes of.
CREATE TABLE IF NOT EXISTS tidegate_rule_head (
    id BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
) ENGINE=InnoDB;
INSERT IGNORE INTO tidegate_rule_head (id, version) VALUES (1, 0);

CREATE TABLE IF NOT EXISTS tidegate_rule_log (
    version BIGINT NOT NULL PRIMARY KEY,
    logged_at BIGINT NOT NULL,
    author VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    reason VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    changes BIGINT NOT NULL,
    changed MEDIUMBLOB NOT NULL,
    replaced MEDIUMBLOB NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_rule_subjects (
    subject BINARY(16) NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (subject, version)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_rules (
    place BINARY(16) NOT NULL,
    item BINARY(32) NOT NULL,
    value MEDIUMBLOB NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (place, item)
) ENGINE=InnoDB;

INSERT INTO tidegate_schema (version) VALUES (2);
