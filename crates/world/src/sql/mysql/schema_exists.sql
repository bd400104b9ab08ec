-- Whether there is a schema at all.
SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'tidegate_schema';
