-- {subject}; {rows_max}: its versions, the latest first, and how many bytes each has
SELECT version, LENGTH(changed), LENGTH(replaced) FROM tidegate_rule_log
WHERE version IN (SELECT version FROM tidegate_rule_subjects WHERE subject = {subject})
ORDER BY version DESC LIMIT {rows_max};
