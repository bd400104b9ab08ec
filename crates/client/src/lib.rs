//! Asks a Tidegate node whether requests may pass, over HTTP or the Redis protocol, by TCP or a Unix socket.
//!
//! An answer comes within the deadline, whatever happens to the node: when it can't be asked, what was chosen
//! for that case is the answer, and says so. Connections are kept and used again. [`LimitLayer`] limits a tower
//! service (an axum app) by a node or, with the feature `embedded`, in this process.
//!
//! ```no_run
//! # async fn run() -> Result<(), tidegate_client::ClientError> {
//! use tidegate_client::{Client, OnFailure};
//!
//! let client = Client::unix("/run/tidegate.sock").on_failure(OnFailure::Allow);
//! let answer = client.check("api", &[("user", "42")], 1).await?;
//! if !answer.allowed {
//!     println!("come back in {:?}", answer.retry_after());
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
mod client;
#[cfg(feature = "embedded")]
mod embedded;
mod endpoint;
mod layer;
mod redis_protocol;
#[cfg(feature = "tls")]
mod tls;

pub use answer::{CheckResponse, LimitStatus, ResponseSource};
pub use client::{Client, ClientError, OnFailure};
#[cfg(feature = "embedded")]
pub use embedded::{Embedded, RulesError};
pub use layer::{CheckRequest, LimitLayer, LimitService, Limiter};
pub use redis_protocol::{RedisClient, ThrottleReply};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};

// Names of earlier releases.
#[doc(hidden)]
pub use {
    answer::{CheckResponse as Answer, LimitStatus as LimitAnswer, ResponseSource as Source},
    layer::CheckRequest as Limit,
    redis_protocol::ThrottleReply as Throttled,
};
