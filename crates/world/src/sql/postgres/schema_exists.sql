-- Whether there is a schema at all.
SELECT count(to_regclass('tidegate_schema'));
