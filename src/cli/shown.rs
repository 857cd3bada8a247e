//! Shows stored events: the type as a field, session ids as labels, bodies as they came.
//!
//! **Invariant**: every byte of a body, a state or settings is shown as the journal holds it; an
//! event that this version does not know is an error, never skipped.

use std::collections::HashMap;
use std::fmt;

use callboard::persist::store::{FrameKind, StoredFrame};
use callboard::protocol::{Label, SessionId, session, supervisor};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The supervisor's stream is shown under this label, which no session can have.
const SUPERVISOR: &str = "supervisor";

/// Fields whose content is somebody else's.
const OPAQUE: [&str; 3] = ["body", "state", "settings"];

/// What each session is called.
#[derive(Debug, Default)]
pub(crate) struct Labels(HashMap<SessionId, Label>);

/// One event, as it is printed.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    session: SessionId,
    label: String,
    position: u64,
    run: u64,
    /// The frame's place in its session's journal, as far as that is still there, from 1.
    frame: u64,
    time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unproved: Option<bool>,
    event: Fields,
}

impl Labels {
    /// Learns what a frame says of sessions.
    pub(crate) fn learn(&mut self, frame: &StoredFrame) -> Result<(), serde_json::Error> {
        if let FrameKind::Snapshot { .. } = frame.kind {
            if let Ok(Snapshot { created }) = serde_json::from_slice(&frame.payload) {
                self.add(&created);
            }
            return Ok(());
        }
        if frame.session == SessionId::SUPERVISOR {
            for event in serde_json::from_slice::<Vec<supervisor::Event>>(&frame.payload)? {
                if let supervisor::Event::Provisioned(created) = event {
                    self.add(&created);
                }
            }
            return Ok(());
        }
        for event in serde_json::from_slice::<Vec<session::Event>>(&frame.payload)? {
            if let session::Event::Created(created) = event {
                self.add(&created);
            }
        }
        Ok(())
    }

    fn add(&mut self, created: &session::Created) {
        self.0.insert(created.id, created.label.clone());
    }

    /// The session of a label, or of an id.
    pub(crate) fn find(&self, name: &str) -> Option<SessionId> {
        if name == SUPERVISOR {
            return Some(SessionId::SUPERVISOR);
        }
        let by_label = self.0.iter().find(|(_, known)| known.as_str() == name).map(|(id, _)| *id);
        by_label.or_else(|| name.parse().ok().filter(|id| self.0.contains_key(id)))
    }

    /// What a session is called; its id where the journal does not say.
    pub(crate) fn label(&self, id: SessionId) -> String {
        if id == SessionId::SUPERVISOR {
            return SUPERVISOR.to_owned();
        }
        self.0.get(&id).map_or_else(|| id.to_string(), |label| label.as_str().to_owned())
    }
}

/// The part of a session's snapshot that names it.
#[derive(Deserialize)]
struct Snapshot {
    created: session::Created,
}

/// The events of a frame; none for a snapshot. `number` is the frame's place in its session.
pub(crate) fn events(
    frame: &StoredFrame,
    number: u64,
    labels: &Labels,
) -> Result<Vec<Shown>, serde_json::Error> {
    if let FrameKind::Snapshot { .. } = frame.kind {
        return Ok(Vec::new());
    }
    let events: Vec<Box<RawValue>> = serde_json::from_slice(&frame.payload)?;
    let shown = |event: Box<RawValue>| {
        Ok(Shown {
            session: frame.session,
            label: labels.label(frame.session),
            position: frame.position,
            run: frame.run,
            frame: number,
            time: frame.time.0,
            unproved: (!frame.proved).then_some(true),
            event: typed(&event, labels)?,
        })
    };
    events.into_iter().map(shown).collect()
}

impl Shown {
    /// One line for people.
    pub(crate) fn text(&self) -> Result<String, serde_json::Error> {
        let Shown { label, position, time, event, .. } = self;
        Ok(format!("{position:>12}  {time}  {label:<16}  {}", serde_json::to_string(event)?))
    }
}

/// `"closed"` and `{"accepted": {..}}` become `{"type": "closed"}` and `{"type": "accepted", ..}`.
fn typed(event: &RawValue, labels: &Labels) -> Result<Fields, serde_json::Error> {
    if let Ok(name) = serde_json::from_str::<String>(event.get()) {
        return Ok(Fields(vec![("type".to_owned(), to_raw_value(&name)?)]));
    }
    let Fields(variants) = serde_json::from_str(event.get())?;
    let mut fields = Vec::new();
    for (name, content) in variants {
        fields.push(("type".to_owned(), to_raw_value(&name)?));
        fields.extend(serde_json::from_str::<Fields>(content.get())?.named(labels)?.0);
    }
    Ok(Fields(fields))
}

/// The fields of a JSON object in their order, raw.
#[derive(Debug, Default)]
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    fn named(self, labels: &Labels) -> Result<Self, serde_json::Error> {
        let named = |(name, value): (String, Box<RawValue>)| {
            let value = if OPAQUE.contains(&name.as_str()) { value } else { shown(value, labels)? };
            Ok((name, value))
        };
        Ok(Fields(self.0.into_iter().map(named).collect::<Result<_, serde_json::Error>>()?))
    }
}

/// The same value with session ids replaced by labels.
fn shown(value: Box<RawValue>, labels: &Labels) -> Result<Box<RawValue>, serde_json::Error> {
    match value.get().as_bytes().first() {
        Some(b'{') => to_raw_value(&serde_json::from_str::<Fields>(value.get())?.named(labels)?),
        Some(b'[') => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(value.get())?;
            let items = items.into_iter().map(|item| shown(item, labels));
            to_raw_value(&items.collect::<Result<Vec<_>, _>>()?)
        }
        Some(b'"') => {
            let id = value.get().trim_matches('"').parse::<SessionId>();
            match id.ok().and_then(|id| labels.0.get(&id)) {
                Some(label) => to_raw_value(label.as_str()),
                None => Ok(value),
            }
        }
        Some(_) | None => Ok(value),
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use callboard::protocol::Timestamp;

    use super::*;

    const ANN: &str = "00000000-0000-7000-8000-00000000000a";
    const BOB: &str = "00000000-0000-7000-8000-00000000000b";

    fn frame(session: &str, payload: &str) -> StoredFrame {
        StoredFrame {
            position: 4_096,
            run: 1,
            previous: None,
            session: session.parse().unwrap(),
            kind: FrameKind::Events,
            pending: false,
            time: Timestamp(7),
            proved: true,
            payload: payload.replace("ANN", ANN).replace("BOB", BOB).into_bytes(),
        }
    }

    fn labels() -> Labels {
        let mut labels = Labels::default();
        for (id, label) in [(ANN, "ann"), (BOB, "bob")] {
            let created =
                format!(r#"[{{"created":{{"id":"{id}","label":"{label}","body":"driver"}}}}]"#);
            labels.learn(&frame(id, &created)).unwrap();
        }
        labels
    }

    #[test]
    fn ids_become_labels_and_bodies_stay_as_they_are() {
        let payload = concat!(
            r#"[{"accepted":{"from":"BOB","n":1,"arrival":1,"settled":0,"message":{"#,
            r#""id":"00000000-0000-7000-8000-0000000000ff","#,
            r#""source":{"kind":"agent","sender":"BOB","name":"bob"},"#,
            r#""sent":5,"body":{"json":{"b":1.0,"a":"BOB","a":1e2}}}}},"closed","#,
            r#"{"refused":{"from":"BOB","n":2,"reason":"expired","id":"BOB","settled":0}}]"#,
        );
        let labels = labels();
        let frame = frame(ANN, payload);
        Labels::default().learn(&frame).unwrap();
        let lines: Vec<String> = events(&frame, 3, &labels)
            .unwrap()
            .iter()
            .map(|shown| serde_json::to_string(shown).unwrap())
            .collect();
        let place = r#""label":"ann","position":4096,"run":1,"frame":3,"time":7"#;
        let start = format!(r#"{{"session":"{ANN}",{place},"event":"#);
        let accepted = concat!(
            r#"{"type":"accepted","from":"bob","n":1,"arrival":1,"settled":0,"message":{"#,
            r#""id":"00000000-0000-7000-8000-0000000000ff","#,
            r#""source":{"kind":"agent","sender":"bob","name":"bob"},"#,
            r#""sent":5,"body":{"json":{"b":1.0,"a":"BOB","a":1e2}}}}}"#,
        );
        assert_eq!(lines[0], start.clone() + &accepted.replace("BOB", BOB));
        assert_eq!(lines[1], start + r#"{"type":"closed"}}"#);
        assert!(lines[2].contains(r#""from":"bob","n":2,"reason":"expired""#), "{}", lines[2]);
    }

    #[test]
    fn the_supervisor_has_its_name_and_unproved_frames_say_so() {
        let labels = labels();
        let id = SessionId::SUPERVISOR.to_string();
        let mut frame = frame(&id, r#"[{"connected":{"one":"ANN","other":"BOB"}}]"#);
        frame.proved = false;
        let line = serde_json::to_string(&events(&frame, 1, &labels).unwrap()[0]).unwrap();
        assert!(line.contains(r#""label":"supervisor""#), "{line}");
        assert!(line.contains(r#""unproved":true"#), "{line}");
        assert!(line.ends_with(r#"{"type":"connected","one":"ann","other":"bob"}}"#), "{line}");
    }

    #[test]
    fn an_unknown_event_is_an_error() {
        assert!(Labels::default().learn(&frame(ANN, r#"[{"vanished":{}}]"#)).is_err());
        assert!(Labels::default().learn(&frame(ANN, "[\"closed\"")).is_err());
        let extra = r#"[{"told":{"sender":"ANN","upto":1,"more":2}}]"#;
        assert!(Labels::default().learn(&frame(ANN, extra)).is_err());
    }
}
