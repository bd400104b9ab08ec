-- {columns}: of a summary; {before}: versions below; {of_subject}: a condition, or nothing; {rows_max}
SELECT {columns} FROM tidegate_rule_log
WHERE version < {before} {of_subject} ORDER BY version DESC LIMIT {rows_max};
