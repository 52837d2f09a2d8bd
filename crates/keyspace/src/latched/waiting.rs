//! Waits for keys: begins and ends them, and finds the waiters of a key that can be served.

use std::any::Any;
use std::sync::Arc;

use crate::latched::Latched;
use crate::store::key::Key;
use crate::store::waiting::{Needs, OwnedKey, Waiter, note};

impl Latched<'_> {
    /// Whether the slots of these keys are held for writing, so that a wait for them can begin.
    pub fn may_begin_wait<'k>(&self, mut keys: impl Iterator<Item = Key<'k>>) -> bool {
        keys.all(|key| self.holds_for_writing(key.slot))
    }

    /// Begins a client's wait for keys, which are held for writing.
    pub fn begin_wait<'k>(
        &mut self,
        keys: impl Iterator<Item = Key<'k>>,
        needs: Needs,
        client: u64,
        address: u64,
        request: Box<dyn Any + Send + Sync>,
    ) -> Arc<Waiter> {
        let counters = self.counters;
        let waiter = Waiter::new(client, address, needs, request);
        let mut owned: Vec<Arc<OwnedKey>> = Vec::with_capacity(keys.size_hint().0);
        for key in keys {
            owned.extend(self.slot_data_mut(key.slot).waits_or_new().add_waiter(key, &waiter, counters));
        }
        waiter.set_keys(owned.into());
        waiter
    }

    /// Whether keys with waiters are ready.
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.deferred.ready.is_empty()
    }

    /// Records a key that is held for writing as ready if it has waiters, without marking its watches as
    /// changed.
    pub fn note_ready_if_waited(&mut self, key: Key<'_>) {
        let mut ready = std::mem::take(&mut self.deferred.ready);
        if let Some(waits) = self.slot_data_mut(key.slot).waits_mut() {
            waits.note_ready(key, &mut ready);
        }
        self.deferred.ready = ready;
    }

    /// Records a key as ready, unless it is already recorded.
    pub fn note_ready(&mut self, key: &Arc<OwnedKey>) {
        note(key, &mut self.deferred.ready);
    }

    /// The next key that has become ready, in the order of the changes.
    pub fn take_ready(&mut self) -> Option<Arc<OwnedKey>> {
        self.deferred.ready.pop_front()
    }

    /// The next waiter of a key, from a number on (0: the first), that can be served with the key's present value. `from` is
    /// then the number behind it. The key's slot is held for writing.
    pub fn next_waiter(&mut self, key: Key<'_>, from: &mut u64) -> Option<Arc<Waiter>> {
        let counters = self.counters;
        let present = self.peek(key).map(|entry| entry.kind());
        let waits = self.slot_data_mut(key.slot).waits_mut()?;
        let found = waits.next(key, present, from, counters);
        if found.is_none() {
            self.slot_data_mut(key.slot).drop_empty_lists();
        }
        found
    }

    /// Removes a served waiter from the queues of its keys whose slots are held. Returns whether they are
    /// all of its queues.
    pub fn remove_served(&mut self, waiter: &Arc<Waiter>) -> bool {
        let counters = self.counters;
        let mut all = true;
        for key in waiter.keys() {
            if self.holds_for_writing(key.slot()) {
                self.slot_data_mut(key.slot()).remove_waiter(key.key(), waiter, counters);
            } else {
                all = false;
            }
        }
        all
    }
}
