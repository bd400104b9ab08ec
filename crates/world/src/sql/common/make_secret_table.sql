-- One row: the fleet's secret, after the version of its form.
CREATE TABLE IF NOT EXISTS tidegate_secret (id BIGINT NOT NULL PRIMARY KEY, secret VARCHAR(64) NOT NULL);
