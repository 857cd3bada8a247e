//! What is asked of a load.
//!
//! **Boundary**: what is wrong in itself is found here, before anything is opened.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::order::SIZE_MIN;
use super::pairs::Pairs;
use crate::config::Durability;
use crate::protocol::Message;

/// Sessions of one load, at most.
const SESSIONS_MAX: usize = 1_000_000;
/// Messages a second that can be asked for.
const RATE_MAX: u64 = 10_000_000;
/// The longest that a load may take, in time.
const TIME_MAX: Duration = Duration::from_secs(7 * 86_400);

/// A load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Sessions, each of them client and target.
    pub sessions: usize,
    /// Who sends to whom.
    pub pairs: Pairs,
    /// Messages a second over all sessions; 0: each session sends when its last one is handled.
    pub rate: u64,
    /// How much is sent.
    pub span: Span,
    /// Bytes of each body.
    pub size: usize,
    /// How long the rate is raised, or sessions join in, before anything is measured.
    pub ramp: Duration,
    /// Decides the order of the clients and the draws of targets.
    pub seed: u64,
    /// When the bus's process is killed and started again, after the load's beginning.
    pub restart_at: Option<Duration>,
    /// What a receipt promises.
    pub durability: Durability,
}

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// For so long, after the ramp.
    Time(Duration),
    /// So many messages, those of the ramp among them.
    Messages(u64),
}

impl Plan {
    /// Whether sends follow a schedule, and not the handling of those before.
    pub fn is_open(&self) -> bool {
        self.rate > 0
    }

    /// When sending ends, where that is a matter of time.
    pub fn end(&self) -> Option<Duration> {
        match self.span {
            Span::Time(time) => Some(self.ramp + time),
            Span::Messages(_) => None,
        }
    }

    /// What is wrong with it, in one sentence, by its flag.
    ///
    /// # Errors
    /// The sentence.
    pub fn check(&self, message_max: usize) -> Result<(), String> {
        let Plan { sessions, rate, size, ramp, .. } = self;
        let size_max = message_max.saturating_sub(Message::ENVELOPE + 2);
        within("--sessions", *sessions as u64, 2, SESSIONS_MAX as u64)?;
        within("--size", *size as u64, SIZE_MIN as u64, size_max as u64)?;
        within("--rate", *rate, 0, RATE_MAX)?;
        if let Span::Messages(messages) = self.span {
            within("--messages", messages, 1, u64::MAX)?;
        }
        let end = self.end();
        let (least, time) = (Duration::from_millis(1), end.map_or(*ramp, |end| end - *ramp));
        if end.is_some() && time < least || time.max(*ramp) > TIME_MAX {
            return Err("--duration must be 1ms to 7 days, and --ramp at most 7 days".to_owned());
        }
        let Some(restart_at) = self.restart_at else { return Ok(()) };
        if self.durability == Durability::Memory {
            let text = "--restart-at needs a journal that outlives the process, and --durability \
                        memory keeps none";
            return Err(text.to_owned());
        }
        if end.is_some_and(|end| restart_at >= end) {
            return Err("--restart-at must come before the load ends".to_owned());
        }
        Ok(())
    }
}

fn within(flag: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{flag} is {value} and must be {least} to {most}"))
}

#[cfg(test)]
pub(super) fn small() -> Plan {
    Plan {
        sessions: 4,
        pairs: Pairs::Ring,
        rate: 1_000,
        span: Span::Messages(100),
        size: 256,
        ramp: Duration::ZERO,
        seed: 1,
        restart_at: None,
        durability: Durability::Sync,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_named_by_its_flag() {
        assert_eq!(small().check(65_536), Ok(()));
        let restart_at = Some(Duration::from_secs(20));
        for (plan, flag) in [
            (Plan { sessions: 1, ..small() }, "--sessions is 1 and must be 2 to"),
            (Plan { size: 63, ..small() }, "--size is 63 and must be 64 to 65022"),
            (Plan { size: 65_023, ..small() }, "--size"),
            (Plan { rate: u64::MAX, ..small() }, "--rate"),
            (Plan { span: Span::Messages(0), ..small() }, "--messages"),
            (Plan { span: Span::Time(Duration::ZERO), ..small() }, "--duration"),
            (Plan { ramp: Duration::MAX, ..small() }, "--ramp"),
            (Plan { restart_at, durability: Durability::Memory, ..small() }, "--durability"),
            (
                Plan { restart_at, span: Span::Time(Duration::from_secs(20)), ..small() },
                "--restart-at must come before",
            ),
        ] {
            let fault = plan.check(65_536).unwrap_err();
            assert!(fault.contains(flag), "{fault}");
        }
    }
}
