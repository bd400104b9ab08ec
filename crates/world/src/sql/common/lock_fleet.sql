-- {fingerprint}, {policy}, {floor_millionths}, {interval_us}: recorded if nobody came before
-- From here on to the end of the transaction nobody else changes who takes part.
{insert} INTO tidegate_fleet
    (id, fingerprint, policy, floor_millionths, interval_us, membership_version, revision, owners_given)
VALUES (1, {fingerprint}, {policy}, {floor_millionths}, {interval_us}, 0, 0, 0) {or_ignore};
UPDATE tidegate_fleet SET membership_version = membership_version WHERE id = 1;
