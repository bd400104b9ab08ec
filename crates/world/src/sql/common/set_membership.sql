-- {active}, {waiting}: ids, comma-separated, never empty; {version}
UPDATE tidegate_owners SET standing = CASE WHEN id IN ({active}) THEN 2 WHEN id IN ({waiting}) THEN 1 ELSE 0 END
WHERE standing <> 0 OR id IN ({active}) OR id IN ({waiting});
UPDATE tidegate_fleet SET membership_version = {version} WHERE id = 1;
