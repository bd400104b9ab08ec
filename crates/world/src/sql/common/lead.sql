-- {job}, {holder}, {lease_us}
-- A row with the term when {holder} leads now. The term is set before the holder: MySQL assigns from left to right.
{insert} INTO tidegate_leases (job, holder, term, expires_at) VALUES ({job}, 0, 0, 0) {or_ignore};
UPDATE tidegate_leases SET
    term = CASE WHEN holder = {holder} AND term > 0 THEN term ELSE term + 1 END,
    holder = {holder},
    expires_at = {now} + {lease_us}
WHERE job = {job} AND ((holder = {holder} AND term > 0) OR expires_at <= {now});
SELECT term FROM tidegate_leases WHERE job = {job} AND holder = {holder} AND term > 0;
