-- {revision}: what was granted has a new one
UPDATE tidegate_fleet SET revision = {revision} WHERE id = 1;
