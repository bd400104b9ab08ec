-- The fleet's secret; no row when none is stored.
SELECT secret FROM tidegate_secret WHERE id = 1;
