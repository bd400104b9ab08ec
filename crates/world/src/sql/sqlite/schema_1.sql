-- The tables of the world tier, for SQLite. Every instant is in microseconds since 1970, by
-- the database's clock, but for counts' expires_at, which follows from the cell. Keys are binary. The readable
-- columns are for people alone.
CREATE TABLE tidegate_schema (
    version INTEGER NOT NULL PRIMARY KEY
);

CREATE TABLE tidegate_fleet (
    id INTEGER NOT NULL PRIMARY KEY,
    fingerprint INTEGER NOT NULL,
    policy TEXT NOT NULL,
    floor_millionths INTEGER NOT NULL,
    interval_us INTEGER NOT NULL,
    membership_version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    owners_given INTEGER NOT NULL
);

-- standing: 0 gone, 1 waits to share limits, 2 shares them
CREATE TABLE tidegate_owners (
    id INTEGER NOT NULL PRIMARY KEY,
    region TEXT NOT NULL,
    origin INTEGER NOT NULL,
    standing INTEGER NOT NULL,
    applied_version INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    confirmed_at INTEGER NOT NULL,
    UNIQUE (region, origin)
);

CREATE TABLE tidegate_counts (
    key_id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    count INTEGER NOT NULL,
    limit_count INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    tenant TEXT,
    namespace TEXT,
    rule TEXT,
    identifier TEXT,
    PRIMARY KEY (key_id, epoch, sequence, owner)
) WITHOUT ROWID;
CREATE INDEX tidegate_counts_by_expiry ON tidegate_counts (expires_at);

CREATE TABLE tidegate_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    changed_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    owner INTEGER NOT NULL,
    cells INTEGER NOT NULL,
    payload BLOB NOT NULL
);
CREATE INDEX tidegate_log_by_change ON tidegate_log (changed_at, id);

CREATE TABLE tidegate_leases (
    job TEXT NOT NULL PRIMARY KEY,
    holder INTEGER NOT NULL,
    term INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);

-- algorithm: 0 sliding window, 1 fixed window, 2 GCRA; amount: limit, or burst; interval_ns: period, or the
-- interval of interval_of
CREATE TABLE tidegate_demands (
    key_id BLOB NOT NULL,
    owner INTEGER NOT NULL,
    algorithm INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    interval_ns INTEGER NOT NULL,
    interval_of INTEGER NOT NULL,
    is_abuse INTEGER NOT NULL,
    milli_per_second INTEGER NOT NULL,
    reported_at INTEGER NOT NULL,
    tenant TEXT,
    namespace TEXT,
    rule TEXT,
    identifier TEXT,
    PRIMARY KEY (key_id, owner)
);
CREATE INDEX tidegate_demands_by_report ON tidegate_demands (reported_at);

CREATE TABLE tidegate_slices (
    key_id BLOB NOT NULL,
    owner INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    rate_parts INTEGER NOT NULL,
    whole INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL,
    before_amount INTEGER,
    before_rate_parts INTEGER,
    before_until INTEGER,
    PRIMARY KEY (key_id, owner)
);
CREATE INDEX tidegate_slices_by_owner ON tidegate_slices (owner);
CREATE INDEX tidegate_slices_by_expiry ON tidegate_slices (expires_at);

INSERT INTO tidegate_schema (version) VALUES (1);
