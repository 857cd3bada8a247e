//! Every limit: its unit, its default and its bound, validated once when a bus opens.
//!
//! **Boundary**: a limit lives here or nowhere. Durations are `Duration`, sizes are bytes.

use std::time::Duration;

use crate::error::{Code, Refused};

/// What a receipt promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Flushed before the answer: survives kill -9 and power loss.
    #[default]
    Sync,
    /// Handed to the kernel before the answer, flushed now and then: survives kill -9, not power
    /// loss. After a power loss a prefix survives.
    Written,
    /// Kept in memory: for simulation. Survives nothing.
    Memory,
}

/// Limits of the law: what a session may do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Mail queued for a target or accepted by it and not yet taken by a turn, over all senders.
    /// Default 64; 1 to 1,000,000.
    pub pending_max: u64,
    /// A message with its envelope as stored, in bytes. Default 65,536; 1 KiB to 1 MiB: the
    /// envelope alone counts half a KiB.
    pub message_max: usize,
    /// Dispatched and unacknowledged messages per (sender, target). Default 32; 1 to 4,096.
    pub window: u64,
    /// Messages offered to one turn, at its start and at later steps. Default 64; 1 to 4,096.
    pub steers_max: usize,
    /// Sends, at once or staged, in one turn. Default 64; 1 to 65,536.
    pub sends_per_turn: usize,
    /// Attempts of a message before it is dead. Default 5; 1 to 100.
    pub attempts_max: u32,
    /// An agent's kept state as stored, in bytes. Default 256 KiB; 0 to 1 MiB.
    pub agent_state_max: usize,
    /// Wait before a failed turn's messages are offered again, doubled with each attempt up to
    /// 64 times. Default 100 ms; 0 to 1 h.
    pub retry_backoff: Duration,
    /// Wait before an unanswered dispatch is sent again, doubled each time up to 64 times.
    /// Default 1 s; 1 ms to 1 h.
    pub resend_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            pending_max: 64,
            message_max: 65_536,
            window: 32,
            steers_max: 64,
            sends_per_turn: 64,
            attempts_max: 5,
            agent_state_max: 256 * 1024,
            retry_backoff: Duration::from_millis(100),
            resend_after: Duration::from_secs(1),
        }
    }
}

/// Limits of the archive: bytes and files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// What a receipt promises. Default `sync`.
    pub durability: Durability,
    /// A segment file, in bytes; a multiple of 4,096. Default 16 MiB; 8 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// The largest frame, in bytes; it fits a segment with its group's header. Default 4 MiB;
    /// at least 2 KiB and 4,096 below `segment_bytes`.
    pub frame_max: usize,
    /// A session's chain since its last snapshot, in frames, that calls for the next one; a chain
    /// longer than 4 times the snapshot's bytes, or than 64 KiB where the snapshot is small, does
    /// so too. Default 256; 1 to 1,000,000.
    pub snapshot_every: u64,
    /// Log written between two saves of the heads, in bytes. 0 means max(64 MiB, 4 × their own
    /// size), the default.
    pub heads_every: u64,
    /// What becomes of a freed segment. Default `keep`.
    pub history: History,
    /// Frames waiting for a commit over all sessions. Default 65,536; 16 to 10,000,000.
    pub queue_max: usize,
    /// Bytes waiting for a commit over all sessions. Default 64 MiB; 64 KiB to 4 GiB.
    pub queue_bytes_max: usize,
    /// Bytes that one session may have waiting for a commit. Default 8 MiB; 4 KiB to 4 GiB.
    pub share_bytes_max: usize,
    /// Bytes of one group. Default 8 MiB, and never over a segment; 4 KiB to 1 GiB.
    pub group_bytes_max: usize,
    /// In `written` durability, the longest time between two flushes. Default 1 s; 1 ms to 1 h.
    pub flush_every: Duration,
    /// The longest a lazy frame waits for a commit to ride with. Default 1 s; 0 to 1 min.
    pub lazy_commit: Duration,
}

/// What becomes of a segment that no replay needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum History {
    /// It is moved aside and stays readable.
    #[default]
    Keep,
    /// It is removed: for load and soak.
    Drop,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            durability: Durability::Sync,
            segment_bytes: 16 << 20,
            frame_max: 4 << 20,
            snapshot_every: 256,
            heads_every: 0,
            history: History::Keep,
            queue_max: 65_536,
            queue_bytes_max: 64 << 20,
            share_bytes_max: 8 << 20,
            group_bytes_max: 8 << 20,
            flush_every: Duration::from_secs(1),
            lazy_commit: Duration::from_secs(1),
        }
    }
}

/// Limits of the life: threads, memory and patience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifeConfig {
    /// Arbiter threads. 0 means one per core, the default; at most 256.
    pub arbiters: usize,
    /// Inputs that a session handles before its neighbours have their turn. Default 64; 1 to 4,096.
    pub drain_budget: usize,
    /// Mail in a session's cell that its actor has not yet looked at. Default 4,096; 1 to
    /// 1,000,000.
    pub cell_max: usize,
    /// Bytes of such mail. Default 16 MiB; 4 KiB to 4 GiB.
    pub cell_bytes_max: usize,
    /// An idle session with nothing pending is unloaded after this. Default 60 s; 0 to 24 h.
    pub idle_unload: Duration,
    /// Sessions in memory before idle ones are unloaded early. Default 1,000,000; 1 to 100,000,000.
    pub resident_max: usize,
    /// Sessions loaded at once during recovery. Default 64; 1 to 4,096.
    pub load_parallel: usize,
    /// Respawns of one session's actor within `respawn_window` before it is failed. Default 5; 0 to
    /// 1,000.
    pub respawn_max: u32,
    /// The window of `respawn_max`. Default 60 s; 1 ms to 24 h.
    pub respawn_window: Duration,
    /// The longest an orderly stop waits for one session. Default 5 s; 0 to 1 h.
    pub stop_max: Duration,
    /// A turn that holds its arbiter longer is reported by name. Default 1 s; 1 ms to 1 h.
    pub stall_warn: Duration,
    /// Sessions that may ever be made in one data directory. Default 1,000,000; 1 to 100,000,000.
    pub sessions_max: usize,
}

impl Default for LifeConfig {
    fn default() -> Self {
        LifeConfig {
            arbiters: 0,
            drain_budget: 64,
            cell_max: 4_096,
            cell_bytes_max: 16 << 20,
            idle_unload: Duration::from_secs(60),
            resident_max: 1_000_000,
            load_parallel: 64,
            respawn_max: 5,
            respawn_window: Duration::from_secs(60),
            stop_max: Duration::from_secs(5),
            stall_warn: Duration::from_secs(1),
            sessions_max: 1_000_000,
        }
    }
}

/// Everything a bus is opened with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Limits of the law.
    pub limits: Limits,
    /// Limits of the archive.
    pub store: StoreConfig,
    /// Limits of the life.
    pub life: LifeConfig,
}

impl Config {
    /// Checks every limit against its bound and against the others.
    ///
    /// # Errors
    /// `INVALID_CONFIG`, whose text names every fault with its bound.
    pub fn validate(&self) -> Result<(), Refused> {
        let faults = self.faults();
        if faults.is_empty() {
            return Ok(());
        }
        Err(Refused::new(Code::InvalidConfig, faults.join("; ")))
    }

    /// Every limit that is out of its bounds or does not fit another; each text begins with the
    /// limit's name.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.bounds().into_iter().filter_map(Bound::fault).chain(self.conflicts()).collect()
    }

    fn bounds(&self) -> Vec<Bound> {
        let (limits, store, life) = (&self.limits, &self.store, &self.life);
        let bound = |name, value: u64, least, most| Bound { name, value, least, most };
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        vec![
            bound("pending_max", limits.pending_max, 1, 1_000_000),
            bound("message_max", limits.message_max as u64, 1_024, 1 << 20),
            bound("window", limits.window, 1, 4_096),
            bound("steers_max", limits.steers_max as u64, 1, 4_096),
            bound("sends_per_turn", limits.sends_per_turn as u64, 1, 65_536),
            bound("attempts_max", u64::from(limits.attempts_max), 1, 100),
            bound("agent_state_max", limits.agent_state_max as u64, 0, 1 << 20),
            bound("retry_backoff_ms", ms(limits.retry_backoff), 0, 3_600_000),
            bound("resend_after_ms", ms(limits.resend_after), 1, 3_600_000),
            bound("lazy_commit_ms", ms(store.lazy_commit), 0, 60_000),
            bound("flush_every_ms", ms(store.flush_every), 1, 3_600_000),
            bound("share_bytes_max", store.share_bytes_max as u64, 4_096, 4 << 30),
            bound("group_bytes_max", store.group_bytes_max as u64, 4_096, 1 << 30),
            bound("segment_bytes", store.segment_bytes, 8_192, 1 << 30),
            bound("frame_max", store.frame_max as u64, 2_048, 512 << 20),
            bound("snapshot_every", store.snapshot_every, 1, 1_000_000),
            bound("queue_max", store.queue_max as u64, 16, 10_000_000),
            bound("queue_bytes_max", store.queue_bytes_max as u64, 65_536, 4 << 30),
            bound("arbiters", life.arbiters as u64, 0, 256),
            bound("drain_budget", life.drain_budget as u64, 1, 4_096),
            bound("cell_max", life.cell_max as u64, 1, 1_000_000),
            bound("load_parallel", life.load_parallel as u64, 1, 4_096),
            bound("cell_bytes_max", life.cell_bytes_max as u64, 4_096, 4 << 30),
            bound("idle_unload_ms", ms(life.idle_unload), 0, 86_400_000),
            bound("resident_max", life.resident_max as u64, 1, 100_000_000),
            bound("respawn_max", u64::from(life.respawn_max), 0, 1_000),
            bound("respawn_window_ms", ms(life.respawn_window), 1, 86_400_000),
            bound("stop_max_ms", ms(life.stop_max), 0, 3_600_000),
            bound("stall_warn_ms", ms(life.stall_warn), 1, 3_600_000),
            bound("sessions_max", life.sessions_max as u64, 1, 100_000_000),
        ]
    }

    fn conflicts(&self) -> Vec<String> {
        let store = &self.store;
        let mut faults = Vec::new();
        if !store.segment_bytes.is_multiple_of(4_096) {
            faults.push("segment_bytes must be a multiple of 4096".to_owned());
        }
        if store.frame_max as u64 + 4_096 > store.segment_bytes {
            faults.push("frame_max must be at least 4096 below segment_bytes".to_owned());
        }
        let taken = if self.limits.attempts_max == 1 { BURIED } else { NAMED };
        if self.limits.steers_max * taken + 1_024 > store.frame_max {
            faults.push(format!(
                "steers_max times {taken} must be at least 1024 below frame_max, so that a turn's \
                 frame holds what it took"
            ));
        }
        if self.limits.message_max + 1_024 > store.frame_max {
            faults.push("message_max must be at least 1024 below frame_max".to_owned());
        }
        faults
    }
}

/// What a turn's frame says of each message it took, in bytes.
const NAMED: usize = 21;
/// What it says of each that dies with it, where one attempt is all there is.
const BURIED: usize = 320;

struct Bound {
    name: &'static str,
    value: u64,
    least: u64,
    most: u64,
}

impl Bound {
    fn fault(self) -> Option<String> {
        let Bound { name, value, least, most } = self;
        let within = (least..=most).contains(&value);
        (!within).then(|| format!("{name} is {value} and must be {least} to {most}"))
    }
}
