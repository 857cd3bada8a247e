//! Breadth first over every state of a world.
//!
//! **Invariant**: every state is expanded once, all that can happen in it; a violation comes with
//! the shortest way to it; from every state the ordinary course of things leads to rest.

use std::collections::HashMap;

use super::search_acts::Act;
use super::search_ghost::Violation;
use super::search_world::{Plan, World};

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    /// Ends of the ordinary course of things.
    pub(crate) rests: usize,
    /// The longest way, in things that happen.
    pub(crate) depth: usize,
    /// The first violation, with the way to it.
    pub(crate) violation: Option<(Violation, Vec<Act>)>,
}

#[derive(Default)]
struct Graph {
    known: HashMap<u64, u32>,
    /// How each state was first reached.
    reached: Vec<Option<(u32, Act)>>,
    /// Ordinary steps, from and to.
    ordinary: Vec<(u32, u32)>,
    rests: Vec<u32>,
}

impl Graph {
    /// The number of a state, and whether it is new.
    fn enter(&mut self, digest: u64, from: Option<(u32, Act)>) -> (u32, bool) {
        let next = u32::try_from(self.reached.len()).unwrap();
        let number = *self.known.entry(digest).or_insert(next);
        if number == next {
            self.reached.push(from);
        }
        (number, number == next)
    }

    fn way_to(&self, state: u32) -> Vec<Act> {
        let mut way = Vec::new();
        let mut at = state;
        while let Some((before, act)) = self.reached[at as usize] {
            way.push(act);
            at = before;
        }
        way.reverse();
        way
    }

    /// A state from which the ordinary course of things never comes to rest.
    fn restless(&self) -> Option<u32> {
        let n = self.reached.len();
        let mut starts = vec![0_u32; n + 1];
        for (_, to) in &self.ordinary {
            starts[*to as usize + 1] += 1;
        }
        for at in 0..n {
            starts[at + 1] += starts[at];
        }
        let mut place = starts.clone();
        let mut before = vec![0_u32; self.ordinary.len()];
        for (from, to) in &self.ordinary {
            before[place[*to as usize] as usize] = *from;
            place[*to as usize] += 1;
        }
        let mut rested = vec![false; n];
        let mut open = self.rests.clone();
        while let Some(state) = open.pop() {
            if std::mem::replace(&mut rested[state as usize], true) {
                continue;
            }
            let range = starts[state as usize] as usize..starts[state as usize + 1] as usize;
            open.extend(before[range].iter().filter(|state| !rested[**state as usize]));
        }
        rested.iter().position(|rested| !rested).map(|state| u32::try_from(state).unwrap())
    }
}

/// Searches the whole world, or until a promise is broken.
pub(crate) fn explore(plan: &Plan) -> Found {
    let mut graph = Graph::default();
    let mut depth = 0;
    let violation = widen(plan, &mut graph, &mut depth).err().or_else(|| {
        let restless = graph.restless()?;
        Some(("from here nothing comes to rest", graph.way_to(restless)))
    });
    Found { states: graph.reached.len(), rests: graph.rests.len(), depth, violation }
}

fn widen(plan: &Plan, graph: &mut Graph, depth: &mut usize) -> Result<(), (Violation, Vec<Act>)> {
    let mut start = World::start(plan).map_err(|violation| (violation, Vec::new()))?;
    let (number, _) = graph.enter(start.digest(None), None);
    let mut rim = vec![(number, start)];
    while !rim.is_empty() {
        let mut next = Vec::new();
        for (number, world) in rim {
            expand(plan, graph, (number, &world), &mut next)?;
        }
        rim = next;
        *depth += usize::from(!rim.is_empty());
    }
    Ok(())
}

fn expand(
    plan: &Plan,
    graph: &mut Graph,
    (number, world): (u32, &World),
    next: &mut Vec<(u32, World)>,
) -> Result<(), (Violation, Vec<Act>)> {
    let ordinary = world.ordinary(plan);
    if ordinary.is_empty() {
        world.check_rest(plan).map_err(|violation| (violation, graph.way_to(number)))?;
        graph.rests.push(number);
    }
    let n_ordinary = ordinary.len();
    for (place, act) in ordinary.into_iter().chain(world.faults(plan)).enumerate() {
        let mut after = world.after(plan, act).map_err(|violation| {
            let mut way = graph.way_to(number);
            way.push(act);
            (violation, way)
        })?;
        let (reached, new) = graph.enter(after.digest(Some(world)), Some((number, act)));
        if place < n_ordinary {
            graph.ordinary.push((number, reached));
        }
        if new {
            next.push((reached, after));
        }
    }
    Ok(())
}
