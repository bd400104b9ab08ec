-- {version}, {replaced}: what its changes replaced, as bytes
UPDATE tidegate_rule_log SET replaced = {replaced} WHERE version = {version};
