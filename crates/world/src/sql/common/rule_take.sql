-- {head}, {next}: takes the versions up to {next}, if the log is at {head}. From here on to the end of the transaction nobody else appends.
{begin}UPDATE tidegate_rule_head SET version = {next} WHERE id = 1 AND version = {head};
