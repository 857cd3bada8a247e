//! A caller that panics when it is told something takes nobody else with it into silence.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::error::{Code, Fault};
use callboard::persist::SimDisk;
use callboard::persist::store::{NoPermit, Purpose, Store, Tickets, Urgency};

use crate::log_world::{Session, id, inline, payloads, small, threaded, until_ready};

const SOON: Duration = Duration::from_secs(20);

/// Panics when it is told, once it is released.
struct Panics {
    held: Sender<()>,
    release: Mutex<Receiver<()>>,
}

impl Tickets for Panics {
    fn settled(&self, _: u64, _: u64, _: Result<(), Fault>) {
        self.held.send(()).unwrap();
        self.release.lock().unwrap().recv().unwrap();
        panic!("a caller's own fault");
    }
    fn room(&self) {}
}

#[test]
fn a_panic_on_the_committers_thread_is_a_fault_that_everybody_is_told() {
    let disk = SimDisk::new();
    let store = threaded(&disk, &small());
    let ((held, is_held), (go_on, release)) = (channel(), channel());
    let load = store.begin(id(1), Arc::new(Panics { held, release: Mutex::new(release) })).unwrap();
    let mut panics = Session { load, told: Arc::default(), ticket: 0 };
    let (mut waits, ends) = (Session::begin(&store, id(2)), Session::begin(&store, id(3)));
    until_ready(&store, &waits);
    panics.append(&store, b"[1]");
    is_held.recv_timeout(SOON).unwrap();
    waits.append(&store, b"[2]");
    let (ended, has_ended) = channel();
    store.end(ends.load, Box::new(move || ended.send(()).unwrap()));
    go_on.send(()).unwrap();
    has_ended.recv_timeout(SOON).expect("the load never ended");
    let refused = waits.told.wait(|told| told.failed.is_some()).failed.unwrap();
    assert_eq!(refused.1.code, Code::NotDurable);
    assert_eq!(store.fault().unwrap().code, Code::NotDurable);
    match waits.try_append(&store, b"[3]", (Purpose::Settle, Urgency::Now)) {
        Err(NoPermit::Fault(fault)) => assert_eq!(fault.code, Code::NotDurable),
        other => panic!("a store without a committer gave a permit: {other:?}"),
    }
    waits.end(&store);
    assert_eq!(store.close().unwrap_err().code, Code::NotDurable);
    drop(store);
    let store = inline(&disk.kill(), &small());
    assert_eq!(payloads(&store.replay(id(1)).unwrap()), ["[1]"]);
    assert_eq!(store.fault(), None);
}
