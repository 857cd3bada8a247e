//! Scenarios that hold the bus and its archive to their promises, and the rules of the house.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "in a test, a panic is how a broken promise is told"
)]

mod archive;
mod bus_agents;
mod bus_cleaned;
mod bus_close;
mod bus_cold;
mod bus_crash;
mod bus_damage;
mod bus_disk;
mod bus_driver;
mod bus_failed;
mod bus_fallen;
mod bus_given_back;
mod bus_mail;
mod bus_mended;
mod bus_names;
mod bus_opened;
mod bus_refusals;
mod bus_restart;
mod bus_room;
mod bus_stop;
mod bus_turns;
mod cast;
mod chance;
mod cli;
mod crash_faults;
mod crash_lock;
mod crash_names;
mod crash_power;
mod crash_reader;
mod crash_recovery;
mod crash_rot;
mod disks;
mod faults;
mod golden;
mod house;
mod ledger;
mod log_basics;
mod log_cleaner;
mod log_crash;
mod log_damage;
mod log_golden;
mod log_lost;
mod log_opening;
mod log_panic;
mod log_reader;
mod log_room;
mod log_threads;
mod log_world;
mod machine_failures;
mod machine_inbox;
mod machine_law;
mod machine_outbox;
mod machine_reports;
mod machine_script;
mod machine_turns;
mod scenario_faults;
mod script;
mod search_acts;
mod search_break;
mod search_delivery;
mod search_explore;
mod search_ghost;
mod search_walk;
mod search_world;
mod tidy;
mod truth;
mod workload;
mod writer;
