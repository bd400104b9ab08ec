-- {place}, {items}: those of it that are gone
DELETE FROM tidegate_rules WHERE place = {place} AND item IN ({items});
