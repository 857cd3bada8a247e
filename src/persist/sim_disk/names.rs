//! The directory entries of the simulated disk, and which of them a flush has covered.
//!
//! **Invariant**: a rename never loses its file: its old name goes only when the new one is there.

use std::collections::{BTreeMap, BTreeSet};

use super::power::Unflushed;

/// Which file a name stands for.
pub(super) type Inode = u64;

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    now: BTreeMap<String, Inode>,
    flushed: BTreeMap<String, Inode>,
    changes: Vec<Change>,
    n_changes: u64,
    dirs: BTreeSet<String>,
}

/// A change of one name that no flush of its directory has covered.
#[derive(Debug, Clone)]
struct Change {
    number: u64,
    path: String,
    inode: Inode,
    sort: Sort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Added,
    Removed,
    /// The old name of a rename, with the number of the change that made the new one.
    MovedAway(u64),
}

impl Names {
    pub(super) fn has_dir(&self, dir: &str) -> bool {
        self.dirs.contains(dir)
    }

    pub(super) fn make_dir(&mut self, dir: &str) {
        self.dirs.insert(String::new());
        let mut path = String::new();
        for part in dir.split('/').filter(|part| !part.is_empty()) {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
            self.dirs.insert(path.clone());
        }
    }

    pub(super) fn find(&self, path: &str) -> Option<Inode> {
        self.now.get(path).copied()
    }

    pub(super) fn list(&self, dir: &str) -> Vec<String> {
        self.now.keys().filter(|path| dir_of(path) == dir).map(|path| name_of(path)).collect()
    }

    pub(super) fn all(&self) -> &BTreeMap<String, Inode> {
        &self.now
    }

    /// The files that some name, as it is or as a crash may leave it, stands for.
    pub(super) fn held(&self) -> BTreeSet<Inode> {
        let changed = self.changes.iter().map(|change| change.inode);
        self.now.values().chain(self.flushed.values()).copied().chain(changed).collect()
    }

    pub(super) fn add(&mut self, path: &str, inode: Inode) {
        self.now.insert(path.to_owned(), inode);
        self.note(path, inode, Sort::Added);
    }

    /// A name that is there for good at once.
    pub(super) fn add_durable(&mut self, path: &str, inode: Inode) {
        self.make_dir(dir_of(path));
        self.now.insert(path.to_owned(), inode);
        self.flushed.insert(path.to_owned(), inode);
        self.changes.retain(|change| change.path != path);
    }

    pub(super) fn remove(&mut self, path: &str) -> Option<Inode> {
        let inode = self.now.remove(path)?;
        self.note(path, inode, Sort::Removed);
        Some(inode)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let inode = self.find(from)?;
        if from == to {
            return Some(());
        }
        self.now.remove(from);
        self.now.insert(to.to_owned(), inode);
        let added = self.note(to, inode, Sort::Added);
        self.note(from, inode, Sort::MovedAway(added));
        Some(())
    }

    fn note(&mut self, path: &str, inode: Inode, sort: Sort) -> u64 {
        self.n_changes += 1;
        self.changes.push(Change { number: self.n_changes, path: path.to_owned(), inode, sort });
        self.n_changes
    }

    pub(super) fn flush(&mut self, dir: &str) {
        let mut kept: BTreeSet<u64> = BTreeSet::new();
        for change in self.changes.iter().filter(|change| dir_of(&change.path) == dir) {
            kept.insert(change.number);
            if let Sort::MovedAway(added) = change.sort {
                kept.insert(added);
            }
        }
        self.keep(&kept);
        self.changes.retain(|change| !kept.contains(&change.number));
    }

    /// What a power loss leaves, by `choose`: 0 is what was flushed, 1 the change.
    pub(super) fn lose(&mut self, choose: &mut dyn FnMut(&Unflushed<'_>) -> usize) {
        let chosen = |change: &&Change| choose(&Unflushed::Name { path: &change.path }) > 0;
        let kept = self.changes.iter().filter(chosen).map(|change| change.number).collect();
        self.keep(&kept);
        self.changes.clear();
        self.now.clone_from(&self.flushed);
    }

    fn keep(&mut self, kept: &BTreeSet<u64>) {
        let n_pending: BTreeSet<u64> = self.changes.iter().map(|change| change.number).collect();
        for change in self.changes.iter().filter(|change| kept.contains(&change.number)) {
            let goes = match change.sort {
                Sort::Added => {
                    self.flushed.insert(change.path.clone(), change.inode);
                    false
                }
                Sort::Removed => true,
                Sort::MovedAway(added) => kept.contains(&added) || !n_pending.contains(&added),
            };
            if goes && self.flushed.get(&change.path) == Some(&change.inode) {
                self.flushed.remove(&change.path);
            }
        }
    }
}

pub(super) fn dir_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

fn name_of(path: &str) -> String {
    path.rsplit_once('/').map_or(path, |(_, name)| name).to_owned()
}
