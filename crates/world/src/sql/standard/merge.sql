-- {rows}: (key_id, epoch, sequence, owner, count, limit_count, expires_at, changed_at), …; instants in µs
-- Merges by max. What didn't grow stays as it is.
INSERT INTO tidegate_counts
    (key_id, epoch, sequence, owner, count, limit_count, expires_at, changed_at)
VALUES {rows}
ON CONFLICT (key_id, epoch, sequence, owner) DO UPDATE SET
    count = excluded.count,
    limit_count = excluded.limit_count,
    expires_at = {greatest}(tidegate_counts.expires_at, excluded.expires_at),
    changed_at = excluded.changed_at
WHERE excluded.count > tidegate_counts.count;
