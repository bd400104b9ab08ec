//! Target 3: one region alone, the others idle. Being accurate between regions must not cost a caller who is in one
//! of them what the limit allows.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note, ratio};
use crate::generator::Width;
use crate::overshoot::PERIOD;
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::scene::{Policy, REGIONS, Scene, nodes_of};
use crate::time::{at_next_cell, with_room_in_cell};
use std::time::Duration;

const BAR: u8 = 3;
const CLASSES: [&str; 2] = ["paid", "abuse"];
const NUMBER: u32 = 1000;
const COUNTED_PER_SECOND: f64 = 100.0;
const COUNTED: usize = 1500;
/// Of a rate, and of a window of ten seconds with as much.
const RATE: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);
const OFFERED_PER_SECOND: f64 = 200.0;
const OFFERED_FOR: Duration = Duration::from_secs(20);
/// A quota is the region's by then.
const SETTLED: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// What is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Counts,
    Rate,
    Window,
}

struct Run {
    kind: Kind,
    region: usize,
    shape: Shape,
    class: &'static str,
}

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "each region with keys of its own, nobody else asks about them. Counts: 1,500 requests at 100 a second; \
         quotas: twice the rate is offered from the beginning of a cell on, admitted in the seconds 10 to 20",
    );
    let scene = Scene::start(setting, Policy::Headroom)?;
    let mut plan = Plan::default();
    for run in runs() {
        run.add(&mut plan);
    }
    with_room_in_cell(PERIOD, OFFERED_FOR * 2);
    let mut generator = scene.generator(Width::APART)?;
    // What a sliding window admits in ten seconds depends on where in its cell they begin.
    let samples = generator.run(&plan, at_next_cell(WINDOW)).map_err(|error| error.to_string())?;
    for run in runs() {
        run.report(&samples.of_kind(run.kind));
    }
    Ok(())
}

fn runs() -> impl Iterator<Item = Run> {
    let shapes = [Shape::Counts, Shape::Rate, Shape::Window];
    let cases = shapes.into_iter().flat_map(|shape| CLASSES.map(|class| (shape, class)));
    cases
        .flat_map(|(shape, class)| (0..REGIONS).map(move |region| (region, shape, class)))
        .zip(0..)
        .map(|((region, shape, class), kind)| Run { kind, region, shape, class })
}

impl Run {
    fn add(&self, plan: &mut Plan) {
        let identifier = format!("alone-{}", self.kind);
        let limit = match self.shape {
            Shape::Counts => Limit::new(identifier, u64::from(NUMBER), PERIOD),
            Shape::Rate => Limit::rate(identifier, RATE, RATE),
            Shape::Window => Limit::new(identifier, u64::from(RATE) * WINDOW.as_secs(), WINDOW),
        };
        let (per_second, count) = match self.shape {
            Shape::Counts => (COUNTED_PER_SECOND, COUNTED),
            Shape::Rate | Shape::Window => (OFFERED_PER_SECOND, 4000),
        };
        let (kind, from, nodes) = (self.kind, Duration::ZERO, nodes_of(self.region));
        let limits = [limit.class(self.class)];
        plan.add(&Stream { kind, from, count, per_second, nodes: Nodes::InTurn(&nodes), limits: &limits });
    }

    fn report(&self, samples: &Samples) {
        let class = self.class;
        let case = match self.shape {
            Shape::Counts => format!("1,000 per 5 min, {class}"),
            Shape::Rate => format!("100 a second, {class}"),
            Shape::Window => format!("1,000 per 10 s, {class}"),
        };
        let figures = Figures::of(BAR, format!("one region alone: {case}"));
        if self.shape == Shape::Counts {
            let admitted = ratio(samples.admitted(), f64::from(NUMBER));
            figures.worst("admitted ÷ limit", admitted, Bounds::AtLeast(0.99));
        } else {
            let allowance = f64::from(RATE) * (OFFERED_FOR - SETTLED).as_secs_f64();
            let admitted = ratio(samples.between(SETTLED, OFFERED_FOR).admitted(), allowance);
            figures.worst("admitted ÷ limit in the seconds 10 to 20", admitted, Bounds::AtLeast(0.80));
        }
        if self.shape == Shape::Rate {
            figures.told("80 % of the rate from second", first_second(samples));
        }
        figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    }
}

/// The first from which on every second admits enough.
fn first_second(samples: &Samples) -> f64 {
    let seconds = u32::try_from(OFFERED_FOR.as_secs()).unwrap_or(0);
    let is_enough = |second: &u32| {
        let from = SECOND * *second;
        ratio(samples.between(from, from + SECOND).admitted(), f64::from(RATE)) >= 0.80
    };
    let late = (0..seconds).rfind(|second| !is_enough(second));
    f64::from(late.map_or(0, |second| second + 1))
}
