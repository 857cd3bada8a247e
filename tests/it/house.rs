//! What scenarios need to open a bus and to talk through it: a configuration, sessions by label,
//! drivers that take what there is, sends by the hundred.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use callboard::bus::{BodySpec, Builder, Bus, Create, Driver, Receipt};
use callboard::persist::{Disk, SimDisk};
use callboard::protocol::session::AgentState;
use callboard::protocol::supervisor::Phase;
use callboard::protocol::{Draft, Label, SessionId, Workspace};
use callboard::{Code, Config, Durability, Error};
use tokio::task::{JoinHandle, JoinSet};

use crate::cast::{self, Gate, Obedient, Source};

const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A configuration for tests: one arbiter would hide races, so there are two; nothing that fails
/// waits long for its next try.
pub(crate) fn config(durability: Durability) -> Config {
    let mut config = Config::default();
    config.life.arbiters = 2;
    config.store.durability = durability;
    config.limits.retry_backoff = Duration::ZERO;
    config.limits.resend_after = Duration::from_millis(20);
    config.life.stop_max = Duration::from_millis(50);
    config
}

/// With the smallest segments and frequent snapshots and heads.
pub(crate) fn small(durability: Durability) -> Config {
    let mut config = config(durability);
    config.limits.message_max = 1_024;
    config.limits.agent_state_max = 256;
    config.store.segment_bytes = 16_384;
    config.store.frame_max = 4_096;
    config.store.heads_every = 32_768;
    config.store.snapshot_every = 8;
    config
}

/// Begins to open a bus with the agents of these tests; the gate holds every `obedient` agent that
/// was told to hold.
pub(crate) fn builder(disk: Arc<dyn Disk>, config: Config) -> (Builder, Gate) {
    let (obedient, gate) = Obedient::factory();
    let builder = Bus::builder()
        .disk(disk)
        .config(config)
        .agent("sink", cast::always(|| cast::Sink))
        .agent("echo", cast::always(|| cast::Echo))
        .agent("obedient", obedient)
        .agent("source", Source::factory())
        .agent("never", cast::never());
    (builder, gate)
}

/// Opens a bus with the agents of these tests.
pub(crate) async fn open(disk: Arc<dyn Disk>, config: Config) -> Result<Bus, Error> {
    builder(disk, config).0.open().await
}

/// As [`open`], on a disk that others look at too.
pub(crate) async fn open_on(disk: &SimDisk, config: &Config) -> Result<Bus, Error> {
    open(Arc::new(disk.clone()), config.clone()).await
}

/// Opens a bus whose directory another one is still giving back.
pub(crate) async fn open_when_free(disk: &SimDisk, config: &Config) -> Bus {
    loop {
        match open_on(disk, config).await {
            Err(error) if error.code() == Code::StoreLocked => tokio::task::yield_now().await,
            opened => return opened.unwrap(),
        }
    }
}

/// A label that the test knows to be fine.
pub(crate) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

/// Makes a session in workspace `main`; the body is `driver` or an agent's name.
pub(crate) async fn create(bus: &Bus, name: &str, body: &str) -> Result<SessionId, Error> {
    let body = match body {
        "driver" => BodySpec::Driver,
        agent => BodySpec::Agent { name: agent.to_owned(), settings: None::<AgentState> },
    };
    let workspace = Some(Workspace::new("main").unwrap());
    bus.create(Create { label: label(name), workspace, body }).await
}

/// Makes sessions that may all talk to each other; each is given as its label and its body.
pub(crate) async fn circle<const N: usize>(
    bus: &Bus,
    members: [(&str, &str); N],
) -> Result<[SessionId; N], Error> {
    let mut ids = Vec::with_capacity(N);
    for (name, body) in members {
        ids.push(create(bus, name, body).await?);
    }
    bus.group(&label("circle"), &ids).await?;
    Ok(ids.try_into().unwrap())
}

/// Sends texts, one after the other, each when there is room.
pub(crate) async fn send_all<T: Into<String>>(
    bus: &Bus,
    (from, to): (SessionId, SessionId),
    texts: impl IntoIterator<Item = T>,
) -> Result<Vec<(SessionId, Receipt)>, Error> {
    let mut receipts = Vec::new();
    for text in texts {
        receipts.push((from, bus.send_when_room(from, Draft::text(to, text)).await?));
    }
    Ok(receipts)
}

/// Takes and acknowledges until so many messages came; gives their texts.
pub(crate) async fn take_all(driver: &mut Driver, count: usize) -> Result<Vec<String>, Error> {
    let mut texts = Vec::new();
    while texts.len() < count {
        let taken = driver.take().await?;
        texts.extend(taken.messages.iter().map(|item| item.message.body.as_str().to_owned()));
        driver.acknowledge(taken).await?;
    }
    Ok(texts)
}

/// Has every driver take and acknowledge until nothing is left to do anywhere.
pub(crate) async fn drain(bus: &Bus) -> Result<(), Error> {
    let mut driving = JoinSet::new();
    for record in bus.list().await? {
        if record.created.body == BodySpec::Driver && record.phase == Phase::Active {
            let mut driver = bus.attach(record.created.id).await?;
            driving.spawn(async move { take_all(&mut driver, usize::MAX).await });
        }
    }
    bus.quiet().await?;
    driving.shutdown().await;
    Ok(())
}

/// Waits until the disk was stopped and everybody had time to notice.
pub(crate) async fn stopped(disk: &SimDisk) {
    while disk.stopped().is_none() {
        tokio::task::yield_now().await;
    }
    for _ in 0..300 {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

/// Polls a future once, for its effect.
pub(crate) fn begin<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Begins something now, in the order of the calls, and lets it go on by itself.
pub(crate) fn start<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut future = Box::pin(future);
    match begin(future.as_mut()) {
        Some(output) => tokio::spawn(std::future::ready(output)),
        None => tokio::spawn(future),
    }
}

/// Runs a scenario on a runtime of its own. One that hangs is a broken promise.
pub(crate) fn run<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(HANGS_AFTER, scenario).await.expect("the scenario hangs")
    })
}

/// Where the newest frame of a session's journal lies.
pub(crate) async fn newest(bus: &Bus, id: SessionId) -> Result<Option<u64>, Error> {
    let history = bus.history(id, callboard::bus::Page { before: None, limit: 1 }).await?;
    Ok(history.entries.first().map(|entry| entry.position))
}

/// Has a session's actor panic: whoever waits for its answer does, when it is woken for it.
pub(crate) async fn fall(bus: &Bus, id: SessionId) {
    let trip = Arc::new(Trip::default());
    let waker = Waker::from(Arc::clone(&trip));
    // Whoever it drives or thinks in it, from now on it is asked without the supervisor.
    drop(bus.attach(id).await);
    while !trip.is_sprung() {
        // A session cannot send to itself: it says so, and nothing else comes of it.
        let sending = bus.send(id, Draft::text(id, "fall"));
        // Without a budget, nobody but the session wakes it.
        let mut sending = pin!(tokio::task::unconstrained(sending));
        if sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            trip.sprung().await;
        }
    }
}

/// A waker that panics whoever wakes it.
#[derive(Default)]
pub(crate) struct Trip(AtomicBool);

impl Trip {
    fn is_sprung(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until somebody has woken it.
    pub(crate) async fn sprung(&self) {
        while !self.is_sprung() {
            tokio::task::yield_now().await;
        }
    }
}

impl Wake for Trip {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
        // No message of the hook: the tests' output stays readable.
        std::panic::resume_unwind(Box::new("told to panic"));
    }
}
