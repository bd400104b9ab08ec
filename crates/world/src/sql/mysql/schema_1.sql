-- The tables of the world tier, for MySQL 8.0.13 and MariaDB 10.6 and later. Every instant is in microseconds
-- since 1970, by the database's clock, but for counts' expires_at, which follows from the cell. Keys are binary:
-- no collation ever decides what is equal. The readable columns are for people alone.
CREATE TABLE IF NOT EXISTS tidegate_schema (
    version BIGINT NOT NULL PRIMARY KEY
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_fleet (
    id BIGINT NOT NULL PRIMARY KEY,
    fingerprint BIGINT NOT NULL,
    policy VARCHAR(16) CHARACTER SET ascii NOT NULL,
    floor_millionths BIGINT NOT NULL,
    interval_us BIGINT NOT NULL,
    membership_version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    owners_given BIGINT NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_owners (
    id BIGINT NOT NULL PRIMARY KEY,
    region VARCHAR(48) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    origin BIGINT NOT NULL,
    standing BIGINT NOT NULL COMMENT '0 gone, 1 waits to share limits, 2 shares them',
    applied_version BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    UNIQUE KEY tidegate_owners_by_region (region, origin)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_counts (
    key_id BINARY(16) NOT NULL,
    epoch BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    count BIGINT NOT NULL,
    limit_count BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL DEFAULT (CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)),
    tenant VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    rule VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    identifier VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    PRIMARY KEY (key_id, epoch, sequence, owner),
    KEY tidegate_counts_by_expiry (expires_at)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_log (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    changed_at BIGINT NOT NULL DEFAULT (CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)),
    owner BIGINT NOT NULL,
    cells BIGINT NOT NULL,
    payload MEDIUMBLOB NOT NULL,
    KEY tidegate_log_by_change (changed_at)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_leases (
    job VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    holder BIGINT NOT NULL,
    term BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_demands (
    key_id BINARY(16) NOT NULL,
    owner BIGINT NOT NULL,
    algorithm BIGINT NOT NULL COMMENT '0 sliding window, 1 fixed window, 2 GCRA',
    amount BIGINT NOT NULL COMMENT 'limit, or burst',
    interval_ns BIGINT NOT NULL COMMENT 'period, or the interval of so many as the next column says',
    interval_of BIGINT NOT NULL,
    is_abuse BIGINT NOT NULL,
    milli_per_second BIGINT NOT NULL,
    reported_at BIGINT NOT NULL,
    tenant VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    rule VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    identifier VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    PRIMARY KEY (key_id, owner),
    KEY tidegate_demands_by_report (reported_at)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tidegate_slices (
    key_id BINARY(16) NOT NULL,
    owner BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    rate_parts BIGINT NOT NULL,
    whole BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    acknowledged BIGINT NOT NULL,
    before_amount BIGINT,
    before_rate_parts BIGINT,
    before_until BIGINT,
    PRIMARY KEY (key_id, owner),
    KEY tidegate_slices_by_owner (owner),
    KEY tidegate_slices_by_expiry (expires_at)
) ENGINE=InnoDB;

INSERT INTO tidegate_schema (version) VALUES (1);
