//! When nothing is wrong any more: within ten seconds every node has the same rules, and every store and every node
//! knows what was admitted of the cycle's ledger keys, to the last unit.
//!
//! What was admitted in a region lies between what callers were told and that with what they never heard of. Only a
//! killed node's last tenth of a second may be missing.

use crate::books::Attempt;
use crate::bounds::LOST_WITH_NODE;
use crate::fleet::read_decision;
use crate::ledger::Ledger;
use crate::samples::Verdict;
use crate::scene::{NODES, NODES_PER_REGION, REGIONS};
use crate::stores::{Reader, Run, total};
use crate::subject::{LEDGER_LIMIT, ledger_limit, ledgers_of};
use crate::time::pause;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

pub(crate) const AGREED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Waits until all agree, and says what doesn't when they don't in time. How long it took, since everything was mended.
pub(crate) fn check(run: &Run<'_>, cycle: usize, mended: Duration) -> Result<Option<Duration>, String> {
    let mut readers: Vec<Reader> = (0..REGIONS).map(|_| Reader::new()).collect::<Result<_, _>>()?;
    let mut ledger = run.scene.ledger()?;
    for index in ledgers_of(cycle) {
        if run.books.of(index).iter().any(|attempt| attempt.is_denied()) {
            run.findings.broken("INV-3: a denial while there was room", run.subjects[index].name.clone());
        }
    }
    // A look that was begun in time counts: a busy machine takes its time to look.
    let until = mended + AGREED_WITHIN;
    loop {
        let began = run.stopwatch.elapsed();
        let differences = differences(run, cycle, &mut readers, &mut ledger);
        if differences.is_empty() {
            let unheard = unheard(run, cycle);
            if unheard.is_empty() {
                let took = began.saturating_sub(mended);
                run.findings.agreed(took);
                return Ok(Some(took));
            }
            if began > until {
                report(run, &unheard);
                return Ok(None);
            }
        } else if began > until {
            report(run, &differences);
            return Ok(None);
        }
        pause(LOOK_EVERY);
    }
}

fn report(run: &Run<'_>, differences: &[String]) {
    run.findings
        .broken("not all agree within 10 s of the last heal, or something is lost", differences.join("; "));
}

/// What stores and rules still say otherwise.
fn differences(run: &Run<'_>, cycle: usize, readers: &mut [Reader], ledger: &mut Ledger) -> Vec<String> {
    let mut found = Vec::new();
    let head = run.scene.head();
    for node in 0..NODES {
        let version = run.scene.version(node);
        if version.is_none() || version != head {
            found.push(format!("node {node} goes by version {version:?} of the rules, the head is {head:?}"));
        }
    }
    let (Some(owners), Some(rows)) = (ledger.owners(), ledger.components()) else {
        found.push("the database doesn't answer".to_owned());
        return found;
    };
    for index in ledgers_of(cycle) {
        let subject = &run.subjects[index];
        let mut counted = Vec::new();
        for (region, reader) in run.scene.regions.iter().zip(readers.iter_mut()) {
            let Some(cells) = reader.cells(&region.redis, subject.key, 0) else {
                found.push(format!("the Redis of {} doesn't answer", region.name));
                return found;
            };
            let world: u64 = cells.values().map(|cell| cell.get("w").copied().unwrap_or(0)).sum();
            let published: u64 = rows
                .iter()
                .filter(|row| row.key == subject.key)
                .filter(|row| owners.iter().any(|owner| owner.id == row.owner && owner.region == region.name))
                .map(|row| row.count)
                .sum();
            counted.push((cells.values().map(total).sum::<u64>(), published, world));
        }
        let sum: u64 = counted.iter().map(|(own, ..)| own).sum();
        for (place, (own, published, world)) in counted.iter().enumerate() {
            let (least, most) = expected(run, index, place);
            if !(least..=most).contains(own) || published != own || own + world != sum {
                found.push(format!(
                    "{} in region {place}: Redis has {own} ({least} to {most} were admitted), the database {published}, and \
                     of the others Redis has {world} of {}",
                    subject.name,
                    sum - own
                ));
            }
        }
    }
    found
}

/// What a region admitted of a ledger key: between these.
fn expected(run: &Run<'_>, index: usize, region: usize) -> (u64, u64) {
    let attempts = run.books.of(index).clone();
    let own = || attempts.iter().filter(|attempt| attempt.region() == region);
    let admitted = own().filter(|attempt| attempt.is_admitted()).count();
    let most = own().map(Attempt::weight).sum();
    let mut lost = 0;
    for (node, at) in run.history.killed(Some(region)) {
        let unpublished = own().filter(|attempt| {
            usize::from(attempt.node) == node
                && attempt.is_admitted()
                && attempt.at <= at
                && attempt.decided_by() + LOST_WITH_NODE >= at
        });
        lost += unpublished.count();
    }
    // What survivors admit while Redis recovers, the others don't know of; and a dead node can't repeat its own.
    let begins = own().map(|attempt| attempt.at).min().unwrap_or_default();
    for (from, until) in run.history.recovered_without_a_node(region, begins) {
        lost += own().filter(|attempt| attempt.is_admitted() && attempt.may_be_within(from, until)).count();
    }
    run.findings.may_be_lost(lost);
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    (number(admitted.saturating_sub(lost)), most)
}

/// Asks every node, and says which of them doesn't know all.
fn unheard(run: &Run<'_>, cycle: usize) -> Vec<String> {
    let mut found = Vec::new();
    for (index, number) in ledgers_of(cycle).zip(0..) {
        let request = ledger_limit(cycle, number).exact().request();
        let least: u64 = (0..REGIONS).map(|region| expected(run, index, region).0).sum();
        let mut known = Vec::new();
        for node in 0..NODES {
            let at = run.stopwatch.elapsed();
            let place = run.books.sent(index, node, at);
            let address = run.scene.node(node).http;
            let asked = TcpStream::connect(address)
                .and_then(|mut stream| stream.write_all(&request).map(|()| stream))
                .map_err(|error| error.to_string())
                .and_then(read_decision);
            let verdict = match &asked {
                Ok(asked) if asked.allowed => Verdict::Admitted,
                Ok(_) => Verdict::Denied,
                Err(_) => Verdict::Error,
            };
            let unverified = asked.as_ref().is_ok_and(|asked| asked.unverified);
            run.books.answered(index, place, run.stopwatch.elapsed(), (verdict, unverified));
            known.push(
                asked.ok().filter(|asked| !asked.unverified).map(|asked| LEDGER_LIMIT - asked.remaining),
            );
        }
        // Others' asks of this round take a moment to cross.
        let spread = u64::try_from(NODES).unwrap_or(0);
        for (node, known) in known.iter().enumerate() {
            if known.is_none_or(|known| known + spread < least) {
                found.push(format!(
                    "node {node} (region {}) knows of {known:?} of {least} admitted of {}",
                    node / NODES_PER_REGION,
                    run.subjects[index].name
                ));
            }
        }
    }
    found
}
