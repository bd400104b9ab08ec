-- {condition}: on place and item; {rows_max}
SELECT place, item, value, version FROM tidegate_rules WHERE {condition} ORDER BY place, item LIMIT {rows_max};
