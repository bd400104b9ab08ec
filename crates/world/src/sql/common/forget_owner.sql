-- {id}: what an owner that left asked for and held
DELETE FROM tidegate_demands WHERE owner = {id};
DELETE FROM tidegate_slices WHERE owner = {id};
