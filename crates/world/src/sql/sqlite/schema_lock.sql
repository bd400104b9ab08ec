-- One process migrates at a time, in one transaction.
BEGIN EXCLUSIVE;
SELECT 1;
