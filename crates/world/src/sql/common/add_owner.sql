-- {id}, {region}, {origin}
INSERT INTO tidegate_owners (id, region, origin, standing, applied_version, seen_at, confirmed_at)
VALUES ({id}, {region}, {origin}, 0, 0, 0, 0);
