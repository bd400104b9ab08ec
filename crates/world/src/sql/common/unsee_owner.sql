-- {id}: an owner that left is given up by the reconciler as one that was never heard of
UPDATE tidegate_owners SET seen_at = 0 WHERE id = {id};
