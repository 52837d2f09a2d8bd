//! Changing the latched data. A command that changes a key first deletes it if it is expired; setting a key
//! overwrites it.

use collections::{
    AllocContext, Collection, Entry, EntryMut, ExpiryChange, NewValue, NotAString, OwnedEntry, ValueRef,
    ValueSize,
};

use crate::latched::Latched;
use crate::store::effects::EffectOrigin;
use crate::store::events::EventClass;
use crate::store::key::Key;
use crate::store::tracked::KeyPlace;

/// The state of a key before it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasThere(pub bool);

/// The result of changing a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited<R> {
    /// The return value of the change.
    pub result: R,
    /// Whether the key did not exist before and does now.
    pub is_new: bool,
    /// Whether the collection is empty afterwards, so that the key does not exist (any more).
    pub is_gone: bool,
}

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOfThisType;

impl Latched<'_> {
    /// The entry of a key that is held for writing; deletes it first if it is expired. Counts neither hit
    /// nor miss, but records the access.
    #[inline]
    pub fn find_for_write(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        self.expire_if_due(key);
        let entry = self.lookup(key)?;
        self.record_access(entry);
        Some(entry)
    }

    /// Deletes a key that is held for writing if it is expired. Returns whether it did.
    #[inline]
    pub fn expire_if_due(&mut self, key: Key<'_>) -> bool {
        // A table without expiries needs no search: its count is in a line that is read anyway.
        let table = self.table(key).filter(|table| table.volatile_len() > 0);
        let entry = table.and_then(|table| table.find_near(key.guess, key.hash, key.bytes));
        let due = entry.is_some_and(|entry| self.is_expired(entry));
        if due {
            let removed = self.remove(key);
            self.counters.expired_keys.add(1);
            self.announce(EventClass::Expired, "expired", key);
            self.note_change(key);
            self.record_deletion(key, self.mode.lazy_expire);
            removed.into_iter().for_each(|removed| self.discard_expired(removed));
        }
        due
    }

    /// Whether a key that is held has an expiry.
    pub(crate) fn has_expiry(&self, key: Key<'_>) -> bool {
        let entry = self.table(key).and_then(|table| table.find_near(key.guess, key.hash, key.bytes));
        entry.is_some_and(|entry| entry.expiry().is_some())
    }

    /// Notes that a key may have a new expiry: on a replica, its primary does not know those that clients set.
    #[inline(always)]
    fn follow_expiry(&self, key: &Key<'_>) {
        if self.effects.origin() == EffectOrigin::Local && self.has_expiry(*key) {
            self.keyspace.local_expiries.add(key.db, key.bytes);
        }
    }

    /// Drops an expired entry, or leaves it as garbage for another thread.
    fn discard_expired(&mut self, removed: OwnedEntry) {
        if self.mode.lazy_expire {
            self.discard(removed);
        }
    }

    /// Sets value and expiry of a key, which is added if it does not exist. Returns whether it existed. With
    /// [`ExpiryChange::Keep`], the key must not be expired.
    pub fn set(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: ExpiryChange) -> WasThere {
        let (counters, aging) = (self.counters, self.mode.aging);
        let now = self.due();
        let db = key.db.0 as usize;
        let mut old = None;
        let mut has_expired = false;
        let was_there = self.change(key, |table, heap| {
            let upserted = table.upsert_near(key.guess, heap, key.hash, key.bytes, value, expiry);
            old = upserted.old;
            let entry = upserted.entry;
            entry.set_access(aging.initial());
            if upserted.existed {
                counters.size(db, upserted.old_size, entry.value_size());
                if upserted.old_expiry.is_some_and(|at| at <= now) {
                    counters.expired_keys.add(1);
                    has_expired = true;
                }
                counters.expiry(db, upserted.old_expiry, entry.expiry());
                counters.members(db, upserted.had_volatile_members, entry.has_volatile_members());
            } else {
                counters.population(db, 1, entry);
            }
            WasThere(upserted.existed && upserted.old_expiry.is_none_or(|at| at > now))
        });
        self.deferred.garbage.extend(old);
        self.follow_expiry(&key);
        if !was_there.0 {
            if has_expired {
                self.announce(EventClass::Expired, "expired", key);
            }
            self.announce(EventClass::New, "new", key);
        }
        was_there
    }

    /// Sets or clears the expiry of a key. Returns whether the key exists.
    pub fn set_expiry(&mut self, key: Key<'_>, expiry: Option<i64>) -> bool {
        self.edit_entry(&key, |entry| entry.set_expiry(expiry)).is_some()
    }

    /// Changes an entry in place, and records the access; `None` if the key does not exist or is expired,
    /// in which case it is deleted. The change must not remove it.
    #[inline]
    pub fn edit<R>(&mut self, key: Key<'_>, change: impl FnOnce(&mut EntryMut<'_>) -> R) -> Option<R> {
        let (counters, db) = (self.counters, usize::from(key.db.0));
        self.edit_entry(&key, |entry| {
            let before = entry.entry().value_size();
            let result = change(entry);
            counters.size(db, before, entry.entry().value_size());
            result
        })
    }

    /// [`Self::edit`] of a string that becomes the integer that `change` returns.
    #[inline]
    pub fn edit_integer<E>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(ValueRef<'_>) -> Result<i64, E>,
    ) -> Option<Result<i64, E>> {
        let (counters, db) = (self.counters, usize::from(key.db.0));
        self.edit_entry(&key, |entry| {
            let value = entry.entry().value();
            let before = match value {
                ValueRef::Int(value) => ValueSize::of_integer(value),
                _ => entry.entry().value_size(),
            };
            let new = change(value)?;
            entry.set_int(new);
            counters.size(db, before, ValueSize::of_integer(new));
            Ok(new)
        })
    }

    /// [`Self::edit`] with the key by reference: a copy would wait until the caller's is in memory. The caller counts the size
    /// of the value.
    #[inline]
    fn edit_entry<R>(&mut self, key: &Key<'_>, change: impl FnOnce(&mut EntryMut<'_>) -> R) -> Option<R> {
        if self.mode.hides_unheld && !self.holds_for_writing(key.slot) {
            return None;
        }
        let (counters, aging, now, touch) = (self.counters, self.mode.aging, self.due(), self.mode.touch);
        let random = if aging.draws() { self.random.next_u32() } else { 0 };
        let db = key.db.0 as usize;
        let mut expired = None;
        let result = self.change(*key, |table, heap| {
            let mut entry = table.find_mut_near(key.guess, heap, key.hash, key.bytes)?;
            let before = entry.entry().expiry();
            if before.is_some_and(|at| at <= now) {
                counters.population(db, -1, entry.entry());
                counters.expired_keys.add(1);
                expired = Some(entry.remove());
                return None;
            }
            if touch {
                entry.entry().set_access(aging.accessed(entry.entry().access(), || random));
            }
            let had_volatile_members = entry.has_volatile_members();
            let result = change(&mut entry);
            counters.expiry(db, before, entry.entry().expiry());
            counters.members(db, had_volatile_members, entry.has_volatile_members());
            Some(result)
        });
        if let Some(removed) = expired {
            self.announce(EventClass::Expired, "expired", *key);
            self.note_change(*key);
            self.record_deletion(*key, self.mode.lazy_expire);
            self.discard_expired(removed);
        }
        self.follow_expiry(key);
        result
    }

    /// Extends a string to at least `len_min` bytes, the new ones zero, and changes its bytes in place. A
    /// missing key is an empty string.
    pub fn edit_string<R>(
        &mut self,
        key: Key<'_>,
        len_min: usize,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, NotAString> {
        self.edit_string_of(key, len_min, |bytes, _| change(bytes))
    }

    /// [`Self::edit_string`] that also passes the string's previous length to `change`; `None` if the key
    /// did not exist.
    pub fn edit_string_of<R>(
        &mut self,
        key: Key<'_>,
        len_min: usize,
        change: impl FnOnce(&mut [u8], Option<usize>) -> R,
    ) -> Result<R, NotAString> {
        let mut change = Some(change);
        let mut edit = |entry: &mut EntryMut<'_>, was_there: bool| {
            let len = entry.entry().value().text_len().ok_or(NotAString)?;
            let bytes = entry.resize(len.max(len_min))?;
            Ok(change.take().expect("an entry is edited once")(bytes, was_there.then_some(len)))
        };
        if let Some(result) = self.edit(key, |entry| edit(entry, true)) {
            return result;
        }
        self.set(key, NewValue::Raw(&[]), ExpiryChange::Clear);
        self.edit(key, |entry| edit(entry, false)).expect("set just now, without expiry")
    }

    /// Changes a collection in place, and records the access; a key whose collection is empty afterwards is
    /// removed. `None` if the key does not exist.
    #[inline]
    pub fn edit_collection<T: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut T, AllocContext<'_>) -> R,
    ) -> Result<Option<Edited<R>>, NotOfThisType> {
        self.edit_object(&key, change)
    }

    /// [`Self::edit_collection`] with the key by reference.
    #[inline]
    fn edit_object<T: Collection, R>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(&mut T, AllocContext<'_>) -> R,
    ) -> Result<Option<Edited<R>>, NotOfThisType> {
        let alloc = self.alloc_context(*key);
        let (counters, db) = (self.counters, usize::from(key.db.0));
        let edited = self.edit_entry(key, |entry| {
            let collection = entry.object_mut().and_then(T::of_mut).ok_or(NotOfThisType)?;
            let before = ValueSize::new(T::KIND, collection.len());
            let result = change(collection, alloc);
            counters.size(db, before, ValueSize::new(T::KIND, collection.len()));
            let (is_gone, has_volatile_members) = (collection.is_empty(), collection.has_volatile_members());
            entry.note_volatile_members(has_volatile_members);
            Ok(Edited { result, is_new: false, is_gone })
        });
        let Some(edited) = edited.transpose()? else { return Ok(None) };
        if edited.is_gone {
            self.remove(*key);
        }
        Ok(Some(edited))
    }

    /// [`Self::edit_collection`] where a missing key is an empty collection.
    pub fn edit_collection_or_new<T: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut T, AllocContext<'_>) -> R,
    ) -> Result<Edited<R>, NotOfThisType> {
        let mut change = Some(change);
        let mut once = |collection: &mut T, alloc: AllocContext<'_>| {
            change.take().expect("exactly one of two callers calls it")(collection, alloc)
        };
        if let Some(edited) = self.edit_object(&key, &mut once)? {
            return Ok(edited);
        }
        let mut collection = T::new();
        let result = once(&mut collection, self.alloc_context(key));
        let is_gone = collection.is_empty();
        if !is_gone {
            let object = NewValue::Object(Box::new(collection.into_object()));
            self.set(key, object, ExpiryChange::Clear);
        }
        Ok(Edited { result, is_new: !is_gone, is_gone })
    }

    /// Drops a removed entry, or leaves it as garbage if that is costly.
    pub fn discard(&mut self, removed: OwnedEntry) {
        if removed.is_costly_to_drop() {
            self.deferred.garbage.push(removed);
        }
    }

    /// Removes a key. The caller decides where its value is freed.
    pub fn remove(&mut self, key: Key<'_>) -> Option<OwnedEntry> {
        let counters = self.counters;
        let db = key.db.0 as usize;
        self.change(key, |table, heap| {
            let removed = table.find_mut_near(key.guess, heap, key.hash, key.bytes)?.remove();
            counters.population(db, -1, removed.entry());
            Some(removed)
        })
    }

    /// Inserts a copy of a key's entry under another key or database, with its value, expiry and access
    /// clock. Returns the entry that it replaces; also `None` if there is nothing to copy.
    pub fn copy(&mut self, source: Key<'_>, destination: Key<'_>) -> Option<OwnedEntry> {
        let heap = self.keyspace.heap(destination.slot);
        let copy = OwnedEntry::copy_of(self.lookup(source)?, heap, destination.bytes);
        self.insert(destination, copy)
    }

    /// Inserts a removed entry under another key or database, with its value, expiry and access clock.
    /// Returns the entry that it replaces.
    pub fn insert(&mut self, key: Key<'_>, owned: OwnedEntry) -> Option<OwnedEntry> {
        let counters = self.counters;
        let db = key.db.0 as usize;
        self.keyspace.snapshot.tracked.note_moved(&owned, || KeyPlace::of(key));
        counters.population(db, 1, owned.entry());
        let replaced = self.change(key, |table, heap| {
            let replaced = table.insert_owned(heap, key.hash, key.bytes, owned);
            if let Some(replaced) = &replaced {
                counters.population(db, -1, replaced.entry());
            }
            replaced
        });
        self.follow_expiry(&key);
        self.announce(EventClass::New, "new", key);
        replaced
    }
}
