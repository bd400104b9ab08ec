-- One process migrates at a time. 1 when it is ours; others wait up to ten seconds.
SELECT CAST(GET_LOCK(CONCAT('tidegate.', LEFT(MD5(DATABASE()), 24)), 10) AS SIGNED);
