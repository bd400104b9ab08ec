//! The ways in which a network fails.

use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ProxyFault {
    /// A network that works.
    #[default]
    None,
    /// Each direction's bytes arrive so much later, as many of them as before. Rounded up to a millisecond.
    Latency(Duration),
    /// Connections are accepted and read from; nothing is forwarded, not even their end.
    Blackhole,
    /// What clients send vanishes.
    DropToUpstream,
    /// What the server answers vanishes: requests take effect, and nobody learns of it.
    DropToClient,
    /// Connections are reset (RST), new ones as soon as they are accepted.
    Reset,
    /// Nobody listens, and connections are closed, as when a server has ended.
    Refuse,
    /// Each direction of each connection carries so much.
    Bandwidth { bytes_per_second: u32 },
    /// Answers are replaced by as many random bytes, the same ones for the same seed and connection number.
    Garbage { seed: u64 },
}

/// The direction in which bytes flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    ToUpstream,
    ToClient,
}

/// What a fault does to bytes of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Pass,
    Delay(Duration),
    Pace { bytes_per_second: u32 },
    Vanish,
    Garble { seed: u64 },
    End,
}

impl ProxyFault {
    pub(super) fn effect(self, way: Way) -> Effect {
        match (self, way) {
            (ProxyFault::None, _) => Effect::Pass,
            (ProxyFault::Latency(latency), _) => Effect::Delay(latency),
            (ProxyFault::Bandwidth { bytes_per_second }, _) => Effect::Pace { bytes_per_second },
            (ProxyFault::Blackhole, _)
            | (ProxyFault::DropToUpstream, Way::ToUpstream)
            | (ProxyFault::DropToClient, Way::ToClient) => Effect::Vanish,
            (ProxyFault::Garbage { seed }, Way::ToClient) => Effect::Garble { seed },
            (ProxyFault::Reset | ProxyFault::Refuse, _) => Effect::End,
            (ProxyFault::DropToUpstream | ProxyFault::DropToClient | ProxyFault::Garbage { .. }, _) => {
                Effect::Pass
            }
        }
    }

    pub(super) fn ends_connections(self) -> bool {
        matches!(self, ProxyFault::Reset | ProxyFault::Refuse)
    }
}

impl Effect {
    /// Bytes arrive as they were sent: on a connection that lost some, that would be nonsense.
    pub(super) fn delivers(self) -> bool {
        matches!(self, Effect::Pass | Effect::Delay(_) | Effect::Pace { .. })
    }
}
