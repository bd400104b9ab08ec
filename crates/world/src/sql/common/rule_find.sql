-- {place}, {items}: those of it that are asked for
SELECT place, item, value, version FROM tidegate_rules WHERE place = {place} AND item IN ({items});
