-- One log of publishes, and the table of counts is made from it: merged_at, in microseconds since 1970 by the
-- database's clock as written_at is, is 0 until what an entry carries is in that table. Under a new name: what
-- earlier versions of Tidegate write is in the table already, and what they delete by age must not be this.
CREATE TABLE IF NOT EXISTS tidegate_publishes (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    written_at BIGINT NOT NULL DEFAULT (CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)),
    merged_at BIGINT NOT NULL DEFAULT 0,
    owner BIGINT NOT NULL,
    cells BIGINT NOT NULL,
    payload MEDIUMBLOB NOT NULL,
    names MEDIUMBLOB,
    KEY tidegate_publishes_by_time (written_at),
    KEY tidegate_publishes_by_merge (merged_at, id)
) ENGINE=InnoDB;
DROP TABLE IF EXISTS tidegate_log;

INSERT INTO tidegate_schema (version) VALUES (3);
