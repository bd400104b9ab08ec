-- The reads that follow see one state of everything.
BEGIN;
