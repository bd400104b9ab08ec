-- {version}, {at} in µs, {author}, {reason}, {changes}: how many, {nothing}: no bytes, {changed}: what, as bytes
INSERT INTO tidegate_rule_log (version, logged_at, author, reason, changes, changed, replaced)
VALUES ({version}, {at}, {author}, {reason}, {changes}, {changed}, {nothing});
