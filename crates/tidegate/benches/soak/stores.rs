//! Looks at every Redis and at the database once a second while the run goes on, and says at once what may not be.
//!
//! INV-1: no count is ever seen smaller than before while its store lives. INV-2 and INV-4: none exceeds what was
//! admitted, or may have been. INV-5: what a region's store has of the others is no more than they admitted. INV-6: the
//! slices in force fit the limit.

use crate::books::Books;
use crate::episode::History;
use crate::ledger::{Component, Ledger};
use crate::recovering::Shortfalls;
use crate::scene::{REGIONS, Scene};
use crate::slices::largest_sum;
use crate::subject::{Allows, Family, Subject, ledgers_of};
use crate::summary::Findings;
use crate::time::{Stopwatch, pause};
use crate::watch::{Look, WatchLog, look};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_testkit::{Redis, RespClient, RespValue};
use tokio::runtime::{Builder, Runtime};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A stopped server is left alone until the next look.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Everything that checks need to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) subjects: &'a [Subject],
    pub(crate) books: &'a Books,
    pub(crate) history: &'a History,
    pub(crate) findings: &'a Findings,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) shortfalls: &'a Shortfalls,
    /// The wall clock at the stopwatch's start: cells are counted by it.
    pub(crate) began: Duration,
}

impl Run<'_> {
    /// Where a cell is on the stopwatch. Cells that began before it start at zero.
    pub(crate) fn cell(&self, sequence: u64, period: Duration) -> (Duration, Duration) {
        let at = |sequence: u64| {
            let seconds = period.as_secs().saturating_mul(sequence);
            Duration::from_secs(seconds).saturating_sub(self.began)
        };
        (at(sequence), at(sequence + 1))
    }

    /// The cell that holds an instant of the stopwatch.
    pub(crate) fn sequence(&self, at: Duration, period: Duration) -> u64 {
        (self.began + at).as_secs() / period.as_secs()
    }

    /// Subjects that are sent about now: all callers, and a cycle's ledger keys.
    fn watched(&self, cycle: Option<usize>) -> impl Iterator<Item = (usize, &Subject)> {
        let ledgers = cycle.map_or(0..0, ledgers_of);
        let is_watched = move |(index, subject): &(usize, &Subject)| {
            subject.family != Family::Ledger || ledgers.contains(index)
        };
        self.subjects.iter().enumerate().filter(is_watched)
    }
}

/// A hash of a region's store, as numbers.
pub(crate) type Cell = BTreeMap<String, u64>;

/// A connection to a region's store, made anew when it fails.
#[derive(Debug)]
pub(crate) struct Reader {
    runtime: Runtime,
    client: Option<RespClient>,
}

impl Reader {
    pub(crate) fn new() -> Result<Self, String> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        Ok(Reader { runtime, client: None })
    }

    /// All cells of a key's epoch, by what their names end with: a sequence, or `g`. Nothing when the store doesn't
    /// answer.
    pub(crate) fn cells(&mut self, redis: &Redis, key: u128, epoch: u16) -> Option<BTreeMap<String, Cell>> {
        let stem = stem(key, epoch);
        let names = self.ask(redis, &["KEYS", &format!("{stem}*")])?;
        let mut cells = BTreeMap::new();
        for name in names.items().iter().filter_map(RespValue::text) {
            let fields = self.ask(redis, &["HGETALL", &name])?;
            let texts: Vec<String> = fields.items().iter().filter_map(RespValue::text).collect();
            let numbers =
                texts.chunks(2).filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.parse().ok()?)));
            cells.insert(name.strip_prefix(&stem).unwrap_or_default().to_owned(), numbers.collect());
        }
        Some(cells)
    }

    fn ask(&mut self, redis: &Redis, words: &[&str]) -> Option<RespValue> {
        let Reader { runtime, client } = self;
        let asked = runtime.block_on(async {
            let work = async {
                let mut open = match client.take() {
                    Some(open) => open,
                    None => redis.client().await?,
                };
                let reply = open.command(words).await?;
                Ok::<_, std::io::Error>((open, reply))
            };
            tokio::time::timeout(ANSWER_WITHIN, work).await
        });
        let (open, reply) = asked.ok()?.ok()?;
        *client = Some(open);
        (!matches!(reply, RespValue::Error(_))).then_some(reply)
    }
}

/// What the names of a key's cells begin with in Redis.
pub(crate) fn stem(key: u128, epoch: u16) -> String {
    format!("tidegate:{{{:08x}}}:{key:032x}:{epoch}:", key & 0xffff_ffff)
}

/// A region's count of a cell: the sum of its nodes, or what was ever claimed.
pub(crate) fn total(cell: &Cell) -> u64 {
    let of = |field: &str| cell.get(field).copied().unwrap_or(0);
    of("s").max(of("f"))
}

/// Looks until the run is over.
pub(crate) fn watch(run: &Run<'_>, is_over: &AtomicBool) -> Result<(), String> {
    let mut readers: Vec<Reader> = (0..REGIONS).map(|_| Reader::new()).collect::<Result<_, _>>()?;
    let (mut ledger, mut known) = (run.scene.ledger()?, CountMaxima::default());
    while !is_over.load(Ordering::Relaxed) {
        let began = run.stopwatch.elapsed();
        let cycle = run.books.cycle_of_ledgers();
        for (region, reader) in readers.iter_mut().enumerate() {
            look_at_region(run, region, cycle, reader, &mut known);
        }
        look_at_database(run, &mut ledger, &mut known);
        run.stopwatch.wait_until(began + LOOK_EVERY);
        pause(LOOK_EVERY / 20);
    }
    Ok(())
}

/// The largest that was ever seen of every count.
#[derive(Default, Debug)]
struct CountMaxima {
    /// By region, life of its store, key, cell and field.
    regions: HashMap<(usize, usize, u128, String, String), u64>,
    /// By life of the database, key, epoch, cell and owner.
    rows: HashMap<(usize, u128, u64, u64, u32), u64>,
}

/// Counts and instants that only grow; the others are of no count.
fn grows(field: &str) -> bool {
    field.starts_with("c:") || ["s", "f", "w", "p"].contains(&field)
}

fn look_at_region(
    run: &Run<'_>,
    region: usize,
    cycle: Option<usize>,
    reader: &mut Reader,
    known: &mut CountMaxima,
) {
    for (index, subject) in run.watched(cycle) {
        // A store that forgets meanwhile is another one afterwards.
        let Some(life) = run.history.life(region) else { return };
        let Some(cells) = reader.cells(&run.scene.regions[region].redis, subject.key, 0) else { return };
        let read_at = run.stopwatch.elapsed();
        if run.history.life(region) != Some(life) {
            return;
        }
        run.findings.looked_at_region();
        for (name, cell) in cells {
            for (field, value) in cell.iter().filter(|(field, _)| grows(field)) {
                let place = (region, life, subject.key, name.clone(), field.clone());
                let largest = known.regions.entry(place).or_insert(*value);
                if value < largest {
                    run.findings.broken(
                        "INV-1: a count of a region's store decreased",
                        format!(
                            "{} in region {region}, cell {name}, {field}: {largest}, then {value}",
                            subject.name
                        ),
                    );
                }
                *largest = (*largest).max(*value);
            }
            compare(run, region, (index, subject), (&name, &cell), read_at);
        }
    }
}

/// With what was sent.
fn compare(
    run: &Run<'_>,
    region: usize,
    (index, subject): (usize, &Subject),
    (name, cell): (&str, &Cell),
    read_at: Duration,
) {
    let Allows::Window { period, .. } = subject.family.allows() else { return };
    let Ok(sequence) = name.parse::<u64>() else { return };
    let (from, to) = run.cell(sequence, period);
    let to = to.min(read_at);
    let components: u64 =
        cell.iter().filter(|(field, _)| field.starts_with("c:")).map(|(_, count)| count).sum();
    let of = |field: &str| cell.get(field).copied().unwrap_or(0);
    let own = run.books.most(index, Some(region), from, to);
    let counted = components.max(of("s")).max(of("f"));
    if counted > own {
        run.findings.broken(
            "INV-2, INV-4: a region's store has more than its nodes can have admitted",
            format!(
                "{} in region {region}, cell {name}: {counted} of {own} at most ({cell:?})",
                subject.name
            ),
        );
    }
    let others =
        run.books.most(index, None, from, to).saturating_sub(run.books.most(index, Some(region), from, to));
    if of("w") > others {
        let world = of("w");
        run.findings.broken(
            "INV-5: a region's store has more of the others than they can have admitted",
            format!("{} in region {region}, cell {name}: {world} of {others} at most", subject.name),
        );
    }
}

fn look_at_database(run: &Run<'_>, ledger: &mut Ledger, known: &mut CountMaxima) {
    let Some(life) = run.history.life_of_database() else { return };
    let Some(seen) = look(ledger, run.stopwatch) else { return };
    if run.history.life_of_database() != Some(life) {
        return;
    }
    run.findings.looked_at_database();
    for Component { key, epoch, sequence, owner, count } in &seen.components {
        let largest = known.rows.entry((life, *key, *epoch, *sequence, *owner)).or_insert(*count);
        if count < largest {
            run.findings.broken(
                "INV-1: a row of the database decreased",
                format!("key {key:032x}, cell {sequence}, owner {owner}: {largest}, then {count}"),
            );
        }
        *largest = (*largest).max(*count);
    }
    for (index, subject) in run.subjects.iter().enumerate().filter(|(_, subject)| subject.family.is_world()) {
        match subject.family.allows() {
            Allows::Window { period, .. } => compare_rows(run, (index, subject), period, &seen),
            Allows::Rate { burst, .. } => compare_slices(run, subject, u64::from(burst), &seen),
        }
    }
}

/// No row beyond what its region can have admitted.
fn compare_rows(run: &Run<'_>, (index, subject): (usize, &Subject), period: Duration, seen: &Look) {
    for row in seen.components.iter().filter(|row| row.key == subject.key) {
        let Some(owner) = seen.owners.iter().find(|owner| owner.id == row.owner) else { continue };
        let Some(region) = run.scene.regions.iter().position(|region| region.name == owner.region) else {
            continue;
        };
        let (from, to) = run.cell(row.sequence, period);
        let most = run.books.most(index, Some(region), from, to.min(seen.until));
        if row.count > most {
            run.findings.broken(
                "INV-2: a row has more than its region can have admitted",
                format!(
                    "{} of {}, cell {}: {} of {most} at most",
                    subject.name, owner.region, row.sequence, row.count
                ),
            );
        }
    }
}

fn compare_slices(run: &Run<'_>, subject: &Subject, limit: u64, seen: &Look) {
    let sum = largest_sum(&WatchLog { looks: vec![seen.clone()] }, subject.key, limit);
    if sum > 0.0 {
        run.findings.saw_slices();
    }
    if sum > 1.0 {
        run.findings
            .broken("INV-6: slices sum to more than the limit", format!("{}: {sum} of it", subject.name));
    }
}
