-- {id}, {region}: an origin's region has another name by now
UPDATE tidegate_owners SET region = {region} WHERE id = {id};
