//! The arrows between layers, read from every path that the code names.
//!
//! **Invariant**: `cli → remote, sim → agents → bus → actors → persist → protocol`, never up and
//! never sideways; `config` and `error` are the ground that all may stand on.

use super::source::Source;

/// What of the crate a path names.
struct Arrow {
    to: String,
    line: usize,
}

/// Paths that lead to a layer which the file's own layer may not know.
pub(super) fn upward(source: &Source) -> Vec<String> {
    let Some(from) = source.layer() else { return Vec::new() };
    if from == "lib" {
        return Vec::new();
    }
    if rank(from).is_none() {
        return vec![source.fault(1, &format!("`{from}` is no layer of the house"))];
    }
    let refused = |arrow: &Arrow| match (from, arrow.to.as_str()) {
        (from, to) if from == to => None,
        ("cli" | "main", "cli" | "main") => None,
        (_, to) if rank(to).is_none() => (!matches!(from, "cli" | "main"))
            .then(|| format!("name `{to}` by its module, not by the crate's root")),
        ("agents", to @ ("actors" | "persist")) => {
            Some(format!("`agents` sees `bus` and `protocol`, not `{to}`"))
        }
        (from, to) => (rank(to) >= rank(from)).then(|| format!("`{from}` may not know `{to}`")),
    };
    let fault = |arrow: Arrow| refused(&arrow).map(|what| source.fault(arrow.line, &what));
    arrows(source).into_iter().filter_map(fault).collect()
}

fn rank(layer: &str) -> Option<u8> {
    Some(match layer {
        "cli" | "main" => 8,
        "remote" | "sim" => 7,
        "agents" => 6,
        "bus" => 5,
        "actors" => 4,
        "persist" => 3,
        "protocol" => 2,
        "config" => 1,
        "error" => 0,
        _ => return None,
    })
}

fn arrows(source: &Source) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    source.visit(|at, token, modules| match token.text.as_str() {
        "crate" | "callboard" if source.before(at) != "::" && source.token(at + 1) == "::" => {
            arrows.extend(heads(source, at + 2));
        }
        "super" if !(at >= 2 && source.reads(at - 2, &["super", "::"])) => {
            arrows.extend(from_super(source, at, modules));
        }
        _ => {}
    });
    arrows
}

/// The first names below the root in a path whose rest begins at token `at`: one, or a group's.
fn heads(source: &Source, at: usize) -> Vec<Arrow> {
    let arrow = |at: usize| {
        source.tokens.get(at).map(|token| Arrow { to: token.text.clone(), line: token.line })
    };
    if source.token(at) != "{" {
        return arrow(at).into_iter().collect();
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for inner in at..source.tokens.len() {
        match source.token(inner) {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ if depth == 1 && matches!(source.before(inner), "{" | ",") => {
                found.extend(arrow(inner))
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

fn from_super(source: &Source, at: usize, modules: &[String]) -> Vec<Arrow> {
    let ups = (0..).take_while(|up| source.reads(at + 2 * up, &["super", "::"])).count();
    let reaches_root = ups > 0 && ups >= modules.len();
    if reaches_root { heads(source, at + 2 * ups) } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> usize {
        upward(&Source::new(path, text)).len()
    }

    #[test]
    fn an_arrow_down_is_fine() {
        assert_eq!(faults("src/actors/session.rs", "use crate::persist::Store;"), 0);
        assert_eq!(faults("src/protocol/id.rs", "use crate::error::{Code, Refused};"), 0);
        assert_eq!(faults("src/cli/run.rs", "use callboard::{Bus, sim::Scenario};"), 0);
        assert_eq!(faults("src/sim/load.rs", "use crate::{agents, bus::Bus, config::Config};"), 0);
        assert_eq!(faults("src/main.rs", "mod cli; fn main() { crate::cli::run() }"), 0);
        assert_eq!(faults("src/lib.rs", "pub use crate::bus::Bus;"), 0);
    }

    #[test]
    fn an_arrow_up_is_found_in_imports_groups_and_bare_paths() {
        assert_eq!(faults("src/persist/log.rs", "use crate::actors::Inbox;"), 1);
        assert_eq!(faults("src/protocol/x.rs", "use crate::{error, persist::Disk, bus};"), 2);
        assert_eq!(faults("src/actors/x.rs", "fn f() -> crate::bus::Bus { g() }"), 1);
        assert_eq!(faults("src/bus.rs", "use crate::{protocol::{id, fold}, agents::Echo};"), 1);
        assert_eq!(faults("src/error.rs", "use crate::config::Config;"), 1);
    }

    #[test]
    fn an_arrow_up_is_found_behind_super() {
        assert_eq!(faults("src/persist/log/mod.rs", "use super::super::actors::Inbox;"), 1);
        assert_eq!(faults("src/persist/mod.rs", "use super::actors;"), 1);
        assert_eq!(faults("src/persist/log.rs", "use super::disk; mod t { use super::*; }"), 0);
        let nested = "mod tests { use super::super::super::actors::Inbox; } use super::disk;";
        assert_eq!(faults("src/persist/log.rs", nested), 1);
    }

    #[test]
    fn sideways_the_root_and_strange_layers_are_refused() {
        assert_eq!(faults("src/sim/x.rs", "use crate::remote::Server;"), 1);
        assert_eq!(faults("src/actors/x.rs", "use crate::Config;"), 1);
        assert_eq!(faults("src/agents/x.rs", "use crate::persist::Store;"), 1);
        assert_eq!(faults("src/misc/x.rs", ""), 1);
    }

    #[test]
    fn a_sentence_about_a_layer_is_no_arrow() {
        assert_eq!(
            faults("src/protocol/x.rs", "//! See crate::actors.\nconst A: &str = \"crate::bus\";"),
            0
        );
    }
}
