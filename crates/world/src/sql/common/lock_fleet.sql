-- {fingerprint}, {policy}, {floor_millionths}, {interval_us}: recorded if nobody came before
-- Taken by a write from the first: who only reads a row can wait in a ring for those who do the same. From here on to the end of the transaction nobody else changes who takes part.
INSERT INTO tidegate_fleet
    (id, fingerprint, policy, floor_millionths, interval_us, membership_version, revision, owners_given)
VALUES (1, {fingerprint}, {policy}, {floor_millionths}, {interval_us}, 0, 0, 0)
{on_conflict} id = 1;
