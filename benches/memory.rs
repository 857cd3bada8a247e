//! Memory of a session that is loaded and idle, and of one that is not loaded.
//! `cargo bench --bench memory`. Linux only: it reads the resident set from the kernel.

mod measure;

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use callboard::bus::Bus;
use callboard::{Config, Durability};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Tell a process of this bench how many sessions to measure, and where they are kept.
const SESSIONS: &str = "CALLBOARD_MEMORY_OF";
const DATA: &str = "CALLBOARD_MEMORY_IN";

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let argument = |name: &str| std::env::var(name).ok();
    if let (Some(count), dir) = (argument(SESSIONS), argument(DATA)) {
        println!("{}", runtime.block_on(resident(count.parse()?, dir))?);
        return Ok(());
    }
    println!("memory: bytes of resident set per session, {FEW} to {MANY} sessions");
    let idle = measured(MANY, None)? - measured(FEW, None)?;
    println!("  idle, loaded   {:>12.0}  (aim 2048)", idle / (MANY - FEW) as f64);
    let (few, many) = (measure::scratch()?, measure::scratch()?);
    // The first process makes the sessions, the second finds them in their journals.
    let [few, many] = [(FEW, few.path()), (MANY, many.path())]
        .map(|(count, dir)| measured(count, Some(dir)).and_then(|_| measured(count, Some(dir))));
    let cold = many? - few?;
    println!("  not loaded     {:>12.0}  (aim 200)", cold / (MANY - FEW) as f64);
    Ok(())
}

/// Measures in a process of its own: what one has freed would be used again by the next.
fn measured(count: usize, dir: Option<&Path>) -> Result<f64, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(SESSIONS, count.to_string());
    dir.map(|dir| command.env(DATA, dir.join("data")));
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// The resident set with so many sessions: made, loaded and idle, with their journals in memory; or
/// found in a data directory, and not loaded.
async fn resident(count: usize, dir: Option<String>) -> Result<u64, Box<dyn Error>> {
    let mut config = Config::default();
    config.life.idle_unload = Duration::from_secs(24 * 3_600);
    let made = dir.as_ref().is_some_and(|dir| Path::new(dir).exists());
    let builder = match dir {
        Some(dir) => {
            config.store.durability = Durability::Written;
            Bus::builder().data_dir(dir)
        }
        None => {
            config.store.durability = Durability::Memory;
            Bus::builder()
        }
    };
    let bus = measure::with_sink(builder.config(config)).open().await?;
    if !made {
        measure::people(&bus, FEW).await?;
        measure::more_people(&bus, FEW..count).await?;
    }
    bus.quiet().await?;
    let bytes = resident_bytes()?;
    bus.shut_down().await?;
    Ok(bytes)
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no resident set")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib << 10)
}
