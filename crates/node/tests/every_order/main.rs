//! The protocols that are easy to get wrong, in every order that their messages can come.
//!
//! No model of them: the real states, stores and reconciler take the steps, and a search tries every one that is
//! possible in every state that can be reached, within a small scope that each test names. Whatever is never delivered
//! is lost; what is delivered late, twice or after a crash is a step like any other. A search that finds more states
//! than it has room for fails: what was only looked into proves nothing. Each protocol is searched with a planted flaw
//! as well, which must be found; the way to it is printed, and is the shortest that there is. `recovery` searches what
//! the protocol is known to get wrong in the place of planted flaws: `recovery/known_failures.rs` lists it.

mod leader;
mod recovery;
mod search;
mod slices;
mod sync;

use search::{Broken, Explored, Protocol, every_order};

/// What must hold does, in every state; and there are enough of them to be worth the name.
fn holds<P: Protocol>(name: &str, start: P, states_min: usize) {
    match every_order(start) {
        Ok(Explored { states, steps, depth }) => {
            println!("{name}: {states} states, {steps} steps between them, {depth} deep");
            assert!(
                states >= states_min,
                "{name}: {states} states are fewer than {states_min}: a step is gone"
            );
        }
        Err(Broken { why, way }) => panic!("{name}: {why}\n{}", way.join("\n")),
    }
}

/// A planted flaw is found; says how.
fn breaks<P: Protocol>(name: &str, start: P) -> String {
    let Err(Broken { why, way }) = every_order(start) else { panic!("{name}: nobody noticed") };
    println!("{name}: {why}, after {} steps:\n{}", way.len(), way.join("\n"));
    why
}
