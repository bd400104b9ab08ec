-- One process migrates at a time, in one transaction. The number is Tidegate's own.
BEGIN;
SELECT 1::bigint FROM (SELECT pg_advisory_xact_lock(7310582496137485)) AS locked;
