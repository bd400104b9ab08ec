-- The version of the last entry.
SELECT version FROM tidegate_rule_head WHERE id = 1;
