-- {job}
-- From here on to the end of the transaction nobody else leads, and nobody joins or leaves.
UPDATE tidegate_leases SET term = term WHERE job = {job};
UPDATE tidegate_fleet SET membership_version = membership_version WHERE id = 1;
SELECT COALESCE((SELECT term FROM tidegate_leases WHERE job = {job}), 0),
    COALESCE((SELECT membership_version FROM tidegate_fleet WHERE id = 1), 0),
    COALESCE((SELECT revision FROM tidegate_fleet WHERE id = 1), 0);
