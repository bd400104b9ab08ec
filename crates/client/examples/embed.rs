//! The whole limiter in a program of a dozen lines: `cargo run -p tidegate-client --example embed --features embedded`

use tidegate_client::Embedded;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter =
        Embedded::from_yaml("namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 3 per 1m }")?;
    for number in 1..=5 {
        let answer = limiter.check("api", &[("user", "42")], 1)?;
        println!("{number}: allowed {}, come back in {:?}", answer.allowed, answer.retry_after());
    }
    Ok(())
}
