-- Nothing: the options of the connection say it all.
SELECT 1;
