//! Many regions and the world store between them: every invariant holds at every step, and all is well again
//! within 10 s of the last fault.

use tidegate_sim::WorldSimulation;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::world::chaos::{WorldTrouble, scenario};

fn chaos(test: &'static str, trouble: WorldTrouble, seeds: u64) {
    for_each(TestName { file: "world", test }, 0..seeds, |seed| {
        let mut world = WorldSimulation::new(scenario(seed, trouble));
        world.run();
        let problems = world.unhealed();
        assert!(problems.is_empty(), "seed {seed}: {}", problems.join("\n"));
        let problems = world.admits_what_is_spent();
        assert!(problems.is_empty(), "seed {seed}: {}", problems.join("\n"));
    });
}

#[test]
fn calm_regions_agree() {
    chaos("calm_regions_agree", WorldTrouble::None, 100);
}

#[test]
fn the_way_to_the_store_is_bad() {
    chaos("the_way_to_the_store_is_bad", WorldTrouble::World, 300);
}

#[test]
fn everything_fails() {
    chaos("everything_fails", WorldTrouble::Everything, 300);
}
