//! The scenarios of this repository, in the binary too, so that they can be run anywhere.

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        pub const KNOWN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../scenarios/", $name, ".toml")))),*];
    };
}

scenarios![
    "burst",
    "ten-regions-headroom",
    "ten-regions-floor",
    "ten-regions-240k",
    "free-zone",
    "attacker",
    "failover",
    "store-down",
    "rule-change",
    "brokers-down",
    "hot-key",
    "fourth-region",
    "sidecars",
];

/// A scenario's text.
pub fn known(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_can_be_read_and_expects_something() {
        for (name, text) in KNOWN {
            let plan = crate::fleet::read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!plan.expect.is_empty(), "{name} expects nothing");
        }
    }
}
