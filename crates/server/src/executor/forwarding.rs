//! The stream of the primary: its requests run like those of a client, and its bytes go into the own log as they are, under
//! the latches of the requests that they belong to. So the own replicas, and the append-only file, receive the same units in
//! the same order, and offsets agree.
//!
//! | bytes | are logged |
//! |---|---|
//! | of a request that changes data, and those before it that are not logged yet | for all readers, before its latches are released |
//! | of a transaction | with its `EXEC`; until then they are pending |
//! | of other requests (`PING`, `REPLCONF`, what is refused) | for replicas only, without latches |
//! | of requests that select a database | with the next ones, or at the end of the batch for all readers |
//!
//! Invariant: after a batch, all of its bytes are logged, or pending because their transaction is not complete. The applied
//! offset is that of the logged bytes.

use base::DbIndex;
use keyspace::{EffectOrigin, EffectSink};
use sync::atomic::Ordering;
use sync::simulation::{self, Gap};
use sync::write_log::Audience;

use super::{CurrentRequest, Executor};
use crate::connection::client::{Client, Forwarding};
use crate::shared::modes::GlobalFlags;

/// Asks replicas for the offsets that they have applied, which they also send each second.
const GET_ACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

impl Executor {
    /// Passes on what this thread has appended to the write log: to the feed of replicas, and to sleeping readers. Called
    /// without latches, before the thread waits for anything.
    #[inline]
    pub fn publish_log(&mut self) {
        if std::mem::take(&mut self.effects.needs_acknowledgements) && !self.shared.holds_stream_end() {
            self.latching.append_for_replicas(GET_ACK);
        }
        if self.latching.has_appended() {
            simulation::pass(Gap::ChangesAppended);
            self.shared.replication.feed.request_move();
        }
        self.latching.notify_log();
    }

    /// The modes of the server that apply to the requests of a client.
    #[inline]
    pub(super) fn modes_of(&self, client: &Client) -> u32 {
        let exempt = if client.forwarding.is_some() { GlobalFlags::EXEMPT_PRIMARY } else { 0 };
        self.flags.load() & !exempt
    }

    /// Logs the bytes of a request that has run under its latches, with those before it. Nothing if it holds none for
    /// writing: [`Self::follow_forwarded`] logs them.
    #[inline]
    pub(super) fn forward(&mut self, client: &mut Client, current: &CurrentRequest<'_>) {
        let Some(forwarding) = &mut client.forwarding else { return };
        if !self.latching.holds_any_for_writing() || client.session.unfinished.is_some() {
            return;
        }
        if self.flags.is_set(GlobalFlags::UNSAVED | GlobalFlags::APPEND_FAILED) {
            self.shared.note_unwritten();
        }
        self.shared.replication.role.select(client.session.db);
        forwarding.log(&mut self.latching.effects, client.session.db, current.raw);
        forwarding.mark += current.raw.len();
    }

    /// Logs the bytes up to `end` of a batch, which are those of requests without effects, unless they belong to a
    /// transaction or select a database.
    pub(super) fn follow_forwarded(&mut self, client: &mut Client, bytes: &[u8], end: usize) {
        let Some(forwarding) = &mut client.forwarding else { return };
        if forwarding.mark < end && !client.session.in_multi() && client.session.db == forwarding.db {
            let pending = std::mem::take(&mut forwarding.pending);
            self.latching.append_unlatched(
                None,
                Audience::Replicas,
                &[&pending, &bytes[forwarding.mark..end]],
            );
            forwarding.mark = end;
        }
    }

    /// Ends a batch, of which the bytes up to `end` were executed.
    pub(super) fn end_forwarded(&mut self, client: &mut Client, bytes: &[u8], end: usize) {
        let Some(forwarding) = &mut client.forwarding else { return };
        let mark = std::mem::take(&mut forwarding.mark).min(end);
        forwarding.pending.extend_from_slice(&bytes[mark..end]);
        if !forwarding.pending.is_empty() && !client.session.in_multi() {
            self.shared.replication.role.select(client.session.db);
            let databases = (std::mem::replace(&mut forwarding.db, client.session.db), client.session.db);
            let pending = std::mem::take(&mut forwarding.pending);
            self.latching.append_unlatched(Some(databases), Audience::All, &[&pending]);
        }
        let pending = forwarding.pending.len() as u64;
        forwarding.note_executed(end as u64, pending);
    }

    /// [`GlobalFlags::follow_promotion`], in this turn.
    #[inline(always)]
    pub fn follow_promotion(&mut self) {
        self.flags.follow_promotion(&mut self.latching.effects);
    }

    /// Begins to run requests of the primary, if they are its.
    pub(super) fn begin_forwarding(&mut self, client: &Client) {
        if client.forwarding.is_some() {
            self.latching.effects.set_origin(EffectOrigin::Primary);
        }
    }

    /// Ends the requests of the primary: their replies, from `mark` on, go nowhere.
    pub(super) fn end_forwarding(&mut self, client: &mut Client, mark: usize) {
        if client.forwarding.is_some() {
            client.replies.truncate(mark);
            self.latching.effects.set_origin(self.flags.origin_of_clients());
        }
    }
}

impl Forwarding {
    /// Logs pending bytes and those behind them, whose requests leave a database selected.
    #[inline]
    pub(super) fn log(&mut self, effects: &mut EffectSink, db: DbIndex, bytes: &[u8]) {
        let from = std::mem::replace(&mut self.db, db);
        if !self.pending.is_empty() {
            effects.forward((from, from), &std::mem::take(&mut self.pending));
        }
        effects.forward((from, db), bytes);
    }

    /// Notes that `size` more bytes were executed, and so many of all are pending.
    fn note_executed(&mut self, size: u64, pending: u64) {
        let read = self.applied.load(Ordering::Relaxed) + self.held + size;
        self.held = pending;
        self.applied.store(read - pending, Ordering::Release);
    }
}
