-- One log of publishes, and the table of counts is made from it: merged_at, in microseconds since 1970 by the
-- database's clock as written_at is, is 0 until what an entry carries is in that table. Under a new name: what
-- earlier versions of Tidegate write is in the table already, and what they delete by age must not be this.
CREATE TABLE tidegate_publishes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    written_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    merged_at INTEGER NOT NULL DEFAULT 0,
    owner INTEGER NOT NULL,
    cells INTEGER NOT NULL,
    payload BLOB NOT NULL,
    names BLOB
);
CREATE INDEX tidegate_publishes_by_time ON tidegate_publishes (written_at, id);
CREATE INDEX tidegate_publishes_by_merge ON tidegate_publishes (merged_at, id);
DROP TABLE tidegate_log;

INSERT INTO tidegate_schema (version) VALUES (3);
