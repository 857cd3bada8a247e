//! Checks what a scenario says: names, links, and that its mail comes to an end.
//!
//! **Invariant**: whatever passes can be made and run; each fault names its line and column.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use super::run::settings;
use super::scenario::{
    AgentTable, Cast, File, Kind, LinkTable, Role, SESSIONS_MAX, STARTER, Unfit,
};
use super::seats::REMADE;
use crate::config::Limits;
use crate::protocol::{Label, Workspace};

/// The names of a scenario, checked and written out.
pub(super) struct Checked {
    pub(super) workspace: Workspace,
    pub(super) agents: Vec<Cast>,
    /// The lower label first.
    pub(super) pairs: BTreeSet<(Label, Label)>,
    pub(super) groups: BTreeMap<Label, BTreeSet<Label>>,
}

impl Checked {
    fn may_talk(&self, one: &Label, other: &Label) -> bool {
        let by_group = |members: &BTreeSet<Label>| members.contains(one) && members.contains(other);
        one != other
            && (self.pairs.contains(&ordered(one, other)) || self.groups.values().any(by_group))
    }
}

fn ordered(one: &Label, other: &Label) -> (Label, Label) {
    (one.min(other).clone(), one.max(other).clone())
}

/// Members of a circle that are named.
const SHOWN_MAX: usize = 8;

/// Pairs that one link may stand for.
const PAIRS_MAX: usize = 1_000_000;

/// A label of a table with the sessions it stands for.
type Names = BTreeMap<String, Vec<Label>>;

pub(super) fn check(text: &str, file: &File, limits: &Limits) -> Result<Checked, Unfit> {
    let check = Check { text, limits, names: names(text, &file.agents)? };
    let mut checked = Checked {
        workspace: check.workspace(file)?,
        agents: Vec::new(),
        pairs: BTreeSet::new(),
        groups: BTreeMap::new(),
    };
    for link in &file.links {
        check.link(link, &mut checked)?;
    }
    for table in &file.agents {
        let role = check.role(table)?;
        check.linked(table, &checked)?;
        check.fits(table, &role)?;
        let labels = check.names.get(table.label.get_ref()).into_iter().flatten();
        checked
            .agents
            .extend(labels.map(|label| Cast { label: label.clone(), role: role.clone() }));
    }
    check.ends(file)?;
    Ok(checked)
}

fn names(text: &str, tables: &[AgentTable]) -> Result<Names, Unfit> {
    let mut names = Names::new();
    let mut taken = BTreeSet::new();
    let mut n_sessions = 0_usize;
    for AgentTable { label, count, .. } in tables {
        let at = |what: &str| Unfit::at(text, label.span().start, what);
        let base = label.get_ref();
        let labels: Vec<String> = match count.as_ref().map(|count| (count.get_ref(), count)) {
            None => vec![base.clone()],
            Some((0, count)) => {
                return Err(Unfit::at(text, count.span().start, "`count` must be at least 1"));
            }
            Some((count, _)) => (1..=*count)
                .take(SESSIONS_MAX + 1)
                .map(|number| format!("{base}-{number}"))
                .collect(),
        };
        n_sessions += labels.len();
        if n_sessions > SESSIONS_MAX {
            return Err(at(&format!("a scenario has at most {SESSIONS_MAX} sessions")));
        }
        let mut checked = Vec::with_capacity(labels.len());
        for label in labels {
            if label.contains(REMADE) {
                return Err(at(&format!("a label may not hold `{REMADE}`")));
            }
            checked.push(Label::new(&label).map_err(|refused| at(&refused.text))?);
            if label == STARTER {
                let what = "is that of the session that starts the sources";
                return Err(at(&format!("the label `{STARTER}` {what}")));
            }
            if !taken.insert(label.clone()) {
                return Err(at(&format!("the label `{label}` is taken")));
            }
        }
        if names.insert(base.clone(), checked).is_some() {
            return Err(at(&format!("the label `{base}` is taken")));
        }
    }
    Ok(names)
}

struct Check<'a> {
    text: &'a str,
    limits: &'a Limits,
    names: Names,
}

impl Check<'_> {
    fn at<T>(&self, place: &Spanned<T>, what: &str) -> Unfit {
        Unfit::at(self.text, place.span().start, what)
    }

    fn workspace(&self, file: &File) -> Result<Workspace, Unfit> {
        let Some(named) = &file.run.workspace else {
            return Workspace::new("main").map_err(|refused| Unfit(refused.text));
        };
        Workspace::new(named.get_ref()).map_err(|refused| self.at(named, &refused.text))
    }

    /// The sessions that a name stands for: of one table, or one of them.
    fn named(&self, name: &Spanned<String>) -> Result<Vec<Label>, Unfit> {
        let text = name.get_ref();
        if let Some(labels) = self.names.get(text) {
            return Ok(labels.clone());
        }
        let one = self.names.values().flatten().find(|label| label.as_str() == text);
        one.map(|label| vec![label.clone()])
            .ok_or_else(|| self.at(name, &format!("no agent has the label `{text}`")))
    }

    fn all_named(&self, names: &[Spanned<String>]) -> Result<Vec<Label>, Unfit> {
        let mut labels = Vec::new();
        for name in names {
            labels.extend(self.named(name)?);
        }
        Ok(labels)
    }

    fn link(&self, link: &Spanned<LinkTable>, checked: &mut Checked) -> Result<(), Unfit> {
        match link.get_ref() {
            LinkTable { pair: Some(pair), group: None, members: None } => {
                let [one, other] = pair.get_ref().as_slice() else {
                    let n_named = pair.get_ref().len();
                    return Err(self.at(pair, &format!("a pair names two labels, not {n_named}")));
                };
                let (ones, others) = (self.named(one)?, self.named(other)?);
                if ones.len().saturating_mul(others.len()) > PAIRS_MAX {
                    return Err(self.at(link, "too many pairs; make it a group"));
                }
                for one in ones {
                    if others.contains(&one) {
                        return Err(self.at(other, "a session is not linked with itself"));
                    }
                    checked.pairs.extend(others.iter().map(|other| ordered(&one, other)));
                }
                Ok(())
            }
            LinkTable { pair: None, group: Some(name), members: Some(members) } => {
                let group = Label::new(name.get_ref()).map_err(|refused| {
                    self.at(name, &format!("the name of a group is a label: {}", refused.text))
                })?;
                let members = self.all_named(members)?.into_iter().collect();
                match checked.groups.insert(group, members) {
                    None => Ok(()),
                    Some(_) => Err(self.at(name, "this group is there already")),
                }
            }
            LinkTable { .. } => {
                Err(self.at(link, "a link is either `pair`, or `group` with `members`"))
            }
        }
    }

    fn role(&self, table: &AgentTable) -> Result<Role, Unfit> {
        let AgentTable { agent, to, messages, bytes, burst, .. } = table;
        let kind = *agent.get_ref();
        let is_source = kind == Kind::Source;
        for (key, place) in [
            (
                "to",
                to.as_ref().map(Spanned::span).filter(|_| matches!(kind, Kind::Echo | Kind::Sink)),
            ),
            ("messages", messages.as_ref().map(Spanned::span).filter(|_| !is_source)),
            ("bytes", bytes.as_ref().map(Spanned::span).filter(|_| !is_source)),
            ("burst", burst.as_ref().map(Spanned::span).filter(|_| !is_source)),
        ] {
            if let Some(span) = place {
                let what = format!("this agent does not know `{key}`");
                return Err(Unfit::at(self.text, span.start, &what));
            }
        }
        match kind {
            Kind::Echo => Ok(Role::Echo),
            Kind::Sink => Ok(Role::Sink),
            Kind::Relay => Ok(Role::Relay { to: self.targets(table)? }),
            Kind::Source => {
                let Some(messages) = messages.as_ref().map(|messages| *messages.get_ref()) else {
                    return Err(self.at(agent, "a source needs `messages`, how many it sends"));
                };
                let burst = burst.as_ref().map_or(8, |burst| *burst.get_ref());
                if burst == 0 {
                    return Err(self.at(agent, "`burst` must be at least 1"));
                }
                let bytes = bytes.as_ref().map_or(0, |bytes| *bytes.get_ref());
                Ok(Role::Source { to: self.targets(table)?, messages, bytes, burst })
            }
        }
    }

    fn targets(&self, table: &AgentTable) -> Result<Vec<Label>, Unfit> {
        let to = table.to.as_ref().map(|to| self.all_named(to.get_ref())).transpose()?;
        to.filter(|to| !to.is_empty())
            .ok_or_else(|| self.at(&table.agent, "this agent needs `to`, whom it sends to"))
    }

    /// Whether what the agent sends and keeps is within the limits.
    fn fits(&self, table: &AgentTable, role: &Role) -> Result<(), Unfit> {
        let Limits { message_max, agent_state_max, .. } = self.limits;
        if let Some(size) = role.message_max().filter(|size| size > message_max) {
            let what = format!(
                "these bytes make messages of {size} bytes with their envelope, and `message_max` \
                 is {message_max}"
            );
            return Err(match &table.bytes {
                Some(bytes) => self.at(bytes, &what),
                None => self.at(&table.agent, &what),
            });
        }
        let to = role.targets().cloned().collect();
        let settings = settings(role, to).map_err(|error| Unfit(error.to_string()))?;
        let bytes = settings.map_or(0, |settings| settings.0.get().len());
        if bytes > *agent_state_max {
            let label = table.label.get_ref();
            let what = format!(
                "the settings of `{label}` take {bytes} bytes, and `agent_state_max` is \
                 {agent_state_max}"
            );
            return Err(self.at(&table.label, &what));
        }
        Ok(())
    }

    /// Whether each of the table's sessions may talk to each of its targets.
    fn linked(&self, table: &AgentTable, checked: &Checked) -> Result<(), Unfit> {
        let senders = self.names.get(table.label.get_ref());
        for name in table.to.iter().flat_map(|to| to.get_ref()) {
            for target in self.named(name)? {
                let strangers =
                    senders.into_iter().flatten().find(|s| !checked.may_talk(s, &target));
                if let Some(sender) = strangers {
                    let what = match *sender == target {
                        true => format!("`{sender}` may not send to itself"),
                        false => format!("`{sender}` has no link with `{target}`"),
                    };
                    return Err(self.at(name, &what));
                }
            }
        }
        Ok(())
    }

    /// Whether no way leads back to where it came from: relays and sources send to others, echoes
    /// send a relay's mail back to it. So mail comes to an end, and whoever is sent to can be made
    /// before who sends.
    fn ends(&self, file: &File) -> Result<(), Unfit> {
        let mut onward: BTreeMap<Label, BTreeSet<Label>> = BTreeMap::new();
        let sends =
            |table: &&AgentTable| matches!(table.agent.get_ref(), Kind::Relay | Kind::Source);
        let echoes: BTreeSet<&Label> = (file.agents.iter())
            .filter(|table| *table.agent.get_ref() == Kind::Echo)
            .flat_map(|table| self.names.get(table.label.get_ref()).into_iter().flatten())
            .collect();
        for table in file.agents.iter().filter(sends) {
            let to = table.to.as_ref().map(|to| self.all_named(to.get_ref())).transpose()?;
            let to = to.unwrap_or_default();
            for sender in self.names.get(table.label.get_ref()).into_iter().flatten() {
                let is_relay = *table.agent.get_ref() == Kind::Relay;
                for echo in to.iter().filter(|target| is_relay && echoes.contains(target)) {
                    onward.entry(echo.clone()).or_default().insert(sender.clone());
                }
                onward.entry(sender.clone()).or_default().extend(to.iter().cloned());
            }
        }
        loop {
            let ends: BTreeSet<Label> = dead_ends(&onward).into_iter().collect();
            if ends.is_empty() {
                break;
            }
            onward.retain(|label, _| !ends.contains(label));
        }
        let Some((round, what)) = circle(&onward) else { return Ok(()) };
        let table = file.agents.iter().find(|table| {
            self.names.get(table.label.get_ref()).is_some_and(|labels| labels.contains(&round))
        });
        Err(table.map_or(Unfit(what.clone()), |table| self.at(&table.label, &what)))
    }
}

/// A circle and its first member, where every session has a way on to another one of them.
fn circle(onward: &BTreeMap<Label, BTreeSet<Label>>) -> Option<(Label, String)> {
    let mut way: Vec<&Label> = vec![onward.keys().next()?];
    loop {
        let next = onward.get(*way.last()?)?.iter().find(|to| onward.contains_key(*to))?;
        let Some(start) = way.iter().position(|label| *label == next) else {
            way.push(next);
            continue;
        };
        let members = way.iter().skip(start);
        let mut shown: Vec<String> =
            members.clone().take(SHOWN_MAX).map(|label| format!("`{label}`")).collect();
        if members.count() > SHOWN_MAX {
            shown.push("and more".to_owned());
        }
        shown.push(format!("`{next}`"));
        let what = format!("these send to each other in a circle: {}", shown.join(", "));
        return Some((next.clone(), what));
    }
}

/// A session whose mail goes on only to sessions that send nothing on.
fn dead_ends(onward: &BTreeMap<Label, BTreeSet<Label>>) -> Vec<Label> {
    let ends = |to: &BTreeSet<Label>| to.iter().all(|target| !onward.contains_key(target));
    onward.iter().filter(|(_, to)| ends(to)).map(|(label, _)| label.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::scenario::{Role, Scenario};

    const SMALL: &str = r#"
[run]
name = "small"

[[agents]]
label = "tap"
agent = "source"
to = ["basin"]
messages = 10

[[agents]]
label = "basin"
agent = "sink"
count = 2

[[links]]
pair = ["tap", "basin"]
"#;

    fn fault(change: impl Fn(String) -> String) -> String {
        Scenario::parse(&change(SMALL.to_owned())).unwrap_err().0
    }

    #[test]
    fn a_scenario_is_read_and_names_are_written_out() {
        let scenario = Scenario::parse(SMALL).unwrap();
        let labels: Vec<&str> = scenario.agents.iter().map(|cast| cast.label.as_str()).collect();
        assert_eq!(labels, ["tap", "basin-1", "basin-2"]);
        assert_eq!(scenario.pairs.len(), 2);
        assert!(matches!(&scenario.agents[0].role, Role::Source { to, .. } if to.len() == 2));
        assert_eq!(scenario.workspace.as_str(), "main");
    }

    #[test]
    fn faults_name_their_line_and_column() {
        for (from, to, starts) in [
            ("messages = 10", "mesages = 10", "line 9, column 1: there is no key"),
            ("[run]", "[walk]", "line 2, column 2: there is no key"),
            ("name =", "name", "line 3, column"),
            ("\"sink\"", "\"sponge\"", "line 13, column 9: `sponge` is none of"),
            ("to = [\"basin\"]", "to = [\"basin\", \"x\"]", "line 8, column 16: no agent has"),
            ("to = [\"basin\"]", "to = []", "line 7, column 9: this agent needs `to`"),
            ("messages = 10\n", "", "line 7, column 9: a source needs `messages`"),
            ("count = 2", "count = 0", "line 14, column 9: `count` must"),
            ("count = 2", "burst = 2", "line 14, column 9: this agent does not know `burst`"),
            ("\"basin\"\nagent", "\"tap\"\nagent", "line 12, column 9: the label `tap`"),
            ("\"basin\"\nagent", "\"Basin\"\nagent", "line 12, column 9: a label is"),
            (
                "pair = [\"tap\", \"basin\"]",
                "pair = [\"tap\", \"basin-1\"]",
                "line 8, column 7: `tap`",
            ),
            ("pair = [\"tap\", ", "group = \"g\"\npair = [\"tap\", ", "line 16, column 1: a link"),
        ] {
            let fault = fault(|text| {
                assert!(text.contains(from), "{from}");
                text.replacen(from, to, 1)
            });
            assert!(fault.starts_with(starts), "{to}: {fault}");
            assert!(!fault.contains('\n'), "{fault}");
        }
    }

    #[test]
    fn mail_that_would_go_round_is_found() {
        let text = r#"
            run = { name = "round" }
            agents = [
                { label = "a", agent = "relay", to = ["b"] },
                { label = "b", agent = "echo" },
            ]
            links = [{ pair = ["a", "b"] }]
        "#;
        let fault = Scenario::parse(text).unwrap_err().0;
        assert!(fault.ends_with("in a circle: `a`, `b`, `a`"), "{fault}");
        assert!(Scenario::parse(&text.replace("echo", "sink")).is_ok());
    }

    #[test]
    fn the_hash_is_of_what_is_said() {
        let hash = |text: &str| Scenario::parse(text).unwrap().hash();
        assert_eq!(hash(SMALL), hash(&format!("# a note\n{SMALL}[limits]\npending_max = 9\n")));
        assert_ne!(hash(SMALL), hash(&SMALL.replace("10", "11")));
    }
}
