//! One session machine by script: inputs in, events and actions out, all as text.
//!
//! A script is its own expectation: lines that begin with `>` are fed, what is printed below them
//! is what must come out. Inputs joined by ` + ` are one step. After every step the fold of what
//! was recorded is held against the live state, and every event against its own JSON.

use std::sync::Arc;
use std::time::Duration;

use callboard::config::Limits;
use callboard::protocol::session::input::End;
use callboard::protocol::session::{
    Action, Addressed, AgentState, Answer, BodySpec, Call, Created, Dead, DeadReason, Effects,
    Event, Failure, Input, Machine, Outcome, Reason, Refusal, State, TurnOutcome, Verdict,
};
use callboard::protocol::{
    Body, Label, Message, MessageId, SessionId, Source, SourceKind, Timestamp,
};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Plays a script and compares.
#[track_caller]
pub(crate) fn play(script: &str) {
    play_with(limits(), script);
}

#[track_caller]
pub(crate) fn play_with(limits: Limits, script: &str) {
    let expected = unindented(script);
    let mut desk = Desk::new(limits);
    let mut played = String::new();
    for line in expected.lines().filter(|line| line.starts_with('>')) {
        played += &format!("{line}\n{}\n", desk.command(&line[2..]));
    }
    let played: Vec<&str> = played.lines().filter(|line| !line.is_empty()).collect();
    assert!(played.join("\n") == expected, "\n{}\n", played.join("\n"));
}

pub(crate) fn limits() -> Limits {
    Limits {
        window: 2,
        steers_max: 3,
        attempts_max: 2,
        retry_backoff: Duration::from_millis(100),
        resend_after: Duration::from_secs(1),
        ..Limits::default()
    }
}

fn unindented(script: &str) -> String {
    let lines = script.lines().filter(|line| !line.trim().is_empty());
    let indent = lines.clone().map(|line| line.len() - line.trim_start().len()).min();
    let lines: Vec<&str> = lines.map(|line| &line[indent.unwrap_or(0)..]).collect();
    lines.join("\n")
}

/// The session under test, and its journal.
pub(crate) struct Desk {
    machine: Machine,
    limits: Limits,
    /// The fold of all that was recorded in this load, and of what is on disk.
    recorded: State,
    durable: State,
    unflushed: Vec<(u64, Vec<Event>)>,
    load: u64,
    now: Timestamp,
    wake: Option<Timestamp>,
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(Uuid::from_u128(u128::from(name.as_bytes()[0])))
}

fn name(id: SessionId) -> char {
    char::from(id.as_u128() as u8)
}

pub(crate) fn message(from: &str, body: &str) -> Arc<Message> {
    let label = Label::new("someone").unwrap();
    let sender = id(from);
    let source = Source { kind: SourceKind::Agent, sender, name: label, correlation: None, hop: 0 };
    let number = body.bytes().fold(u128::from(from.as_bytes()[0]), |n, b| n * 256 + u128::from(b));
    let id = MessageId::new(Uuid::from_u128(number));
    let body = Body::Text(body.to_owned());
    Arc::new(Message { id, source, sent: Timestamp(0), body })
}

pub(crate) fn created() -> Created {
    let label = Label::new("desk").unwrap();
    Created { id: id("s"), label, workspace: None, body: BodySpec::Driver }
}

impl Desk {
    pub(crate) fn new(limits: Limits) -> Self {
        let state = State { created: Some(created().into()), ..State::default() };
        let mut machine = Machine::new(state.clone(), limits.clone()).unwrap();
        let effects = machine.step([Input::Resume { load: 1 }], Timestamp(0));
        assert_eq!(effects, Effects::default());
        Desk {
            machine,
            limits,
            recorded: state.clone(),
            durable: state,
            unflushed: Vec::new(),
            load: 1,
            now: Timestamp(0),
            wake: None,
        }
    }

    /// Does what a line says, and tells what came of it.
    pub(crate) fn command(&mut self, line: &str) -> String {
        if line == "restart" {
            self.load += 1;
            self.unflushed.clear();
            self.recorded = self.durable.clone();
            self.machine = Machine::new(self.durable.clone(), self.limits.clone()).unwrap();
            self.wake = None;
            return self.feed(vec![Input::Resume { load: self.load }]);
        }
        if line == "snapshot" {
            return self.snapshot();
        }
        let inputs = line.split(" + ").map(|words| self.input(words)).collect();
        self.feed(inputs)
    }

    fn feed(&mut self, inputs: Vec<Input>) -> String {
        for input in &inputs {
            if let Input::Flushed { ticket } = input {
                self.flush(*ticket);
            }
        }
        let bound = self.machine.fit(&inputs, usize::MAX).bytes;
        let effects = self.machine.step(inputs, self.now);
        let stored = serde_json::to_vec(&effects.events).unwrap().len();
        let told = format!("{stored} bytes over the bound of {bound}: {:?}", effects.events);
        assert!(effects.events.is_empty() || stored <= bound, "{told}");
        self.check(&effects);
        let mut told = String::new();
        for event in &effects.events {
            told += &format!("  [{}] {}\n", effects.ticket, tell_event(event));
        }
        if effects.urgent {
            told += "  urgent\n";
        }
        for action in &effects.actions {
            told += &format!("  {}\n", tell_action(action));
        }
        if effects.wake != self.wake {
            let wake = effects.wake.map_or("never".to_owned(), |at| at.0.to_string());
            told += &format!("  wake {wake}\n");
            self.wake = effects.wake;
        }
        told
    }

    /// Takes a snapshot, as the next append, and goes on from it.
    fn snapshot(&mut self) -> String {
        let payload = self.machine.snapshot_payload().unwrap();
        let ticket = self.machine.number_snapshot();
        let state: State = serde_json::from_slice(&payload).unwrap();
        assert_eq!(&state, self.machine.state());
        format!("  [{ticket}] snapshot\n")
    }

    fn flush(&mut self, ticket: u64) {
        let due = self.unflushed.iter().take_while(|(due, _)| *due <= ticket).count();
        for (_, events) in self.unflushed.drain(..due) {
            for event in events {
                self.durable.apply(&event).unwrap();
            }
        }
    }

    /// Replay equals live, and every stored form is read back as it was.
    fn check(&mut self, effects: &Effects) {
        for event in &effects.events {
            let json = serde_json::to_string(event).unwrap();
            assert_eq!(&serde_json::from_str::<Event>(&json).unwrap(), event, "{json}");
            self.recorded.apply(event).unwrap();
        }
        assert_eq!(&self.recorded, self.machine.state(), "replay differs from live");
        let json = serde_json::to_string(&self.recorded).unwrap();
        assert_eq!(serde_json::from_str::<State>(&json).unwrap(), self.recorded, "{json}");
        if !effects.events.is_empty() {
            self.unflushed.push((effects.ticket, effects.events.clone()));
        }
    }

    fn input(&mut self, line: &str) -> Input {
        let words: Vec<&str> = line.split(' ').collect();
        let (verb, rest) = words.split_first().unwrap();
        let first = rest.first().copied().unwrap_or_default();
        match *verb {
            "flush" => {
                let ticket = first.parse().unwrap_or(self.machine.tickets().0);
                Input::Flushed { ticket }
            }
            "send" => Input::Send { call: Call(7), sends: sends(rest) },
            "mail" => mail(rest),
            "answer" => answer(rest),
            "busy" => Input::Busy { target: id(first), first: rest[1].parse().unwrap() },
            "room" => Input::Room { target: id(first) },
            "lost" => Input::Lost { target: id(first) },
            "report" => {
                let outcomes = rest[1..].iter().map(|word| outcome(first, word)).collect();
                Input::Report { from: id(first), outcomes }
            }
            "noted" => Input::ReportAnswer { sender: id(first), upto: rest[1].parse().unwrap() },
            "ready" => Input::Ready,
            "unready" => Input::NotReady,
            "hold" => Input::HoldWish { held: first == "on" },
            "steer" => Input::Steer { turn: self.turn(rest) },
            "end" => end(self.turn(rest), rest),
            "fail" => {
                let (code, message) = (first.to_owned(), rest[1..].join(" "));
                Input::Fail { turn: self.turn(rest), failure: Failure { code, message } }
            }
            "interrupt" => Input::Interrupt,
            "give-back" => Input::GiveBack,
            "close" => Input::Close { call: Call(8) },
            "bury" => Input::Bury,
            "inspect" => Input::Inspect { call: Call(9) },
            // The clock goes on by itself; it is only told by a tick.
            "inspect-at" => {
                self.now = Timestamp(first.parse().unwrap());
                Input::Inspect { call: Call(9) }
            }
            "tick" => {
                self.now = Timestamp(first.parse().unwrap());
                Input::Tick
            }
            verb => panic!("no such input: {verb}"),
        }
    }
}

impl Desk {
    /// The turn that is said, or else the open one.
    fn turn(&self, words: &[&str]) -> u64 {
        let said = words.iter().find_map(|word| word.strip_prefix("turn="));
        let open = self.machine.state().turn.as_ref().map_or(0, |open| open.number);
        said.map_or(open, |said| said.parse().unwrap())
    }
}

fn sends(words: &[&str]) -> Vec<Addressed> {
    let staged = words.iter().filter_map(|word| word.split_once(':'));
    let addressed = |(to, body)| Addressed { target: id(to), message: message("s", body) };
    staged.map(addressed).collect()
}

fn mail(words: &[&str]) -> Input {
    let mut verdict = Verdict::Allowed;
    let (mut settled, mut messages) = (0, Vec::new());
    for word in &words[2..] {
        match *word {
            "revoked" => verdict = Verdict::Revoked,
            "closed" => verdict = Verdict::Closed,
            word => match word.strip_prefix("settled=") {
                Some(mark) => settled = mark.parse().unwrap(),
                None => messages.push(message(words[0], word)),
            },
        }
    }
    Input::Mail { from: id(words[0]), first: words[1].parse().unwrap(), messages, settled, verdict }
}

fn answer(words: &[&str]) -> Input {
    let (mut refused, mut gap) = (Vec::new(), None);
    for word in &words[2..] {
        match word.split_once('=') {
            Some((_, load)) => gap = Some(load.parse().unwrap()),
            None => {
                let (n, reason) = word.split_once(':').unwrap();
                let reason = if reason == "closed" { Reason::Closed } else { Reason::Revoked };
                refused.push(Refusal { n: n.parse().unwrap(), reason });
            }
        }
    }
    let upto = words[1].parse().unwrap();
    Input::Answer { target: id(words[0]), answer: Answer { upto, refused, gap } }
}

/// `number:n`, dead after its last attempt.
fn outcome(from: &str, word: &str) -> Outcome {
    let (number, n) = word.split_once(':').unwrap();
    let (number, n) = (number.parse().unwrap(), n.parse().unwrap());
    Outcome { number, n, id: message(from, word).id, reason: DeadReason::Attempts }
}

fn end(turn: u64, words: &[&str]) -> Input {
    let state = words.iter().find_map(|word| word.strip_prefix("state="));
    let raw = |json: &str| AgentState(RawValue::from_string(json.to_owned()).unwrap());
    Input::End(End {
        turn,
        state: state.map(raw),
        sends: sends(words),
        again: words.contains(&"again"),
        ready: words.contains(&"ready"),
        firm: words.contains(&"firm"),
    })
}

fn tell_refusals(refused: &[Refusal]) -> String {
    let one = |r: &Refusal| format!(" refused {} {:?}", r.n, r.reason).to_lowercase();
    refused.iter().map(one).collect()
}

fn tell_arrivals(arrivals: &[u64]) -> String {
    arrivals.iter().map(|arrival| format!(" #{arrival}")).collect()
}

fn tell_event(event: &Event) -> String {
    match event {
        Event::Created(_) => "created".to_owned(),
        Event::Queued { target, n, message } => {
            format!("queued {}{n} {}", name(*target), message.body.as_str())
        }
        Event::Delivered { target, upto, refused } => {
            format!("delivered {} upto {upto}{}", name(*target), tell_refusals(refused))
        }
        Event::Accepted { from, n, arrival, settled, message } => {
            let body = message.body.as_str();
            format!("accepted {}{n} as #{arrival} {body} (settled {settled})", name(*from))
        }
        Event::Refused { from, refusal, settled, .. } => {
            let reason = format!("{:?}", refusal.reason).to_lowercase();
            format!("refused {}{} {reason} (settled {settled})", name(*from), refusal.n)
        }
        Event::TurnStarted { turn, attempt, taken } => {
            format!("turn {turn} started, attempt {attempt}:{}", tell_arrivals(taken))
        }
        Event::Taken { turn, taken } => format!("turn {turn} took{}", tell_arrivals(taken)),
        Event::TurnEnded { turn, outcome, handled, state, again } => {
            let outcome = match outcome {
                TurnOutcome::Completed => "completed".to_owned(),
                TurnOutcome::Failed(failure) => format!("failed {}", failure.code),
                TurnOutcome::Interrupted => "interrupted".to_owned(),
                TurnOutcome::GivenBack => "given back".to_owned(),
            };
            let state = state.as_ref().map(|s| format!(" keeps {}", s.0.get()));
            let (again, handled) = (if *again { " again" } else { "" }, tell_arrivals(handled));
            format!("turn {turn} {outcome}:{handled}{}{again}", state.unwrap_or_default())
        }
        Event::Dead(Dead { arrival, from, outcome }) => {
            let Outcome { number, n, reason, .. } = outcome;
            let reason = format!("{reason:?}").to_lowercase();
            format!("dead #{arrival} {}{n} {reason}, outcome {number}", name(*from))
        }
        Event::Told { sender, upto } => format!("told {} upto {upto}", name(*sender)),
        Event::OutcomeNoted { from, upto, .. } => format!("noted {} upto {upto}", name(*from)),
        Event::Closed => "closed".to_owned(),
    }
}

fn tell_action(action: &Action) -> String {
    let receipts = |receipts: &[callboard::protocol::session::Receipt]| -> String {
        receipts.iter().map(|r| format!(" {}{}", name(r.target), r.n)).collect()
    };
    let arrivals = |items: &[callboard::protocol::session::state::Item]| {
        tell_arrivals(&items.iter().map(|item| item.arrival).collect::<Vec<_>>())
    };
    match action {
        Action::Receipts { receipts: all, .. } => format!("receipts{}", receipts(all)),
        Action::Dispatch { target, first, messages, settled } => {
            let bodies: Vec<&str> = messages.iter().map(|m| m.body.as_str()).collect();
            let bodies = bodies.join(" ");
            format!("dispatch {} from {first}: {bodies} (settled {settled})", name(*target))
        }
        Action::Answer { to, answer } => {
            let gap = answer.gap.map(|load| format!(" gap in load {load}")).unwrap_or_default();
            let refused = tell_refusals(&answer.refused);
            format!("answer {} upto {}{refused}{gap}", name(*to), answer.upto)
        }
        Action::Report { to, outcomes } => {
            let one = |o: &Outcome| format!(" {}:{} {:?}", o.number, o.n, o.reason).to_lowercase();
            format!("report {}{}", name(*to), outcomes.iter().map(one).collect::<String>())
        }
        Action::ReportAnswer { to, upto } => format!("noted, tell {} upto {upto}", name(*to)),
        Action::Begin { turn, attempt, items } => {
            format!("begin {turn}, attempt {attempt}:{}", arrivals(items))
        }
        Action::Steered { items } => format!("steered:{}", arrivals(items)),
        Action::Ended { turn, receipts: all } => format!("ended {turn}{}", receipts(all)),
        Action::Release { count } => format!("release {count}"),
        Action::Closed { .. } => "closed".to_owned(),
        Action::Inspected { inspection: i, .. } => format!(
            "inspected {:?} pending {} taken {} unsettled {} attempts {} quiet {}",
            i.status, i.pending, i.taken, i.unsettled, i.attempts, i.quiet
        )
        .to_lowercase(),
    }
}
