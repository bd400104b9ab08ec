-- Whether there is a schema at all. Not by to_regclass, which remembers that there was none.
SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'tidegate_schema';
