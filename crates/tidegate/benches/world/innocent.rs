//! Target 1, two ways to charge the innocent: a request larger than its limit, and one that is denied
//! for what the window before has. Neither consumes anything, so neither may cost another region anything.

use crate::figures::{Bounds, Figures};
use crate::overshoot::{BAR, PERIOD};
use crate::plan::Limit;
use crate::scene::{REGIONS, Scene};
use crate::time::{at_next_cell, pause, with_room_in_cell};
use std::time::Duration;

const NUMBER: u64 = 1000;
/// Longer than counts take to every region.
const TOLD_EVERYWHERE: Duration = Duration::from_secs(3);
/// The shortest whose counts are shared between regions.
const MINUTE: Duration = Duration::from_secs(60);
const SPENT: u64 = 800;
/// With what still weighs of the window before, too much in the first 7.5 s.
const WANTED: u64 = 300;

pub(crate) fn measure(scene: &Scene) -> Result<(), String> {
    oversized(scene)?;
    bled_into(scene)
}

fn oversized(scene: &Scene) -> Result<(), String> {
    let limit = Limit::new("oversized", NUMBER, PERIOD);
    with_room_in_cell(PERIOD, TOLD_EVERYWHERE * 2);
    let asked = ask(scene, 0, &limit.clone().cost(2 * NUMBER))?;
    let figures = Figures::of(BAR, "a cold request larger than its limit");
    figures.worst("denied", f64::from(u8::from(!asked.0)), Bounds::AtLeast(1.0));
    pause(TOLD_EVERYWHERE);
    let (remaining, mut admitted) = (ask(scene, 1, &limit.clone().exact())?.1 + 1, 0_u32);
    figures.worst("left in another region", shown(remaining), Bounds::AtLeast(shown(NUMBER)));
    for _ in 0..10 {
        // All of the limit but what the look has taken, half in each of the other regions.
        for region in 1..REGIONS {
            admitted += u32::from(ask(scene, region, &limit.clone().exact().cost(NUMBER / 20 - 1))?.0);
        }
    }
    figures.worst("admitted of 20 requests elsewhere", f64::from(admitted), Bounds::AtLeast(20.0));
    Ok(())
}

/// Two keys alike; one of them has a request denied. The other one says what it should make no difference to.
fn bled_into(scene: &Scene) -> Result<(), String> {
    let [denied, control] =
        ["denied", "control"].map(|name| Limit::new(format!("bled-{name}"), NUMBER, MINUTE));
    with_room_in_cell(MINUTE, TOLD_EVERYWHERE);
    for limit in [&denied, &control] {
        ask(scene, 0, &limit.clone().cost(SPENT))?;
    }
    let stopwatch = at_next_cell(MINUTE);
    stopwatch.wait_until(Duration::from_millis(500));
    let asked = ask(scene, 0, &denied.clone().cost(WANTED))?;
    stopwatch.wait_until(Duration::from_millis(500) + TOLD_EVERYWHERE);
    let figures = Figures::of(BAR, "a denial by the previous window");
    figures.worst("denied", f64::from(u8::from(!asked.0)), Bounds::AtLeast(1.0));
    for region in 1..REGIONS {
        // What fades between the two looks is in favour of the second.
        let [expected, found] = [&control, &denied].map(|limit| ask(scene, region, &limit.clone().exact()));
        let (expected, found) = (expected?.1, found?.1);
        figures.told("left in another region", shown(found));
        let lost = shown(expected) - shown(found);
        figures.worst("less than without the denial", lost.max(0.0), Bounds::AtMost(0.0));
    }
    Ok(())
}

/// Whether it was allowed, and what remains.
fn ask(scene: &Scene, region: usize, limit: &Limit) -> Result<(bool, u64), String> {
    let asked = scene.regions[region].fleet.0[0].ask(limit)?;
    Ok((asked.allowed, asked.remaining))
}

fn shown(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
