-- {head}: the version of the last of the entries that were written before it, in one transaction
UPDATE tidegate_rule_head SET version = {head} WHERE id = 1;
COMMIT
