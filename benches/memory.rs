//! Memory of a session that is loaded and idle, and of one that is not loaded.
//! `cargo bench --bench memory`. Linux only: it reads the resident set from the kernel.

mod measure;

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use callboard::bus::Bus;
use callboard::{Config, Durability};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Says to a process of this bench which figure is its own.
const KIND: &str = "CALLBOARD_MEMORY_OF";

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(kind) = std::env::var_os(KIND) {
        let idle_unload = if kind == "cold" { Duration::ZERO } else { Duration::MAX / 4 };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        println!("{:.0}", runtime.block_on(per_session(idle_unload))?);
        return Ok(());
    }
    println!("memory: bytes of resident set per session, {FEW} to {MANY} sessions");
    println!("  idle, loaded   {:>12}  (aim 2048)", measured("idle")?);
    println!("  not loaded     {:>12}  (aim 200)", measured("cold")?);
    Ok(())
}

/// Measures in a process of its own: what one has freed would be used again by the next.
fn measured(kind: &str) -> Result<String, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).env(KIND, kind).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// What a session adds, with the journals in memory, which is counted with it.
async fn per_session(idle_unload: Duration) -> Result<f64, Box<dyn Error>> {
    let mut config = Config::default();
    config.store.durability = Durability::Memory;
    config.life.idle_unload = idle_unload;
    let bus = measure::with_sink(Bus::builder().config(config)).open().await?;
    measure::people(&bus, FEW).await?;
    bus.quiet().await?;
    let before = resident_bytes()?;
    measure::more_people(&bus, FEW..MANY).await?;
    bus.quiet().await?;
    let after = resident_bytes()?;
    bus.shut_down().await?;
    Ok((after.saturating_sub(before)) as f64 / (MANY - FEW) as f64)
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no resident set")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib << 10)
}
