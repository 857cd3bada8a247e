//! The log's end: where the next group comes to lie, what is flushed, what is ready to be written.
//!
//! **Invariant**: a group that could not be written leaves zeros behind, flushed, or the store is
//! poisoned; a failed flush poisons it.

use std::io;
use std::sync::Arc;

use super::committer::Start;
use super::core::Core;
use super::group::GroupHeader;
use super::heads_file::LastGroup;
use super::meta::unusable;
use super::segment::{Segments, write_counted, write_zeros};
use crate::error::{Code, Fault};
use crate::persist::disk::DiskFile;

/// See the file.
pub(crate) struct Tail {
    /// Where the next group comes to lie.
    pub(crate) at: u64,
    /// Where the last group written ends; the next may start in another segment.
    end: u64,
    /// The last group written.
    pub(crate) last: Option<LastGroup>,
    /// Whether the last group written has no frames.
    pub(crate) last_is_empty: bool,
    /// Everything below is on disk.
    pub(crate) flushed: u64,
    /// The last group that is on disk.
    pub(crate) last_flushed: Option<LastGroup>,
    /// The greatest `flushed` of a header that is on disk itself.
    pub(crate) proved: u64,
    /// The `flushed` of the last header written.
    claimed: u64,
    /// Segments below this position are ready to be written.
    pub(crate) ready: u64,
    /// Bytes of log that groups with frames took, since the store was opened.
    pub(crate) carried: u64,
    /// Memory for the next group.
    pub(crate) buffer: Vec<u8>,
    size: u64,
    file: Option<(u64, Arc<dyn DiskFile>)>,
    unflushed: Vec<Arc<dyn DiskFile>>,
    /// What a failed write may have left behind, to be wiped before the next: file, offset, length.
    left: Option<(Arc<dyn DiskFile>, u64, u64)>,
    /// Segments in use, without those that are ready ahead.
    n_used: u64,
}

impl Tail {
    pub(crate) fn new(core: &Core, start: &Start) -> Self {
        let mut tail = Tail {
            at: start.end,
            end: start.end,
            last: start.last,
            last_is_empty: false,
            flushed: start.end,
            last_flushed: start.last,
            proved: 0,
            claimed: 0,
            ready: 0,
            carried: 0,
            buffer: Vec::new(),
            size: core.segments.size,
            file: None,
            unflushed: Vec::new(),
            left: None,
            n_used: 0,
        };
        tail.look_around(&core.segments);
        tail
    }

    /// Learns which segments are ready and in use.
    pub(crate) fn look_around(&mut self, segments: &Segments) {
        let live = segments.live();
        let mut next = segments.of(self.at);
        while live.binary_search(&next).is_ok() {
            next += 1;
        }
        self.ready = segments.start(next).max(self.at);
        let current = segments.of(self.at);
        self.n_used = live.iter().filter(|number| **number < current).count() as u64;
    }

    /// Whether everything written is on disk.
    pub(crate) fn is_flushed(&self) -> bool {
        self.flushed == self.end
    }

    /// Bytes of log that are ready to be written.
    pub(crate) fn ahead(&self) -> u64 {
        self.ready - self.at
    }

    /// Bytes of log in use.
    pub(crate) fn used(&self) -> u64 {
        self.n_used * self.size + self.at % self.size
    }

    /// Bytes left in the segment of the next group.
    pub(crate) fn room_in_segment(&self) -> usize {
        (self.size - self.at % self.size) as usize
    }

    /// The next group starts a new segment.
    pub(crate) fn skip_segment(&mut self) {
        self.go_to((self.at / self.size + 1) * self.size);
    }

    fn go_to(&mut self, at: u64) {
        self.n_used += at / self.size - self.at / self.size;
        self.at = at;
        self.ready = self.ready.max(at);
    }

    /// Writes a group at the log's end.
    pub(crate) fn write(
        &mut self,
        core: &Core,
        header: &GroupHeader,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        self.wipe(core)?;
        let file = self.file(core).map_err(|error| refused(core, "open a segment", &error))?;
        let offset = header.position % self.size;
        let mut written = 0;
        if let Err(error) = write_counted(&*file, bytes, offset, &mut written) {
            let fault = refused(core, "write to the log", &error);
            self.left = Some((file, offset, bytes.len() as u64));
            let untouched = written == 0 && error.kind() == io::ErrorKind::ReadOnlyFilesystem;
            return Err(match self.wipe(core) {
                Ok(()) => fault,
                Err(fault) if untouched => fault,
                Err(Fault { text, .. }) => {
                    let text = format!("a group may be on disk in part: {text}");
                    Fault::new(Code::NotDurable, text)
                }
            });
        }
        if !self.unflushed.iter().any(|known| Arc::ptr_eq(known, &file)) {
            self.unflushed.push(file);
        }
        self.last =
            Some(LastGroup { position: header.position, number: header.number, run: header.run });
        self.last_is_empty = header.frames == 0;
        self.claimed = header.flushed;
        self.end = header.end();
        if header.frames > 0 {
            self.carried += self.end - header.position;
        }
        self.go_to(self.end);
        Ok(())
    }

    /// Makes sure that nothing of a group that could not be written is found later. A read-only
    /// disk may hold a part of it: then this is done before the next group is written.
    fn wipe(&mut self, core: &Core) -> Result<(), Fault> {
        let Some((file, at, len)) = self.left.take() else { return Ok(()) };
        let wiped = match write_zeros(&*file, at, len) {
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                self.left = Some((file, at, len));
                return Err(refused(core, "write to the log", &error));
            }
            wiped => wiped.and_then(|()| file.sync()),
        };
        wiped.map_err(|error| {
            let text = format!("a group was written in part and cannot be wiped: {error}");
            let fault = Fault::new(Code::NotDurable, text);
            core.set_fault(fault.clone());
            fault
        })
    }

    fn file(&mut self, core: &Core) -> io::Result<Arc<dyn DiskFile>> {
        let number = self.at / self.size;
        if let Some((known, file)) = &self.file
            && *known == number
        {
            return Ok(file.clone());
        }
        let file = core.segments.file(number)?;
        self.file = Some((number, file.clone()));
        Ok(file)
    }

    /// Flushes every segment written since the last flush.
    pub(crate) fn flush(&mut self, core: &Core) -> Result<(), Fault> {
        for file in std::mem::take(&mut self.unflushed) {
            if let Err(error) = file.sync() {
                let text = format!("a flush failed, it is unknown what is on disk: {error}");
                let fault = Fault::new(Code::NotDurable, text);
                core.set_fault(fault.clone());
                return Err(fault);
            }
        }
        self.flushed = self.end;
        self.last_flushed = self.last;
        self.proved = self.proved.max(self.claimed);
        Ok(())
    }
}

/// The fault for a call that did nothing; on a read-only disk permits are refused from now on.
fn refused(core: &Core, what: &str, error: &io::Error) -> Fault {
    let fault = unusable(what, error);
    if fault.code == Code::StoreReadOnly {
        core.room.set_short(Some(fault.clone()));
    }
    fault
}
