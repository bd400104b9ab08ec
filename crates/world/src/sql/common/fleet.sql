-- {mine}: a condition on further owners to be named
-- What all go by, with a row for every member; one row without an owner when there is none.
SELECT {now}, fleet.fingerprint, fleet.policy, fleet.floor_millionths, fleet.interval_us, fleet.membership_version,
    fleet.revision, fleet.owners_given, owners.id, owners.region, owners.origin, owners.standing, owners.applied_version,
    owners.seen_at, owners.confirmed_at
FROM tidegate_fleet AS fleet LEFT JOIN tidegate_owners AS owners ON owners.standing <> 0 OR ({mine})
WHERE fleet.id = 1
ORDER BY owners.id;
