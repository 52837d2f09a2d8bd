//! Client-side caching: records the readers of a key, and notifies them of its change.

use crate::latched::Latched;
use crate::store::key::Key;
use crate::store::readers::{ChangedKey, Clients};

impl Latched<'_> {
    /// Records that a client has read a key, whose slot is held for writing.
    pub fn record_reader(&mut self, key: Key<'_>, client: u64) {
        let keyspace = self.keyspace;
        let readers = self.slot_data_mut(key.slot).readers_or_new();
        readers.insert(key, client, keyspace.hasher(), &keyspace.reader_totals);
    }

    /// Notifies the readers of a key that it is not valid any more.
    #[cold]
    pub(crate) fn notify_readers(&self, key: &[u8], readers: Option<Clients>) {
        if let (Some(observer), Some(readers)) = (self.keyspace.observer(), &readers) {
            observer.stale(self.thread, key, readers, self.events.client);
        }
    }

    /// Records a key that changed, for clients that track every change.
    #[cold]
    pub(crate) fn note_changed_key(&mut self, key: &[u8]) {
        self.events.changed_keys.push(ChangedKey { key: key.into(), by: self.events.client });
    }
}
