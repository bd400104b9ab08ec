-- The version of the last entry. Taken by a write from the first: from here on to the end of the transaction nobody else appends.
{begin}UPDATE tidegate_rule_head SET version = version WHERE id = 1;
SELECT version FROM tidegate_rule_head WHERE id = 1;
