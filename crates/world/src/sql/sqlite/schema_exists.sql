-- Whether there is a schema at all.
SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'tidegate_schema';
