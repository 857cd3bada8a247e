//! Sessions that write to a store and note what they are promised.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use callboard::Fault;
use callboard::persist::Store;
use callboard::persist::store::{
    Append, Load, NoPermit, Payload, Purpose, SnapshotsWanted, Tickets, Urgency,
};
use callboard::protocol::{SessionId, Timestamp};

use crate::script::{Act, script};
use crate::truth::{Event, Handed, Promise, Truth, session, snapshot_of, survey};

/// Why a writer cannot go on.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store says that it cannot, as it may.
    Fault(Fault),
    /// The store broke its word.
    Wrong(String),
}

impl Trouble {
    fn wrong(seat: usize, text: &str) -> Self {
        Trouble::Wrong(format!("seat {seat}: {text}"))
    }
}

/// The sessions of one opening of a store.
pub(crate) struct Writer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) truth: Arc<Mutex<Truth>>,
    loads: Vec<Option<(Load, u64)>>,
    wanted: Arc<Wanted>,
    tick: Tick,
    now: u64,
}

/// A store, and what its cleaner asks for.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) wanted: Arc<Wanted>,
    /// Tells the store what time it is.
    pub(crate) tick: Tick,
}

/// See [`Opened`].
pub(crate) type Tick = Box<dyn Fn(Timestamp)>;

/// Snapshots that the cleaner asked for.
#[derive(Default)]
pub(crate) struct Wanted(Mutex<Vec<SessionId>>);

impl SnapshotsWanted for Wanted {
    fn wanted(&self, sessions: Vec<SessionId>) {
        self.0.lock().unwrap().extend(sessions);
    }
}

struct Told {
    truth: Arc<Mutex<Truth>>,
    seat: usize,
}

impl Tickets for Told {
    fn settled(&self, load: u64, ticket: u64, outcome: Result<(), Fault>) {
        let mut truth = self.truth.lock().unwrap();
        let journal = &mut truth.journals[self.seat];
        let ticket = usize::try_from(ticket).unwrap();
        let known = load == journal.load && ticket <= journal.tickets.len();
        let fine = known && !journal.failed && ticket > journal.n_settled;
        match outcome {
            Ok(()) if fine => {
                for handed in &journal.tickets[journal.n_settled..ticket] {
                    if let Handed::Event(index) = handed {
                        journal.events[*index].settled = true;
                    }
                }
                journal.n_settled = ticket;
                truth.run_settled = truth.run;
            }
            Err(fault) if fine => {
                journal.failed = true;
                truth.faults.push(fault.code);
            }
            Ok(()) => {
                let text = format!("seat {}: late receipt {ticket} of load {load}", self.seat);
                truth.violations.push(text);
            }
            Err(_) => {}
        }
    }
    fn room(&self) {}
}

impl Writer {
    /// Loads every session of `truth`, whose journals become what the store shows of them. The
    /// truth stays with whoever lent it, also after trouble.
    pub(crate) fn new(opened: Opened, truth: &Arc<Mutex<Truth>>) -> Result<Self, Trouble> {
        let Opened { store, wanted, tick } = opened;
        truth.lock().unwrap().run = store.recovery().run;
        let loads = vec![None; truth.lock().unwrap().journals.len()];
        let mut writer = Writer { store, truth: Arc::clone(truth), loads, wanted, tick, now: 0 };
        for seat in 0..writer.loads.len() {
            writer.reload(seat)?;
        }
        Ok(writer)
    }

    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap()
    }

    /// Plays a script; stops at the first load that cannot be begun again.
    pub(crate) fn play(&mut self, acts: &[Act]) -> Result<(), Trouble> {
        for act in acts {
            self.act(*act)?;
        }
        Ok(())
    }

    pub(crate) fn act(&mut self, act: Act) -> Result<(), Trouble> {
        match act {
            Act::Event { seat, bytes, lazy } => self.event(seat, bytes, lazy),
            Act::Snapshot { seat, parts } => {
                self.snapshot(seat, parts, (Purpose::Snapshot, Urgency::Now));
            }
            Act::Reload { seat } => self.reload(seat)?,
            Act::Urge => self.store.urge(),
        }
        self.now += 1;
        (self.tick)(Timestamp(self.now));
        let wanted = std::mem::take(&mut *self.wanted.0.lock().unwrap());
        for seat in (0..self.loads.len()).filter(|seat| wanted.contains(&session(*seat))) {
            self.snapshot(seat, 1, (Purpose::Clean, Urgency::Lazy));
        }
        if !wanted.is_empty() {
            self.store.urge();
        }
        for seat in 0..self.loads.len() {
            if self.truth().journals[seat].failed {
                self.reload(seat)?;
            }
        }
        let violations = self.truth().violations.join("; ");
        if violations.is_empty() { Ok(()) } else { Err(Trouble::Wrong(violations)) }
    }

    /// Appends one small event for a purpose.
    pub(crate) fn one(&mut self, purpose: Purpose, seat: usize) {
        self.event_for(purpose, seat, 10, false);
    }

    /// Every second event is new work, the rest settles.
    fn event(&mut self, seat: usize, bytes: usize, lazy: bool) {
        let even = self.truth().n_handed.is_multiple_of(2);
        let purpose = if even { Purpose::Settle } else { Purpose::Send };
        self.event_for(purpose, seat, bytes, lazy);
    }

    fn event_for(&mut self, purpose: Purpose, seat: usize, bytes: usize, lazy: bool) {
        let mut truth = self.truth();
        truth.n_handed += 1;
        let order = truth.n_handed;
        let index = truth.journals[seat].events.len();
        let load = truth.journals[seat].load;
        drop(truth);
        let filler = "e".repeat(bytes);
        let payload = format!(r#"[{{"seat":{seat},"n":{index},"load":{load},"order":{order},"#);
        let payload = format!("{payload}\"body\":\"{filler}\"}}]").into_bytes();
        let pending = order.is_multiple_of(3);
        let event = Event { payload: payload.clone(), order, pending, settled: false };
        let urgency = if lazy { Urgency::Lazy } else { Urgency::Now };
        let append = Append {
            ticket: 0,
            payload: Payload::Events(payload.into()),
            pending,
            urgency,
            time: Timestamp(order),
        };
        self.append(seat, append, purpose, Some(event));
    }

    fn snapshot(&mut self, seat: usize, parts: usize, (purpose, urgency): (Purpose, Urgency)) {
        let truth = self.truth();
        let events = &truth.journals[seat].events;
        let Some(last) = events.last() else { return };
        let (pending, time) = (last.pending, Timestamp(last.order));
        let parts = snapshot_of(events, parts).into_iter().map(Into::into).collect();
        drop(truth);
        let append =
            Append { ticket: 0, payload: Payload::Snapshot(parts), pending, urgency, time };
        self.append(seat, append, purpose, None);
    }

    /// Without a permit nothing is noted: the state stays untouched.
    fn append(&mut self, seat: usize, mut append: Append, purpose: Purpose, event: Option<Event>) {
        let Some((load, tickets)) = &mut self.loads[seat] else { return };
        let bytes = append.payload.len();
        let mut permit = self.store.permit(*load, bytes, purpose);
        if matches!(permit, Err(NoPermit::Wait)) {
            self.store.urge();
            permit = self.store.permit(*load, bytes, purpose);
        }
        let mut truth = self.truth.lock().unwrap();
        let permit = match permit {
            Ok(permit) => permit,
            Err(NoPermit::Wait) => return,
            Err(NoPermit::Fault(fault)) => return truth.faults.push(fault.code),
        };
        *tickets += 1;
        append.ticket = *tickets;
        let journal = &mut truth.journals[seat];
        journal.tickets.push(match event {
            Some(_) => Handed::Event(journal.events.len()),
            None => Handed::Snapshot,
        });
        journal.events.extend(event);
        drop(truth);
        self.store.append(permit, append);
    }

    /// Ends the session's load and begins the next one from what the store shows. A store that is
    /// poisoned shows what was settled and does not know what the disk holds: nothing is taken
    /// back.
    pub(crate) fn reload(&mut self, seat: usize) -> Result<(), Trouble> {
        if let Some(fault) = self.store.fault() {
            return Err(Trouble::Fault(fault));
        }
        if let Some((load, _)) = self.loads[seat].take() {
            let ended = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ended);
            self.store.end(load, Box::new(move || flag.store(true, Ordering::SeqCst)));
            if !ended.load(Ordering::SeqCst) {
                return Err(Trouble::wrong(seat, "the load does not end"));
            }
        }
        let replay = self.store.replay(session(seat)).map_err(Trouble::Fault)?;
        let told = Told { truth: Arc::clone(&self.truth), seat };
        let load = self.store.begin(session(seat), Arc::new(told)).map_err(Trouble::Fault)?;
        let mut truth = self.truth();
        let found = truth.judge(seat, replay, Promise::Settled);
        let found = found.map_err(|text| Trouble::wrong(seat, &format!("reloaded: {text}")))?;
        truth.adopt(seat, &found);
        let journal = &mut truth.journals[seat];
        journal.load = load.number;
        (journal.tickets, journal.n_settled, journal.failed) = (Vec::new(), 0, false);
        drop(truth);
        self.loads[seat] = Some((load, 0));
        Ok(())
    }
}

fn remembering(seed: u64, n_acts: usize, n_seats: usize) -> (Writer, Truth) {
    let store = callboard::persist::MemoryStore::new(&callboard::config::StoreConfig::default());
    let opened = Opened { store: Arc::new(store), wanted: Arc::default(), tick: Box::new(|_| ()) };
    let truth = Arc::new(Mutex::new(Truth::new(n_seats)));
    let mut writer = Writer::new(opened, &truth).unwrap();
    writer.play(&script(seed, n_acts, n_seats)).unwrap();
    let truth = writer.truth().clone();
    (writer, truth)
}

#[test]
fn the_witness_agrees_with_a_store_that_keeps_all() {
    let (writer, truth) = remembering(1, 400, 4);
    let found = survey(&*writer.store, &truth, Promise::Settled).unwrap();
    survey(&*writer.store, &truth, Promise::Prefix).unwrap();
    let n_events = found.iter().map(|found| found.n_events).sum::<usize>();
    assert!(n_events > 250 && n_events == truth.n_handed as usize);
}

#[test]
fn the_witness_sees_a_lost_a_changed_and_a_returned_event() {
    let (writer, truth) = remembering(2, 60, 2);
    let replay = || writer.store.replay(session(1)).unwrap();
    let judge = |replay| truth.judge(1, replay, Promise::Settled);
    assert!(judge(replay()).is_ok() && replay().frames.len() > 2);
    let mut lost = replay();
    lost.frames.pop();
    assert!(judge(lost).unwrap_err().contains("lost"));
    let mut gap = replay();
    gap.frames.remove(0);
    assert!(judge(gap).is_err());
    let mut changed = replay();
    changed.frames[1].payload[3] ^= 1;
    assert!(judge(changed).is_err());
    let mut twice = replay();
    twice.frames.push(replay().frames[0].clone());
    assert!(judge(twice).unwrap_err().contains("never handed over"));
}
