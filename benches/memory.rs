//! Memory of a session that is loaded and idle, and of one that is not loaded.
//! `cargo bench --bench memory`. Linux only: it reads the resident set from the kernel.

mod measure;

use std::error::Error;
use std::time::Duration;

use callboard::bus::Bus;
use callboard::{Config, Durability};

const FEW: usize = 1_000;
const MANY: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("memory: bytes of resident set per session, {FEW} to {MANY} sessions");
    let idle = runtime.block_on(per_session(Duration::from_secs(24 * 3_600)))?;
    println!("  idle, loaded   {idle:>12.0}  (aim 2048)");
    let cold = runtime.block_on(per_session(Duration::ZERO))?;
    println!("  not loaded     {cold:>12.0}  (aim 200)");
    Ok(())
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
