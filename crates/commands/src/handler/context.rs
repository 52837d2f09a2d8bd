//! The context of a handler: the keys of its request, the latched data, the session, the server, and one
//! place to report changes.
//!
//! Never exposes a latch, a socket or a file. Start reading at [`Ctx`].

use std::time::Duration;

use base::{DbIndex, Millis, Slot};
use collections::{
    AllocContext, Collection, Entry, ExpiryChange, Kind, LastGuess, NewValue, Object, ValueRef,
};
use config::{ClientClass, Config};
pub use keyspace::EffectArg;
pub use keyspace::EventClass;
use keyspace::{Key, KeyHasher, Latched, slot_of_hash};
use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::error::CommandError;
use crate::host::Host;
use crate::reply::{Replied, Reply};
use crate::reply_buffers::{COPIED_SIZE_MAX, ReplyChunks, SharedReplyBuffers};
use crate::resolved_command::CommandId;
use crate::session::{BlockReason, Blocked, Queue, Session};

/// A key of the request, as found by the planner.
#[derive(Clone, Debug)]
pub struct PlannedKey {
    /// Hash of the key.
    pub hash: u64,
    /// Argument index.
    pub arg: u32,
    /// Where the prefetch found its entry.
    pub guess: LastGuess,
}

impl PlannedKey {
    /// Creates the key of argument `arg` from its known hash.
    #[must_use]
    #[inline]
    pub const fn new(hash: u64, arg: u32) -> Self {
        Self { hash, arg, guess: LastGuess::none() }
    }

    /// The key's slot.
    #[must_use]
    #[inline(always)]
    pub const fn slot(&self) -> Slot {
        slot_of_hash(self.hash)
    }

    /// Returns the key, whose bytes are in `args`.
    #[must_use]
    #[inline(always)]
    pub fn key<'a>(&self, args: Args<'a>, db: DbIndex) -> Key<'a> {
        Key { guess: self.guess.get(), ..Key::with_hash(args.at(self.arg as usize), self.hash, db) }
    }
}

/// The context of one command.
pub struct Ctx<'a> {
    /// The latched data. All reads and changes of the keyspace use it.
    pub data: &'a mut Latched<'static>,
    /// The connection that sent the request.
    pub session: &'a mut Session,
    /// Configuration as of the beginning of the batch.
    pub config: &'a Config,
    /// The server.
    pub host: &'a dyn Host,
    /// The command that runs (the subcommand if there is one).
    pub command: &'static Command,
    /// The number of the command.
    pub id: CommandId,
    /// The keys of the request, in the order of the table's key specs.
    pub planned: &'a [PlannedKey],
    /// The arguments that contain the keys.
    pub args: Args<'a>,
    /// What the handler reports beside its reply.
    pub report: &'a mut CommandReport,
    /// Hashes keys that are not arguments.
    pub hasher: &'a KeyHasher,
}

/// What the handler of a command reports beside its reply. The requests that repeat its changes are in the data's
/// [`EffectSink`](keyspace::EffectSink).
#[derive(Default)]
pub struct CommandReport {
    /// Number of changes, as Redis counts `dirty`.
    pub dirty: u64,
    /// Whether the handler has recorded the effects of the command for the write log.
    pub is_logged: bool,
    /// Whether an edit emptied a collection and so removed its key. May be stale from an earlier command; a
    /// stale value costs one extra lookup.
    pub has_emptied: bool,
    /// Whether the command must apply to all workers before its reply is sent: a pause, a change of permissions, broadcasts of
    /// changes, or the end of another client's wait.
    pub needs_barrier: bool,
    /// Whether replicas are to be asked for the offsets that they have applied, at the end of the turn.
    pub needs_acknowledgements: bool,
    /// Long strings of the reply, shared instead of copied.
    pub shared_replies: SharedReplyBuffers,
    /// The empty queue of a completed transaction, kept for the next one.
    pub spare_queue: Option<Box<Queue>>,
}

impl<'a> Ctx<'a> {
    /// Returns the Unix time of this command, which is constant while it runs.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.data.mode.now
    }

    /// Returns the database of the session.
    #[must_use]
    pub fn db(&self) -> DbIndex {
        self.session.db
    }

    /// Validates a database number.
    pub fn db_index(&self, number: i64) -> Result<DbIndex, CommandError> {
        let is_there = |index: &u16| usize::from(*index) < self.data.db_count();
        u16::try_from(number).ok().filter(is_there).map(DbIndex).ok_or(CommandError::DB_OUT_OF_RANGE)
    }

    /// Parses a database number.
    pub fn parse_db_index(&self, text: &[u8]) -> Result<DbIndex, CommandError> {
        let number = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
        if i32::try_from(number).is_err() {
            return Err(CommandError::NOT_AN_I32);
        }
        self.db_index(number)
    }

    /// Returns the request's `index`-th key.
    ///
    /// # Panics
    /// If the command's key specs yield fewer keys.
    #[must_use]
    #[inline(always)]
    pub fn key(&self, index: usize) -> Key<'a> {
        self.planned[index].key(self.args, self.session.db)
    }

    /// Returns the request's keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key<'a>> + use<'a> {
        let (args, db) = (self.args, self.session.db);
        self.planned.iter().map(move |planned| planned.key(args, db))
    }

    /// Finds a string value for reading; `None`: no such key.
    #[inline(always)]
    pub fn find_string(&self, key: Key<'_>) -> Result<Option<ValueRef<'_>>, CommandError> {
        match self.data.find(key).map(Entry::value) {
            Some(ValueRef::Object(_)) => Err(CommandError::WRONG_TYPE),
            value => Ok(value),
        }
    }

    /// Finds a string value for changing it, and deletes the key first if it is expired; `None`: no such key.
    #[inline]
    pub fn find_string_for_write(&mut self, key: Key<'_>) -> Result<Option<ValueRef<'_>>, CommandError> {
        match self.data.find_for_write(key) {
            None => Ok(None),
            Some(entry) if entry.kind() == Kind::String => Ok(Some(entry.value())),
            Some(_) => Err(CommandError::WRONG_TYPE),
        }
    }

    /// Replies with a string value as a bulk string, or null.
    #[inline(always)]
    pub fn reply_string(&self, key: Key<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
        let mut out = reply.parts();
        self.write_string(key, &mut out)?;
        Ok(out.done())
    }

    /// Like [`Self::reply_string`], as a part of a reply.
    #[inline(always)]
    pub fn write_string(&self, key: Key<'_>, out: &mut ReplyBuffer<'_>) -> Result<(), CommandError> {
        let Some(entry) = self.data.find(key) else {
            out.null();
            return Ok(());
        };
        match entry.value() {
            ValueRef::Int(value) => out.bulk_int(value),
            ValueRef::Bytes(bytes) if bytes.len() > COPIED_SIZE_MAX => self.write_long(entry, bytes, out),
            ValueRef::Bytes(bytes) => out.bulk(bytes),
            ValueRef::Object(_) => return Err(CommandError::WRONG_TYPE),
        }
        Ok(())
    }

    /// Writes a long string as a part of a reply. It is shared if it is long enough and sharing is accepted, otherwise
    /// copied.
    #[inline(never)]
    fn write_long(&self, entry: Entry<'_>, bytes: &[u8], out: &mut ReplyBuffer<'_>) {
        let shared_replies = &self.report.shared_replies;
        let size_min = self.config.min_string_size_avoid_copy_reply_threaded as usize;
        let is_shared = size_min > 0 && bytes.len() >= size_min && shared_replies.is_accepted();
        match Some(entry).filter(|_| is_shared).and_then(Entry::shared_text) {
            Some(text) => {
                let at = out.bulk_elsewhere(text.len());
                shared_replies.share(at, text);
            }
            None => out.bulk(bytes),
        }
    }

    /// Returns the chunk writer for a long reply whose header is already written.
    #[must_use]
    pub fn chunks(&self, out: &ReplyBuffer<'_>) -> ReplyChunks<'_> {
        self.report.shared_replies.chunks(out)
    }

    /// Finds a collection for reading; `None`: no such key. Counts a hit or a miss.
    #[inline]
    pub fn find<T: Collection>(&self, key: Key<'_>) -> Result<Option<&T>, CommandError> {
        of_type(self.data.find(key))
    }

    /// Finds a collection for reading before it is changed, and deletes the key first if it is expired;
    /// `None`: no such key. Counts neither hit nor miss.
    #[inline]
    pub fn find_for_write<T: Collection>(&mut self, key: Key<'_>) -> Result<Option<&T>, CommandError> {
        of_type(self.data.find_for_write(key))
    }

    /// Returns a collection that was found before, without counting or expiry checks. `None`: no such key, or
    /// another type.
    #[inline]
    #[must_use]
    pub fn peek<T: Collection>(&self, key: Key<'_>) -> Option<&T> {
        match self.data.peek(key)?.value() {
            ValueRef::Object(object) => T::of(object),
            _ => None,
        }
    }

    /// Returns the allocation context of a key's collection, for operations that only read.
    #[must_use]
    #[inline]
    pub fn alloc_context(&self, key: Key<'_>) -> AllocContext<'static> {
        self.data.alloc_context(key)
    }

    /// Changes a collection in place; `None`: no such key. The key is removed if the collection is empty afterwards,
    /// so the caller reports the change and then calls [`Self::report_if_emptied`].
    #[inline]
    pub fn edit<T: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut T, AllocContext<'_>) -> R,
    ) -> Result<Option<R>, CommandError> {
        let edited = self.data.edit_collection(key, change).map_err(|_| CommandError::WRONG_TYPE)?;
        let Some(edited) = edited else { return Ok(None) };
        self.report.has_emptied |= edited.is_gone;
        Ok(Some(edited.result))
    }

    /// Like [`Self::edit`], but a missing key is an empty collection, which is added unless it stays empty.
    #[inline]
    pub fn edit_or_new<T: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut T, AllocContext<'_>) -> R,
    ) -> Result<R, CommandError> {
        let edited = self.data.edit_collection_or_new(key, change).map_err(|_| CommandError::WRONG_TYPE)?;
        self.report.has_emptied |= edited.is_gone;
        Ok(edited.result)
    }

    /// Publishes the keyspace event `del` if an edit of this command emptied the collection and so removed the key.
    /// Call it after [`Self::changed`], which counts the change.
    #[inline]
    pub fn report_if_emptied(&mut self, key: Key<'_>) {
        if self.report.has_emptied && self.data.peek(key).is_none() {
            self.announce(EventClass::Generic, "del", key);
        }
    }

    /// Sets a collection as the value of a key, replaces any value, and clears the expiry. The collection
    /// must not be empty; the caller reports the change.
    pub fn put_object(&mut self, key: Key<'_>, object: Object) {
        self.data.set(key, NewValue::Object(Box::new(object)), ExpiryChange::Clear);
    }

    /// Deletes expired keys of the request, from the `first`-th on. For commands that read these keys and
    /// write another one: their expiry is reported before the write.
    pub fn expire_sources(&mut self, first: usize) {
        let mut keys = self.walk_from(first);
        while let Some(key) = keys.next(self.data) {
            self.data.expire_if_due(key);
        }
    }

    /// Deletes the destination key of an empty result. Returns whether it existed, expired or not; the caller
    /// reports the change. Large values are freed in the background.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        let Some(removed) = self.data.remove(key) else { return false };
        self.data.discard(removed);
        true
    }

    /// Rejects a string of `len` + `more` bytes if that exceeds `proto-max-bulk-len`.
    pub fn check_string_len(&self, len: usize, more: usize) -> Result<(), CommandError> {
        let allowed = len.checked_add(more).is_some_and(|sum| sum as u64 <= self.config.proto_max_bulk_len);
        if allowed { Ok(()) } else { Err(CommandError::STRING_TOO_LONG) }
    }

    /// Reports a change of a key: `event` is the name of the keyspace event. Call it once per change, after
    /// the change.
    #[inline(always)]
    pub fn changed(&mut self, class: EventClass, event: &'static str, key: Key<'_>) {
        self.report.dirty += 1;
        self.also_changed(key);
        self.announce(class, event, key);
    }

    /// Reports another key of a change that [`Self::changed`] has counted.
    #[inline(always)]
    pub fn also_changed(&mut self, key: Key<'_>) {
        self.data.note_change(key);
    }

    /// Returns the size in bytes at which a reply of randomly repeated elements ends, so that a count of billions does
    /// not exhaust the memory. A connection with an output limit would be closed at this size anyway.
    #[must_use]
    pub fn repetition_size_max(&self) -> u64 {
        const UNLIMITED_SIZE_MAX: u64 = 4 << 30;
        match self.config.client_output_buffer_limit.of(ClientClass::Normal).hard_size {
            0 => UNLIMITED_SIZE_MAX,
            limit => limit,
        }
    }

    /// Keeps the memory of a completed transaction's queue.
    pub fn reuse_queue(&mut self, mut queue: Box<Queue>) {
        queue.clear();
        self.report.spare_queue = Some(queue);
    }

    /// Unwatches all keys of the session.
    pub fn unwatch(&mut self) {
        if let Some(watching) = self.session.watching.take() {
            self.data.unwatch(*watching);
        }
    }

    /// Whether the write log is on. If it is off, a handler need not compute effects.
    #[must_use]
    pub fn records_effects(&self) -> bool {
        self.data.logs()
    }

    /// The name of a renamed command, or of the container of its subcommands, by which other servers know it.
    #[must_use]
    #[inline]
    pub fn own_name(&self) -> Option<&'static str> {
        let is_renamed = self.command.flags.contains(Flags::RENAMED);
        let full_name = is_renamed.then(|| self.session.login.user.catalogue().name(self.id))?;
        full_name.split('|').next()
    }

    /// Records a request that repeats a change of this command, which is logged instead of the command itself
    /// (see [`Flags::LOG_INSTEAD`](crate::command::Flags::LOG_INSTEAD)).
    #[inline]
    pub fn record_effect(&mut self, args: &[EffectArg<'_>]) {
        if self.records_effects() {
            self.data.record_effect(self.session.db, args.iter().copied());
            self.report.is_logged = true;
        }
    }

    /// [`Self::record_effect`] of the deletion of a key.
    pub fn record_deletion(&mut self, key: Key<'_>) {
        self.record_effect(&["DEL".into(), key.bytes.into()]);
    }

    /// Reports another keyspace event of a change that [`Self::changed`] has counted.
    #[inline(always)]
    pub fn announce(&mut self, class: EventClass, event: &'static str, key: Key<'_>) {
        self.data.announce(class, event, key);
    }

    /// Whether a key must be deleted instead of getting this expiry, because it is past. False in import mode, where
    /// only the source of the import deletes keys, on a replica, whose primary deletes them, and while a file is loaded: its
    /// deletions are in the file, or have to be in the stream of replicas.
    #[must_use]
    pub fn expires_now(&self, expiry: i64) -> bool {
        expiry <= self.now().0
            && !self.config.import_mode
            && !self.data.is_of_replica()
            && !self.data.mode.sees_expired
    }

    /// Deletes a key that got an expiry in the past, and reports it as expired. Returns whether it existed.
    pub fn delete_as_expired(&mut self, key: Key<'_>) -> bool {
        if self.data.expire_if_due(key) || self.data.remove(key).is_none() {
            return false;
        }
        self.data.counters.expired_keys.add(1);
        self.changed(EventClass::Expired, "expired", key);
        let name = if self.config.lazyfree_lazy_expire { "UNLINK" } else { "DEL" };
        self.record_effect(&[name.into(), key.bytes.into()]);
        true
    }

    /// Deletes the expired keys that a command of a transaction or script has read, as far as it may now.
    #[inline]
    pub fn delete_expired_at_once(&mut self) {
        if self.data.deferred.saw_expired.get() && !self.config.import_mode && !self.host.is_expiry_paused() {
            self.data.delete_held_expired();
        }
    }

    /// Figures of all data are shown: the reply waits for the disk, as one with data does. While writing fails, what shows
    /// the failure must not wait for its end.
    pub fn note_all_figures(&self) {
        if !self.host.append_only_fails() {
            self.data.note_all_changes();
        }
    }

    /// Whether the user may read keys that are not among the arguments of the request.
    #[must_use]
    pub fn may_read_all_keys(&self) -> bool {
        self.session.login.user.may_read_all_keys(self.id, self.args, self.db(), self.data.db_count())
    }

    /// Whether the command may block. In a transaction, a script or the stream of the primary it may not: it replies as after a
    /// timeout.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.session.may_block()
    }

    /// Blocks the connection; the handler returns [`Reply::nothing`](crate::reply::Reply::nothing).
    ///
    /// With [`BlockReason::Keys`], the session that changes one of the keys serves the request: it runs the whole
    /// request again before the change is visible to other sessions. The handler may then block again, and its
    /// result must not depend on whether it serves. During a serve, keys whose slots the writer has not latched appear
    /// not to exist. A key that is only written (the destination of `BLMOVE`) is not part of
    /// [`KeyWait::keys`](crate::session::KeyWait); it is latched for the serve.
    pub fn block(&mut self, timeout: Option<Duration>, reason: BlockReason) {
        self.session.blocked = Some(Blocked { timeout, reason });
    }
}

impl CommandReport {
    /// Records the effects of a request whose handler has run, and ends their unit in the write log. `dirty_before` is
    /// the number of changes before the run, `db` the session's database at that time, `own_name` that of a renamed command
    /// ([`Ctx::own_name`]). Called while the latches are held.
    #[inline]
    pub fn log_request(
        &mut self,
        data: &mut Latched<'_>,
        (command, own_name): (&Command, Option<&str>),
        args: Args<'_>,
        db: DbIndex,
        dirty_before: u64,
    ) {
        if data.logs() {
            self.log_changes(data, (command, own_name), args, db, dirty_before);
        }
    }

    #[inline(never)]
    fn log_changes(
        &mut self,
        data: &mut Latched<'_>,
        (command, own_name): (&Command, Option<&str>),
        args: Args<'_>,
        db: DbIndex,
        dirty_before: u64,
    ) {
        let is_logged = std::mem::take(&mut self.is_logged);
        let has_changed = self.dirty != dirty_before;
        if has_changed && !is_logged {
            debug_assert!(
                command.flags.contains(Flags::LOG_VERBATIM),
                "{} records its effects",
                command.name
            );
            match (own_name, args.as_multibulk()) {
                (Some(name), _) => {
                    let words = [name.as_bytes()].into_iter().chain(args.tail(1).iter());
                    data.record_effect(db, words.collect::<Vec<_>>().into_iter());
                }
                (None, Some(request)) => data.record_encoded(db, request),
                (None, None) => data.record_effect(db, args.iter()),
            }
        }
        data.effects.end_command();
    }
}

/// Returns the collection of type `T` in an entry; an error if the entry has another type.
#[inline]
fn of_type<T: Collection>(entry: Option<Entry<'_>>) -> Result<Option<&T>, CommandError> {
    match entry.map(Entry::value) {
        None => Ok(None),
        Some(ValueRef::Object(object)) => T::of(object).map(Some).ok_or(CommandError::WRONG_TYPE),
        Some(_) => Err(CommandError::WRONG_TYPE),
    }
}
