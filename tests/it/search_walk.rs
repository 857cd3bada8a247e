//! Long walks through worlds that are too large to be searched: many messages, many faults.

use super::chance::Chance;
use super::search_acts::Act;
use super::search_break::Broken;
use super::search_delivery::plan;
use super::search_ghost::Violation;
use super::search_world::{Plan, World};

const WALKS: u64 = 1_000;
const WALKS_LONG: u64 = 20_000;
/// More than any walk needs to come to rest.
const ACTS_MAX: usize = 20_000;

fn world(seed: u64) -> Plan {
    let all = [(0, 1, 6), (1, 0, 6), (0, 2, 6), (2, 0, 6), (1, 2, 6), (2, 1, 6)];
    let mut plan = Plan { faults: 14, broken: Broken::None, ..plan(3, &all) };
    plan.ready = [vec![], vec![1], vec![0, 1, 2]][(seed % 3) as usize].clone();
    plan.closes = seed.is_multiple_of(4).then_some(1);
    plan.revokes = seed.is_multiple_of(5);
    plan.told = !seed.is_multiple_of(7);
    plan.limits.window = 1 + seed % 3;
    plan.limits.attempts_max = 1 + (seed % 2) as u32;
    plan
}

/// Walks until all is still, and keeps the way.
fn walk(plan: &Plan, chance: &mut Chance, way: &mut Vec<Act>) -> Result<(), Violation> {
    let mut world = World::start(plan)?;
    // Some walks are mostly faults, some mostly none.
    let calm = 2 + chance.below(30);
    while way.len() < ACTS_MAX {
        let ordinary = world.ordinary(plan);
        let faults = world.faults(plan);
        let fault = !faults.is_empty() && chance.below(calm) == 0;
        let acts = if fault { faults } else { ordinary };
        if acts.is_empty() {
            return world.check_rest(plan);
        }
        let act = acts[chance.below(acts.len())];
        way.push(act);
        world = world.after(plan, act)?;
    }
    Err("from here nothing comes to rest")
}

#[test]
fn m28_m29_m37_m57_promises_hold_on_long_walks_through_many_faults() {
    let long = std::env::var_os("CALLBOARD_LONG").is_some();
    let mut n_acts = 0;
    for seed in 0..if long { WALKS_LONG } else { WALKS } {
        let mut way = Vec::new();
        let walked = walk(&world(seed), &mut Chance(seed), &mut way);
        n_acts += way.len();
        assert!(walked.is_ok(), "seed {seed}: {walked:?} after {} acts: {way:?}", way.len());
    }
    println!("{n_acts} acts");
}
