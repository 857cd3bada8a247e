//! The limits of a replay or a scenario: the defaults, raised and fitted to the journal's options.
//!
//! **Boundary**: no limit is invented here; each is one of `config.rs`.

use crate::config::{Config, Durability, History, StoreConfig};

/// Of a target, where the disk and not the limits is to set the pace.
const PENDING_MAX: u64 = 4_096;
/// Of a pair, likewise.
const WINDOW: u64 = 256;

/// What may be asked of the journal of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct JournalOptions {
    /// What a receipt promises.
    pub durability: Durability,
    /// [`StoreConfig::segment_bytes`].
    pub segment_bytes: Option<u64>,
    /// [`StoreConfig::heads_every`].
    pub heads_every: Option<u64>,
    /// [`StoreConfig::snapshot_every`].
    pub snapshot_every: Option<u64>,
    /// [`StoreConfig::history`].
    pub history: History,
}

impl JournalOptions {
    /// The default limits with these options. Where segments are small, frames, messages and states
    /// are bounded so that they fit.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        let StoreConfig { segment_bytes, heads_every, snapshot_every, .. } = StoreConfig::default();
        config.store.durability = self.durability;
        config.store.segment_bytes = self.segment_bytes.unwrap_or(segment_bytes);
        config.store.heads_every = self.heads_every.unwrap_or(heads_every);
        config.store.snapshot_every = self.snapshot_every.unwrap_or(snapshot_every);
        config.store.history = self.history;
        let room = usize::try_from(config.store.segment_bytes).unwrap_or(usize::MAX);
        let frame = config.store.frame_max.min(room.saturating_sub(4_096));
        config.store.frame_max = frame;
        config.limits.message_max = config.limits.message_max.min(frame.saturating_sub(1_024));
        config.limits.agent_state_max = config.limits.agent_state_max.min(frame / 2);
        config
    }

    /// For a trace: everybody may have far more mail waiting and on its way than a session of
    /// agents would, so that the disk and not the limits sets the pace; and since most people write
    /// little, they write snapshots early, so that few messages do not hold on to much log.
    pub fn replay_config(&self) -> Config {
        let mut config = self.config();
        config.limits.pending_max = PENDING_MAX;
        config.limits.window = WINDOW;
        config.store.snapshot_every = self.snapshot_every.unwrap_or(32);
        config
    }

    /// For a load: as much mail waiting and on its way as in a replay, so that what a target has no
    /// room for is more than it can work off, and not a burst.
    pub fn load_config(&self) -> Config {
        let mut config = self.config();
        config.limits.pending_max = PENDING_MAX;
        config.limits.window = WINDOW;
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_legal_segment_size_gives_a_legal_config() {
        for segment_bytes in [8_192, 12_288, 1 << 20, 16 << 20, 1 << 30] {
            let options =
                JournalOptions { segment_bytes: Some(segment_bytes), ..Default::default() };
            assert_eq!(options.replay_config().validate(), Ok(()), "{segment_bytes}");
        }
    }
}
