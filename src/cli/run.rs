//! `callboard run`: a scenario until all is quiet.
//!
//! **Invariant**: the scenario is read and checked whole before anything is made.

use std::fs;

use callboard::sim::run;
use callboard::sim::scenario::Scenario;

use super::args::RunArgs;
use super::exit::{FLAGS, Failure, UNUSABLE};
use super::stage;

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let RunArgs { scenario: path, store, json } = args;
    let bytes = fs::read(path).map_err(|error| Failure::io("read the scenario", path, &error))?;
    let malformed = |what: &str| {
        Failure::new(UNUSABLE, format!("malformed scenario {}: {what}", path.display()))
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| malformed("it is not UTF-8 text"))?;
    let config = store.options().config();
    config.validate().map_err(|refused| Failure::new(FLAGS, refused.text))?;
    let scenario = Scenario::parse_for(text, &config).map_err(|unfit| malformed(&unfit.0))?;
    stage::perform(store, config, *json, |stage| run::run(scenario, stage))
}
