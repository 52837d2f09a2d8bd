//! The write log as commands use it: effects are appended before the latches are released, and a reply depends
//! on the changes that its command has made or read.

use std::cell::Cell;

use crate::faults;
use base::limits::SLOT_COUNT;
use base::{DbIndex, Lsn, Slot};
use sync::simulation::planted;
use sync::write_log::{Audience, LogWriter, Record};

use super::Latched;
use super::held::Held;
use crate::store::effects::{EffectOrigin, write_select};

/// A thread's access to the write log.
#[derive(Default)]
pub(crate) struct LogAccess {
    /// `None`: the effects of this thread are dropped.
    pub(crate) writer: Option<LogWriter>,
    /// The end of the newest record on which the replies since the last [`Latched::take_reply_lsn`] depend: a
    /// record about data that the thread has changed or, if `notes_reads`, read.
    reply_lsn: Cell<Lsn>,
    /// The end of the newest record of a change since the last [`Latched::take_write_lsn`].
    write_lsn: Cell<Lsn>,
    /// Whether data that a command has only read counts, too.
    pub(crate) notes_reads: bool,
}

impl LogAccess {
    #[inline(always)]
    fn raise(&self, end: Lsn) {
        self.reply_lsn.set(self.reply_lsn.get().max(end));
    }

    /// Passes the dependencies of the replies to the other access of the same thread, which notes reads as this one does.
    pub(crate) fn pass_on(&self, other: &mut Self) {
        other.notes_reads = self.notes_reads;
        self.raise(other.reply_lsn.take());
        self.raise_written(other.write_lsn.take());
    }

    /// Notes the end of a record that this thread has appended.
    #[inline(always)]
    fn raise_written(&self, end: Lsn) {
        self.write_lsn.set(self.write_lsn.get().max(end));
        self.raise(end);
    }
}

impl Latched<'_> {
    /// Appends the recorded effects to the log, while the latches are still held. Without a latch for writing, they are
    /// messages to replicas.
    pub fn log_effects(&mut self) {
        if self.effects.is_empty() || (planted(faults::LATE_EFFECTS) && self.effects.size() < 100) {
            return;
        }
        if !self.slots.is_written() {
            let _ = self.effects.drain(self.log.writer.as_mut(), LogWriter::append_unlatched);
            return;
        }
        let Some(end) = self.effects.drain(self.log.writer.as_mut(), LogWriter::append) else { return };
        self.log.raise_written(end);
        match &self.slots.held {
            Held::Write(slot, _) => self.keyspace.changes.note(*slot, end),
            Held::Several(guards) if guards.len() == SLOT_COUNT => self.keyspace.changes.note_all(end),
            Held::Several(guards) => {
                guards.iter().for_each(|(slot, _)| self.keyspace.changes.note(*slot, end))
            }
            Held::Nothing | Held::Read(..) => unreachable!("a slot is held for writing"),
        }
    }

    /// Appends bytes for replicas that belong to no latch: a message, or a request for acknowledgements. `false`: there are
    /// no replicas, or the server is one, whose replicas get the bytes of its primary only.
    pub fn append_for_replicas(&mut self, bytes: &[u8]) -> bool {
        self.keyspace.log.has_replicas()
            && self.effects.origin() == EffectOrigin::Own
            && self.append_unlatched(None, Audience::Replicas, &[bytes])
    }

    /// Appends bytes that belong to no latch: those of requests that change no data. `databases`: the one selected before and
    /// after them, if they select one. `false`: the log is off.
    pub fn append_unlatched(
        &mut self,
        databases: Option<(DbIndex, DbIndex)>,
        audience: Audience,
        parts: &[&[u8]],
    ) -> bool {
        let Some(writer) = &mut self.log.writer else { return false };
        let mut select = Vec::new();
        let mut record = Record { select_audience: Audience::File, ..Record::for_audience(parts, audience) };
        if let Some((from, to)) = databases {
            write_select(&mut select, from);
            (record.database, record.leaves, record.select) = (Some(from), Some(to), &select);
        }
        writer.append_unlatched(&record).is_some()
    }

    /// Appends a request in the format of the log at once. Its slot is held for writing.
    #[inline]
    pub(super) fn append_encoded(&mut self, slot: Slot, db: DbIndex, request: &[u8]) {
        let end = self.effects.append(db, request, self.log.writer.as_mut());
        self.note_logged(slot, end);
    }

    /// As [`Self::log_effects`], for a slot whose latch is held for writing by the caller.
    pub(crate) fn log_effects_in(&mut self, slot: Slot) {
        let end = self.effects.drain(self.log.writer.as_mut(), LogWriter::append);
        self.note_logged(slot, end);
    }

    /// Notes the end of the record of a change of a slot, if it was appended.
    #[inline]
    fn note_logged(&mut self, slot: Slot, end: Option<Lsn>) {
        if let Some(end) = end {
            self.log.raise_written(end);
            self.keyspace.changes.note(slot, end);
        }
    }

    /// Whether the changes that a reply shows must be recorded when the latches are released.
    #[inline(always)]
    pub(crate) fn notes_reads(&self) -> bool {
        self.log.notes_reads
    }

    /// Records the changes that the command may have read, while the latches are still held.
    #[cold]
    pub(crate) fn note_read_changes(&mut self) {
        let changes = &self.keyspace.changes;
        let reply_lsn = match &self.slots.held {
            Held::Nothing => return,
            Held::Read(slot, _) | Held::Write(slot, _) => changes.of(*slot),
            Held::Several(guards) if guards.len() == SLOT_COUNT => changes.of_any(),
            Held::Several(guards) => {
                guards.iter().map(|(slot, _)| changes.of(*slot)).max().unwrap_or_default()
            }
        };
        self.log.raise(reply_lsn);
    }

    /// Records the changes of a slot that a walk reads, while its latch is held, or those of the libraries of functions with
    /// the slot of the script token.
    #[inline]
    pub fn note_slot_read(&self, slot: Slot) {
        if self.log.notes_reads {
            self.log.raise(self.keyspace.changes.of(slot));
        }
    }

    /// Records every change so far, for a command that shows data without latches: the number of keys, or the functions.
    /// A command that runs meanwhile on another worker may have counted its keys before it appends its effects.
    pub fn note_all_changes(&self) {
        if self.log.notes_reads {
            self.log.raise(self.keyspace.log.end());
        }
    }

    /// As [`Self::reply_lsn`], including the changes that a reply shows which is sent before the latches are released.
    pub fn shown_lsn(&mut self) -> Lsn {
        if self.notes_reads() {
            self.note_read_changes();
        }
        self.reply_lsn()
    }

    /// The end of the newest recorded change on which replies depend.
    #[must_use]
    pub fn reply_lsn(&self) -> Lsn {
        self.log.reply_lsn.get()
    }

    /// The end of the newest record on which the replies since the last call depend.
    #[inline]
    pub fn take_reply_lsn(&mut self) -> Lsn {
        self.log.reply_lsn.take()
    }

    /// The end of the newest record of a change since the last call.
    #[inline]
    pub fn take_write_lsn(&mut self) -> Lsn {
        self.log.write_lsn.take()
    }
}
