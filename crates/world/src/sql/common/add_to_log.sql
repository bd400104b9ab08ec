-- {owner}, {cells}: how many; {payload}: what is published, packed; {names}: of cells that are new, packed, or NULL
INSERT INTO tidegate_publishes (owner, cells, payload, names) VALUES ({owner}, {cells}, {payload}, {names});
