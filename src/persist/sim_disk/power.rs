//! What a test does to the simulated machine: power loss, kill, damage, copies of the whole disk.
//!
//! **Invariant**: each of these ends or leaves alone the process that uses the disk; none of them
//! counts as a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::Content;
use super::disk::{Node, SimDisk, State};
use super::names::{Inode, Names};

/// One thing that no flush has covered: a crash keeps the flushed version or one written since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unflushed<'a> {
    /// A sector of 512 bytes.
    Sector {
        /// The file.
        path: &'a str,
        /// Which sector, from 0.
        number: usize,
        /// How many versions were written.
        versions: usize,
    },
    /// A file's length.
    Length {
        /// The file.
        path: &'a str,
        /// How many lengths it had.
        versions: usize,
    },
    /// The making, removal or move of a name.
    Name {
        /// The name.
        path: &'a str,
    },
}

impl Unflushed<'_> {
    /// How many versions there are besides the flushed one.
    pub fn versions(&self) -> usize {
        match self {
            Unflushed::Sector { versions, .. } | Unflushed::Length { versions, .. } => *versions,
            Unflushed::Name { .. } => 1,
        }
    }
}

/// A copy of a whole disk, flushed and unflushed. Cheap to make and to clone.
#[derive(Clone)]
pub struct DiskImage {
    names: Names,
    contents: BTreeMap<Inode, Content>,
    n_made: u64,
}

impl SimDisk {
    /// Power loss. `keep` is asked for everything unflushed, always in the same order, and answers
    /// 0 for the flushed version or `k` for the `k`-th version since. Gives the disk as the next
    /// process finds it; limits and counters stay, armed stops do not.
    #[must_use = "the old handle is dead"]
    pub fn crash(&self, mut keep: impl FnMut(&Unflushed<'_>) -> usize) -> SimDisk {
        let mut state = self.state();
        let paths: BTreeMap<Inode, String> =
            state.names.all().iter().map(|(path, inode)| (*inode, path.clone())).collect();
        state.names.lose(&mut keep);
        for (inode, node) in &mut state.inodes {
            node.content.lose(paths.get(inode).map_or("(removed)", String::as_str), &mut keep);
        }
        self.next_process(&mut state)
    }

    /// Power loss that keeps a subset drawn from `seed`: from nothing over scattered sectors to
    /// everything, names and contents apart.
    #[must_use = "the old handle is dead"]
    pub fn crash_seeded(&self, seed: u64) -> SimDisk {
        let mut chance = Chance(seed);
        let (names, contents) = (chance.below(5) * 25, chance.below(5) * 25);
        self.crash(|unflushed| {
            let percent = match unflushed {
                Unflushed::Name { .. } => names,
                Unflushed::Sector { .. } | Unflushed::Length { .. } => contents,
            };
            if chance.below(100) >= percent {
                return 0;
            }
            let versions = unflushed.versions();
            if chance.below(2) == 0 { versions } else { 1 + chance.below(versions) }
        })
    }

    /// The process dies and the machine lives on: everything written stays, also unflushed, and
    /// locks are released. Gives the disk as the next process finds it.
    #[must_use = "the old handle is dead"]
    pub fn kill(&self) -> SimDisk {
        self.next_process(&mut self.state())
    }

    /// How many versions each unflushed thing has, in the order in which a crash would ask.
    pub fn unflushed(&self) -> Vec<usize> {
        let mut versions = Vec::new();
        let copy = SimDisk::from_image(&self.image()).crash(|unflushed| {
            versions.push(unflushed.versions());
            0
        });
        drop(copy);
        versions
    }

    fn next_process(&self, state: &mut State) -> SimDisk {
        state.locks.clear();
        state.faults.stop_at(None);
        let held = state.names.held();
        state.inodes.retain(|inode, _| held.contains(inode));
        state.inodes.values_mut().for_each(|node| node.n_open = 0);
        state.boot += 1;
        SimDisk { shared: Arc::clone(&self.shared), boot: state.boot }
    }

    /// A copy of everything on the disk; locks, limits, faults and counters are left out.
    pub fn image(&self) -> DiskImage {
        let state = self.state();
        let contents =
            state.inodes.iter().map(|(inode, node)| (*inode, node.content.clone())).collect();
        DiskImage { names: state.names.clone(), contents, n_made: state.n_made }
    }

    /// A new disk with what `image` holds.
    pub fn from_image(image: &DiskImage) -> SimDisk {
        let disk = SimDisk::new();
        let mut state = disk.state();
        state.names = image.names.clone();
        state.n_made = image.n_made;
        for (inode, content) in &image.contents {
            state.inodes.insert(*inode, Node { content: content.clone(), n_open: 0 });
        }
        drop(state);
        disk
    }

    /// Every file with its bytes as a reader sees them.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let bytes = |inode: &Inode| state.inodes.get(inode).map(|node| node.content.bytes());
        let names = state.names.all().iter();
        names.map(|(path, inode)| (path.clone(), bytes(inode).unwrap_or(&[]).to_vec())).collect()
    }

    /// Makes or replaces a file, flushed, with its directories.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        let inode = state.names.find(path).unwrap_or_else(|| state.new_number());
        state.names.add_durable(path, inode);
        state.inodes.entry(inode).or_default().content = Content::durable(bytes.to_vec());
    }

    /// Turns one bit over, as rot does. Past the end it does nothing.
    pub fn flip_bit(&self, path: &str, offset: usize, bit: u8) {
        self.damage(path, |bytes| {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= 1 << (bit % 8);
            }
        });
    }

    /// Sets a file's length without a call, as a bad repair does.
    pub fn set_len(&self, path: &str, len: usize) {
        self.damage(path, |bytes| bytes.resize(len, 0));
    }

    fn damage(&self, path: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut state = self.state();
        let inode = state.names.find(path);
        if let Some(node) = inode.and_then(|inode| state.inodes.get_mut(&inode)) {
            node.content.damage(change);
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % (bound.max(1) as u64)).unwrap_or(0)
    }
}
