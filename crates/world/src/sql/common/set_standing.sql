-- {id}, {standing}, {applied}, {version}: an owner joins or leaves
UPDATE tidegate_owners SET standing = {standing}, applied_version = {applied}, seen_at = {now} WHERE id = {id};
UPDATE tidegate_fleet SET membership_version = {version} WHERE id = 1;
