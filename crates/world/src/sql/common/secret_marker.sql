-- The fingerprint of the secret that the regions use; no row when none ever joined.
SELECT fingerprint FROM tidegate_fleet WHERE id = 1;
