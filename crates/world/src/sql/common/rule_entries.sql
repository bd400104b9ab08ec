-- {columns}: of a summary; {after}, {last}: the versions behind the one, up to the other
SELECT {columns}, changed, replaced FROM tidegate_rule_log
WHERE version > {after} AND version <= {last} ORDER BY version;
