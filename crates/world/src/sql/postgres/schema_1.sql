-- The tables of the world tier, for PostgreSQL 12 and later. Every instant is in microseconds since 1970, by
-- the database's clock, but for counts' expires_at, which follows from the cell. Keys are binary. The readable
-- columns are for people alone.
CREATE TABLE tidegate_schema (
    version BIGINT NOT NULL PRIMARY KEY
);

CREATE TABLE tidegate_fleet (
    id BIGINT NOT NULL PRIMARY KEY,
    fingerprint BIGINT NOT NULL,
    policy TEXT NOT NULL,
    floor_millionths BIGINT NOT NULL,
    interval_us BIGINT NOT NULL,
    membership_version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    owners_given BIGINT NOT NULL
);

-- standing: 0 gone, 1 waits to share limits, 2 shares them
CREATE TABLE tidegate_owners (
    id BIGINT NOT NULL PRIMARY KEY,
    region TEXT COLLATE "C" NOT NULL,
    origin BIGINT NOT NULL,
    standing BIGINT NOT NULL,
    applied_version BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    UNIQUE (region, origin)
);

CREATE TABLE tidegate_counts (
    key_id BYTEA NOT NULL,
    epoch BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    count BIGINT NOT NULL,
    limit_count BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    tenant VARCHAR(191),
    namespace VARCHAR(255),
    rule VARCHAR(255),
    identifier VARCHAR(512),
    PRIMARY KEY (key_id, epoch, sequence, owner)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tidegate_counts_by_expiry ON tidegate_counts (expires_at);

CREATE TABLE tidegate_log (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    changed_at BIGINT NOT NULL DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    owner BIGINT NOT NULL,
    cells BIGINT NOT NULL,
    payload BYTEA NOT NULL
);
CREATE INDEX tidegate_log_by_change ON tidegate_log (changed_at, id);

CREATE TABLE tidegate_leases (
    job TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder BIGINT NOT NULL,
    term BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- algorithm: 0 sliding window, 1 fixed window, 2 GCRA; amount: limit, or burst; interval_ns: period, or the
-- interval of interval_of
CREATE TABLE tidegate_demands (
    key_id BYTEA NOT NULL,
    owner BIGINT NOT NULL,
    algorithm BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    interval_ns BIGINT NOT NULL,
    interval_of BIGINT NOT NULL,
    is_abuse BIGINT NOT NULL,
    milli_per_second BIGINT NOT NULL,
    reported_at BIGINT NOT NULL,
    tenant VARCHAR(191),
    namespace VARCHAR(255),
    rule VARCHAR(255),
    identifier VARCHAR(512),
    PRIMARY KEY (key_id, owner)
);
CREATE INDEX tidegate_demands_by_report ON tidegate_demands (reported_at);

CREATE TABLE tidegate_slices (
    key_id BYTEA NOT NULL,
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
    PRIMARY KEY (key_id, owner)
);
CREATE INDEX tidegate_slices_by_owner ON tidegate_slices (owner);
CREATE INDEX tidegate_slices_by_expiry ON tidegate_slices (expires_at);

INSERT INTO tidegate_schema (version) VALUES (1);
