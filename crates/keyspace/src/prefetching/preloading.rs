//! Prefetching the memory of collections before the commands that use it run.
//!
//! Prefetches without a latch end at the entry: the memory behind it is freed and reused, so it may be read
//! under the latch only. The commands of a batch would reach it one after the other, with a cache miss for each
//! step (the object, the head of its block, the index there). So several keys at a time are visited beforehand,
//! one stage after the other for all of them, with read latches of slots that are free now, which are released
//! before the first of the commands runs.

use std::iter::zip;

use collections::{Object, PrefetchStep, ValueRef};

use crate::store::key::Key;
use crate::store::keyspace::Keyspace;

/// Keys that are preloaded together: enough that the first key's memory has arrived when the last prefetch
/// is issued.
pub const PRELOADED_KEY_COUNT_MAX: usize = 16;

/// The key and member that a command will access.
#[derive(Clone, Copy)]
pub struct Preloaded<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The member that it may look up, if the value is a set or a hash.
    pub member: Option<&'a [u8]>,
}

impl Keyspace {
    /// Prefetches the objects of these keys, and the memory that their operations read first. Keys whose
    /// slots are held by a writer are skipped, and those beyond the first 16; a key equal to the one before
    /// it is looked up once. For strings the lookup has no benefit.
    #[inline]
    pub fn preload(&self, wanted: &[Option<Preloaded<'_>>]) {
        let mut guards = [const { None }; PRELOADED_KEY_COUNT_MAX];
        let mut hash_before = None;
        for (guard, Preloaded { key, .. }) in zip(&mut guards, wanted.iter().flatten()) {
            if hash_before != Some(key.hash) {
                *guard = self.slots().try_read_now(key.slot.index());
            }
            hash_before = Some(key.hash);
        }
        let mut objects: [Option<&Object>; PRELOADED_KEY_COUNT_MAX] = [None; PRELOADED_KEY_COUNT_MAX];
        let mut searches: [Option<(&Object, u64)>; PRELOADED_KEY_COUNT_MAX] = [None; PRELOADED_KEY_COUNT_MAX];
        let mut before: Option<(Key<'_>, &Object)> = None;
        for ((object, search), (guard, Preloaded { key, member })) in
            zip(zip(&mut objects, &mut searches), zip(&guards, wanted.iter().flatten()))
        {
            if let Some(table) = guard.as_ref().and_then(|slot| slot.table(self.place(key.db.0 as usize)))
                && let Some(ValueRef::Object(found)) =
                    table.find(key.hash, key.bytes).map(|entry| entry.value())
            {
                found.prefetch();
                *object = Some(found);
                before = Some((*key, found));
            }
            if let Some((_, found)) = before.filter(|(same, _)| same.hash == key.hash)
                && found.has_leaves()
            {
                *search = member.map(|member| (found, self.hasher().hash(member)));
            }
        }
        objects.iter().flatten().for_each(|object| object.prefetch_parts());
        objects.iter().flatten().for_each(|object| object.prefetch_index());
        if searches.iter().any(Option::is_some) {
            for step in PrefetchStep::ALL {
                searches.iter().flatten().for_each(|(object, hash)| object.prefetch_member(*hash, step));
            }
        }
    }
}
