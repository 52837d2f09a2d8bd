//! What a handler is given: the keys of its request, the latched data, its session, the server, and one place to
//! report what it changed.
//!
//! Never hands out a latch, a socket or a file. Start reading at [`Ctx`].

use std::time::Duration;

use base::{DbIndex, Millis};
use collections::{
    AllocContext, Collection, Entry, ExpiryChange, Kind, LastGuess, NewValue, Object, ValueRef,
};
use config::{ClientClass, Config};
pub use keyspace::EventClass;
use keyspace::{Key, KeyHasher, View};
use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use crate::command::Command;
use crate::error::CommandError;
use crate::host::Host;
use crate::reply::{Replied, Reply};
use crate::reply_buffers::{COPIED_SIZE_MAX, ReplyChunks, SharedReplyBuffers};
use crate::session::{BlockReason, Blocked, Queue, Session, SessionFlags};

/// A key of the request, as the planner found it.
#[derive(Clone, Debug)]
pub struct PlannedKey {
    /// Its hash.
    pub hash: u64,
    /// Which argument it is.
    pub arg: u32,
    /// Where it was seen when its memory was asked for.
    pub guess: LastGuess,
}

impl PlannedKey {
    /// The argument of this index, whose hash is known.
    #[must_use]
    #[inline]
    pub const fn new(hash: u64, arg: u32) -> Self {
        Self { hash, arg, guess: LastGuess::none() }
    }

    /// The key, of these arguments.
    #[must_use]
    #[inline(always)]
    pub fn key<'a>(&self, args: Args<'a>, db: DbIndex) -> Key<'a> {
        Key { guess: self.guess.get(), ..Key::with_hash(args.at(self.arg as usize), self.hash, db) }
    }
}

/// The surroundings of one command.
pub struct Ctx<'a> {
    /// The latched data. Everything read or changed goes through it.
    pub data: &'a mut View<'static>,
    /// The connection that asks.
    pub session: &'a mut Session,
    /// Configuration as of the beginning of the batch.
    pub config: &'a Config,
    /// The server around.
    pub host: &'a dyn Host,
    /// The command that runs (the subcommand where there is one).
    pub command: &'static Command,
    /// The keys of the request, in the order of the table's key specs.
    pub planned: &'a [PlannedKey],
    /// The arguments the keys are in.
    pub args: Args<'a>,
    /// What it changed.
    pub effects: &'a mut Effects,
    /// Hashes keys that are no arguments.
    pub hasher: &'a KeyHasher,
}

/// What a command changed, reported in one place. Feeds log, notifications, tracking, WATCH and blocked clients.
#[derive(Default)]
pub struct Effects {
    /// Number of changes, as Redis counts `dirty`.
    pub dirty: u64,
    /// Whether an edit has emptied a collection, and so removed its key. May be left from an earlier command: then it
    /// costs a look.
    pub has_emptied: bool,
    /// Whether the command has begun a pause, which must hold for all threads before it is answered.
    pub has_paused: bool,
    /// Long strings of the reply that are not copied into it.
    pub lending: SharedReplyBuffers,
    /// The empty queue of a transaction that is over, for the next one.
    pub spare_queue: Option<Box<Queue>>,
}

impl<'a> Ctx<'a> {
    /// Unix time of this command: the same for everything it does.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.data.now
    }

    /// The database of the session.
    #[must_use]
    pub fn db(&self) -> DbIndex {
        self.session.db
    }

    /// The database with this number.
    pub fn db_index(&self, number: i64) -> Result<DbIndex, CommandError> {
        let is_there = |index: &u16| usize::from(*index) < self.data.keyspace().db_count();
        u16::try_from(number).ok().filter(is_there).map(DbIndex).ok_or(CommandError::DB_OUT_OF_RANGE)
    }

    /// The database that an argument names.
    pub fn parse_db_index(&self, text: &[u8]) -> Result<DbIndex, CommandError> {
        let number = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
        if i32::try_from(number).is_err() {
            return Err(CommandError::NOT_AN_I32);
        }
        self.db_index(number)
    }

    /// The request's `index`-th key. Panics if the command's key specs do not give so many.
    #[must_use]
    #[inline(always)]
    pub fn key(&self, index: usize) -> Key<'a> {
        self.planned[index].key(self.args, self.session.db)
    }

    /// The request's keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key<'a>> + use<'a> {
        let (args, db) = (self.args, self.session.db);
        self.planned.iter().map(move |planned| planned.key(args, db))
    }

    /// The text of a string value for reading; `None`: no such key.
    #[inline(always)]
    pub fn find_string(&self, key: Key<'_>) -> Result<Option<ValueRef<'_>>, CommandError> {
        match self.data.find(key).map(Entry::value) {
            Some(ValueRef::Object(_)) => Err(CommandError::WRONG_TYPE),
            value => Ok(value),
        }
    }

    /// The text of a string value for changing it, which is deleted first if its time is over; `None`: no such key.
    #[inline]
    pub fn find_string_for_write(&mut self, key: Key<'_>) -> Result<Option<ValueRef<'_>>, CommandError> {
        match self.data.find_for_write(key) {
            None => Ok(None),
            Some(entry) if entry.kind() == Kind::String => Ok(Some(entry.value())),
            Some(_) => Err(CommandError::WRONG_TYPE),
        }
    }

    /// Answers a string value as a bulk string, or null.
    #[inline(always)]
    pub fn reply_string(&self, key: Key<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
        let mut out = reply.parts();
        self.write_string(key, &mut out)?;
        Ok(out.done())
    }

    /// The same as a part of a reply.
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

    /// A long string as a part of a reply: lent, if it is long enough and that is accepted.
    #[inline(never)]
    fn write_long(&self, entry: Entry<'_>, bytes: &[u8], out: &mut ReplyBuffer<'_>) {
        let lending = &self.effects.lending;
        let size_min = self.config.min_string_size_avoid_copy_reply_threaded as usize;
        let is_lent = size_min > 0 && bytes.len() >= size_min && lending.is_accepted();
        match Some(entry).filter(|_| is_lent).and_then(Entry::shared_text) {
            Some(text) => {
                let at = out.bulk_elsewhere(text.len());
                lending.lend(at, text);
            }
            None => out.bulk(bytes),
        }
    }

    /// What puts portions of a long reply aside, whose header has just been written.
    #[must_use]
    pub fn portions(&self, out: &ReplyBuffer<'_>) -> ReplyChunks<'_> {
        self.effects.lending.portions(out)
    }

    /// The collection of a key for reading; `None`: no such key. Counts a hit or a miss.
    #[inline]
    pub fn find<T: Collection>(&self, key: Key<'_>) -> Result<Option<&T>, CommandError> {
        of_type(self.data.find(key))
    }

    /// The collection of a key for looking at it before it is changed; `None`: no such key, which is deleted first if its
    /// time is over. Counts neither hit nor miss.
    #[inline]
    pub fn find_for_write<T: Collection>(&mut self, key: Key<'_>) -> Result<Option<&T>, CommandError> {
        of_type(self.data.find_for_write(key))
    }

    /// The collection of a key that was found before: neither counted nor checked. `None`: no such key, or another type.
    #[inline]
    #[must_use]
    pub fn peek<T: Collection>(&self, key: Key<'_>) -> Option<&T> {
        match self.data.peek(key)?.value() {
            ValueRef::Object(object) => T::of(object),
            _ => None,
        }
    }

    /// What the collection of a key is handed, for operations that only read.
    #[must_use]
    #[inline]
    pub fn home(&self, key: Key<'_>) -> AllocContext<'static> {
        self.data.home(key)
    }

    /// Changes a collection in place; `None`: no such key. If it is empty afterwards the key is removed: report the change,
    /// then call [`Self::deleted_if_gone`].
    #[inline]
    pub fn edit<T: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut T, AllocContext<'_>) -> R,
    ) -> Result<Option<R>, CommandError> {
        let edited = self.data.edit_collection(key, change).map_err(|_| CommandError::WRONG_TYPE)?;
        let Some(edited) = edited else { return Ok(None) };
        self.effects.has_emptied |= edited.is_gone;
        Ok(Some(edited.result))
    }

    /// The same where a missing key is an empty collection, which is added unless it stays empty.
    #[inline]
    pub fn edit_or_new<T: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut T, AllocContext<'_>) -> R,
    ) -> Result<R, CommandError> {
        let edited = self.data.edit_collection_or_new(key, change).map_err(|_| CommandError::WRONG_TYPE)?;
        self.effects.has_emptied |= edited.is_gone;
        Ok(edited.result)
    }

    /// Announces `del` for a key that an edit of this command has emptied and so removed. Goes after
    /// [`Self::changed`], which has counted the change.
    #[inline]
    pub fn deleted_if_gone(&mut self, key: Key<'_>) {
        if self.effects.has_emptied && self.data.peek(key).is_none() {
            self.announce(EventClass::Generic, "del", key);
        }
    }

    /// Puts a collection in as the value of a key, in place of whatever is there, and clears the expiry. It must not be
    /// empty; the caller reports the change.
    pub fn put_object(&mut self, key: Key<'_>, object: Object) {
        self.data.set(key, NewValue::Object(Box::new(object)), ExpiryChange::Clear);
    }

    /// Deletes those of the request's keys from the `first`-th on whose time is over, in a command that reads them to write
    /// another one: they expire before what becomes of it.
    pub fn expire_sources(&mut self, first: usize) {
        for index in first..self.planned.len() {
            self.data.expire_if_due(self.key(index));
        }
    }

    /// Deletes a key, the destination of a result that is empty. Whether it was there, its time over or not; the caller
    /// reports the change. Large values are freed elsewhere.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        let Some(removed) = self.data.remove(key) else { return false };
        self.data.discard(removed);
        true
    }

    /// Refuses a string that would become longer than `proto-max-bulk-len`: `len` bytes and `more`.
    pub fn check_string_len(&self, len: usize, more: usize) -> Result<(), CommandError> {
        let allowed = len.checked_add(more).is_some_and(|sum| sum as u64 <= self.config.proto_max_bulk_len);
        if allowed { Ok(()) } else { Err(CommandError::STRING_TOO_LONG) }
    }

    /// Reports a change of a key: `event` is the keyspace event's name. Call it once per change, after it is made.
    #[inline(always)]
    pub fn changed(&mut self, class: EventClass, event: &'static str, key: Key<'_>) {
        self.effects.dirty += 1;
        self.also_changed(key);
        self.announce(class, event, key);
    }

    /// Reports one more key of a change that [`Self::changed`] has counted.
    #[inline(always)]
    pub fn also_changed(&mut self, key: Key<'_>) {
        self.data.note_change(key);
    }

    /// Bytes after which a reply of elements drawn again and again ends: a connection with a limit is closed there anyway,
    /// and a count of thousands of millions is no reason to run out of memory.
    #[must_use]
    pub fn repetition_size_max(&self) -> u64 {
        const UNLIMITED_SIZE_MAX: u64 = 4 << 30;
        match self.config.client_output_buffer_limit.of(ClientClass::Normal).hard_size {
            0 => UNLIMITED_SIZE_MAX,
            limit => limit,
        }
    }

    /// Keeps the memory of a transaction that is over.
    pub fn reuse_queue(&mut self, mut queue: Box<Queue>) {
        queue.clear();
        self.effects.spare_queue = Some(queue);
    }

    /// Forgets what the session watches.
    pub fn unwatch(&mut self) {
        if let Some(watching) = self.session.watching.take() {
            self.data.unwatch(*watching);
        }
    }

    /// Reports one more keyspace event of a change that [`Self::changed`] has counted.
    #[inline(always)]
    pub fn announce(&mut self, class: EventClass, event: &'static str, key: Key<'_>) {
        self.data.announce(class, event, key);
    }

    /// Whether a key that is given this expiry is to be deleted instead. While data is imported, deleting is for whoever
    /// it comes from.
    #[must_use]
    pub fn is_over(&self, expiry: i64) -> bool {
        expiry <= self.now().0 && !self.config.import_mode
    }

    /// Deletes a key that has been given an expiry in the past, and reports it as expired. Whether it was there.
    pub fn delete_as_expired(&mut self, key: Key<'_>) -> bool {
        if self.data.expire_if_due(key) || self.data.remove(key).is_none() {
            return false;
        }
        self.data.counters.expired_keys.add(1);
        self.changed(EventClass::Expired, "expired", key);
        true
    }

    /// Whether the command may wait: not in a transaction, where it answers as if its time were over.
    #[must_use]
    pub fn may_block(&self) -> bool {
        !self.session.flags.contains(SessionFlags::IN_EXEC)
    }

    /// The connection waits; the handler returns [`Reply::nothing`](crate::reply::Reply::nothing).
    ///
    /// With [`BlockReason::Keys`] the whole request is run again, by whoever changes one of the keys and before anybody
    /// else sees that change, until it does not block: so a handler that finds something on its keys must not look at
    /// how it came to be run. Meanwhile keys that the writer has not latched look as if they did not exist. A key that
    /// is only written (the destination of `BLMOVE`) is not named in [`KeyWait::keys`](crate::session::KeyWait), and is
    /// latched.
    pub fn block(&mut self, timeout: Option<Duration>, reason: BlockReason) {
        self.session.blocked = Some(Blocked { timeout, reason });
    }
}

/// The collection of this type in an entry.
#[inline]
fn of_type<T: Collection>(entry: Option<Entry<'_>>) -> Result<Option<&T>, CommandError> {
    match entry.map(Entry::value) {
        None => Ok(None),
        Some(ValueRef::Object(object)) => T::of(object).map(Some).ok_or(CommandError::WRONG_TYPE),
        Some(_) => Err(CommandError::WRONG_TYPE),
    }
}
