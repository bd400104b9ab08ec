//! Attacks on every surface that a caller can reach: one table of attacks, one list of surfaces, and a cell for each
//! pair. No attack may get more admitted than the rules allow, and an honest caller beside the attacker keeps its limit.
//!
//! Proxies run with the files of `examples/`, changed only in their ports. To add a front end or a proxy example, add a
//! surface in `surfaces.rs`; to add an attack, add a row in `attacks.rs`. A pair that makes no sense says why.

#[path = "../process/service_example.rs"]
mod service_example;
#[path = "../process/support.rs"]
#[allow(dead_code, reason = "shared with other test programs")]
mod support;

mod attacks;
mod http;
mod proxies;
mod surfaces;

use attacks::{ATTACKS, Attack, Rule};
use std::net::Ipv4Addr;
use surfaces::Surface;

/// The attacker goes on after the limit for so many requests.
const BEYOND: u32 = 6;

#[test]
fn no_attack_through_nginx_gets_past_the_limits() {
    attack(&surfaces::nginx());
}

#[test]
fn no_attack_through_caddy_gets_past_the_limits() {
    attack(&surfaces::caddy());
}

#[test]
fn no_attack_through_envoy_gets_past_the_limits() {
    attack(&surfaces::envoy());
}

#[test]
fn no_attack_through_the_tower_layer_gets_past_the_limits() {
    attack(&surfaces::tower());
}

#[test]
fn no_attack_over_the_redis_protocol_gets_past_the_limits() {
    attack(&surfaces::resp());
}

#[test]
fn no_attack_over_native_http_gets_past_the_limits() {
    attack(&surfaces::native());
}

/// Runs every attack that applies to a surface, prints the row of each, and fails with all cells that broke.
fn attack(surface: &Surface) {
    let mut broken = Vec::new();
    for (index, attack) in ATTACKS.iter().enumerate() {
        let cell = match (surface.why_not)(attack) {
            Some(reason) => format!("does not apply: {reason}"),
            None => match run(surface, attack, u8::try_from(index).unwrap()) {
                Ok(outcome) => outcome,
                Err(problem) => {
                    broken.push(format!("{}: {problem}", attack.name));
                    format!("BROKEN: {problem}")
                }
            },
        };
        println!("{:<8} {:<40} {cell}", surface.name, attack.name);
    }
    assert!(broken.is_empty(), "{}:\n{}", surface.name, broken.join("\n"));
}

/// One cell. Attacker and honest caller have addresses and names of their own in each.
fn run(surface: &Surface, attack: &Attack, index: u8) -> Result<String, String> {
    let attacker =
        attacks::Caller { name: format!("mallory-{index}"), address: Ipv4Addr::new(127, 0, 1, index + 1) };
    let honest =
        attacks::Caller { name: format!("honest-{index}"), address: Ipv4Addr::new(127, 0, 2, index + 1) };
    let asks = |caller: &attacks::Caller| surface.is_admitted(&attacks::plain(caller, 0), caller);
    let bound = attack.rule.limit();
    let requests = bound + BEYOND;
    let _held = (attack.hold)(surface);
    surface.use_names(&(attack.names)(surface, &attacker));
    let attacks = |round| surface.is_admitted(&(attack.request)(&attacker, round), &attacker);
    let mut honest_admitted = u32::from(asks(&honest));
    let mut admitted = 0;
    if attack.is_at_once {
        std::thread::scope(|scope| {
            let sent: Vec<_> = (0..requests).map(|round| scope.spawn(move || attacks(round))).collect();
            honest_admitted += u32::from(asks(&honest));
            admitted = sent.into_iter().map(|thread| u32::from(thread.join().unwrap())).sum();
        });
    } else {
        for round in 0..requests {
            admitted += u32::from(attacks(round));
            if round == requests / 2 {
                honest_admitted += u32::from(asks(&honest));
            }
        }
    }
    honest_admitted += u32::from(asks(&honest));
    if admitted > bound {
        return Err(format!("{admitted} of {requests} were admitted, the rule allows {bound}"));
    }
    if honest_admitted != Rule::User.limit() {
        let wanted = Rule::User.limit();
        return Err(format!("of an honest caller's {wanted} requests {honest_admitted} were admitted"));
    }
    if asks(&honest) {
        return Err("an honest caller passed its limit".to_owned());
    }
    Ok(format!("{admitted} of {requests} admitted, the rule allows {bound}"))
}
