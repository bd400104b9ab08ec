-- {owner}, {cells}, {payload}: the rows that were published just now, packed
INSERT INTO tidegate_log (owner, cells, payload) VALUES ({owner}, {cells}, {payload});
