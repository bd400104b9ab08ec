//! To come: a real Envoy.
