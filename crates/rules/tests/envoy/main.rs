//! Files of envoyproxy/ratelimit: what they mean, what is wrong with them, and what they become.

mod arbitrary;
mod bad_files;
mod direct;
mod importing;
mod matching;
mod metrics;
mod reading;
mod sequences;
