//! What every text keeps to: no path of one machine, no link into the void.

use super::source::{Source, root};

/// Absolute paths that exist on somebody's machine only.
pub(super) fn machine_paths(text: &Source) -> Vec<String> {
    let homes = ["home", "root", "Users", "work", "mnt"].map(|name| format!("/{name}/"));
    let is_absolute = |line: &str, home: &str| {
        line.match_indices(home).any(|(at, _)| {
            let before = line.get(..at).and_then(|before| before.chars().next_back());
            !before.is_some_and(|before| before.is_alphanumeric() || "._-/}".contains(before))
        })
    };
    let lines = text.text.lines().enumerate();
    lines
        .filter(|(_, line)| homes.iter().any(|home| is_absolute(line, home)))
        .map(|(at, _)| text.fault(at + 1, "a path of one machine"))
        .collect()
}

/// Links of a Markdown document to files that are not there.
pub(super) fn dead_links(text: &Source) -> Vec<String> {
    if !text.path.ends_with(".md") {
        return Vec::new();
    }
    let mut folder = root().join(&text.path);
    folder.pop();
    let mut faults = Vec::new();
    for (at, line) in text.text.lines().enumerate() {
        for target in links(line) {
            let file = target.split('#').next().unwrap_or_default();
            if !target.contains("://") && !file.is_empty() && !folder.join(file).exists() {
                faults.push(text.fault(at + 1, &format!("`{target}` is not there")));
            }
        }
    }
    faults
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found() {
        let faults = |text: &str| machine_paths(&Source::new("README.md", text)).len();
        assert_eq!(faults(concat!("see /ho", "me/ann/x")), 1);
        assert_eq!(faults(concat!("\"/ro", "ot/x\"")), 1);
        assert_eq!(faults("a/work/b and ../work/x and ./home/"), 0);
    }

    #[test]
    fn a_link_into_the_void_is_found() {
        let faults = |text: &str| dead_links(&Source::new("docs/x.md", text)).len();
        let text = "[a](features.md) [b](../README.md#c) [d](https://example.com) [e](#f)";
        assert_eq!(faults(text), 0);
        assert_eq!(faults("[a](missing.md)"), 1);
    }
}
