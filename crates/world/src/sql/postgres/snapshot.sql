-- The reads that follow see one state of everything.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
