-- The last migration that was applied.
SELECT COALESCE(MAX(version), 0) FROM tidegate_schema;
