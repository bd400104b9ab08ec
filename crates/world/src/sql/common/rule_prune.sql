-- {version}; {changed}, {replaced}: what is left of it, as bytes
UPDATE tidegate_rule_log SET changed = {changed}, replaced = {replaced} WHERE version = {version};
