-- {after}, {rows_max}: the versions that follow, and how many bytes each has
SELECT version, LENGTH(changed) + LENGTH(replaced) FROM tidegate_rule_log
WHERE version > {after} ORDER BY version LIMIT {rows_max};
