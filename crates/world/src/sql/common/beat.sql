-- {region}, {origin}, {fingerprint}, {applied}: of a region that is a member
UPDATE tidegate_owners SET seen_at = {now}, applied_version = {applied}
WHERE region = {region} AND origin = {origin} AND standing <> 0
    AND EXISTS (SELECT 1 FROM tidegate_fleet WHERE id = 1 AND fingerprint = {fingerprint});
