-- {subject}
AND version IN (SELECT version FROM tidegate_rule_subjects WHERE subject = {subject})
