//! The denial log, which `ACL LOG` shows, and the counters of denials in `INFO`. Written rarely, so one lock is enough.

use std::collections::VecDeque;

use commands::acl::{DenialEvent, LoggedDenial, MissingPermission};
use sync::atomic::{AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

/// The maximum time between equal denials for which they share an entry, in milliseconds.
const ALIKE_MS_MAX: i64 = 60_000;

/// The number of newest entries that a denial is compared with.
const COMPARED_COUNT_MAX: usize = 10;

/// The denial log, and the number of denials by what was missing.
#[derive(Default)]
pub struct Denials {
    log: Mutex<DenialLog>,
    /// Failed authentications.
    pub authentications: AtomicU64,
    /// Denied commands.
    pub commands: AtomicU64,
    /// Denied keys.
    pub keys: AtomicU64,
    /// Denied channels.
    pub channels: AtomicU64,
    /// Denied databases.
    pub databases: AtomicU64,
    /// Certificates that name no user.
    pub certificates: AtomicU64,
}

#[derive(Default)]
struct DenialLog {
    /// Newest first.
    entries: VecDeque<LoggedDenial>,
    next_id: u64,
}

impl Denials {
    /// Counts a denial and adds it to the log, which has at most `len_max` entries afterwards. With 0, nothing is added.
    /// `client` returns the connection's line.
    pub fn record(
        &self,
        event: &DenialEvent<'_>,
        now_ms: i64,
        len_max: u64,
        client: impl FnOnce() -> Vec<u8>,
    ) {
        let counter = match event.missing {
            None => &self.authentications,
            Some(MissingPermission::Command) => &self.commands,
            Some(MissingPermission::Key) => &self.keys,
            Some(MissingPermission::Channel) => &self.channels,
            Some(MissingPermission::Database) => &self.databases,
            Some(MissingPermission::Certificate) => &self.certificates,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let len_max = usize::try_from(len_max).unwrap_or(usize::MAX);
        if len_max == 0 {
            self.lock().entries.clear();
            return;
        }
        let client = client();
        let mut log = self.lock();
        let is_alike = |entry: &LoggedDenial| {
            entry.missing == event.missing
                && entry.context == event.context
                && (now_ms - entry.updated_ms).abs() <= ALIKE_MS_MAX
                && entry.object == event.object
                && entry.user == event.user
        };
        let place = log.entries.iter().take(COMPARED_COUNT_MAX).position(is_alike);
        if let Some(mut entry) = place.and_then(|place| log.entries.remove(place)) {
            entry.count += 1;
            entry.client = client;
            entry.updated_ms = now_ms;
            log.entries.push_front(entry);
            return;
        }
        let id = log.next_id;
        log.next_id += 1;
        log.entries.push_front(LoggedDenial {
            count: 1,
            missing: event.missing,
            context: event.context,
            object: event.object.to_vec(),
            user: event.user.to_vec(),
            client,
            id,
            created_ms: now_ms,
            updated_ms: now_ms,
        });
        log.entries.truncate(len_max);
    }

    /// Returns the newest entries, at most `count`.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<LoggedDenial> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    /// Deletes all entries. Numbers are not used again.
    pub fn clear(&self) {
        self.lock().entries.clear();
    }

    fn lock(&self) -> MutexGuard<'_, DenialLog> {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use commands::acl::DenialContext;

    use super::*;

    fn record(denials: &Denials, object: &str, now_ms: i64, len_max: u64) {
        let (missing, context) = (Some(MissingPermission::Key), DenialContext::Toplevel);
        let event = DenialEvent { missing, context, object: object.as_bytes(), user: b"alice" };
        denials.record(&event, now_ms, len_max, || format!("at {now_ms}").into_bytes());
    }

    /// Object, number of denials, and id of each entry.
    fn entries(denials: &Denials) -> Vec<(String, u64, u64)> {
        let text = |entry: &LoggedDenial| String::from_utf8_lossy(&entry.object).into_owned();
        denials.newest(100).iter().map(|entry| (text(entry), entry.count, entry.id)).collect()
    }

    #[test]
    fn equal_denials_share_one_entry() {
        let denials = Denials::default();
        record(&denials, "a", 1000, 10);
        record(&denials, "b", 2000, 10);
        record(&denials, "a", 3000, 10);
        assert_eq!(entries(&denials), [("a".to_owned(), 2, 0), ("b".to_owned(), 1, 1)]);
        let newest = &denials.newest(1)[0];
        assert_eq!((newest.created_ms, newest.updated_ms, &newest.client[..]), (1000, 3000, &b"at 3000"[..]));
        // After more than a minute it is another entry.
        record(&denials, "a", 63_001, 10);
        assert_eq!(entries(&denials)[0], ("a".to_owned(), 1, 2));
        // So is a denial whose equal is not among the ten newest.
        (0..10).for_each(|number| record(&denials, &number.to_string(), 63_001, 100));
        record(&denials, "a", 63_002, 100);
        assert_eq!(entries(&denials)[0], ("a".to_owned(), 1, 13));
        assert_eq!(denials.keys.load(Ordering::Relaxed), 15);
    }

    #[test]
    fn the_log_has_a_maximum() {
        let denials = Denials::default();
        (0..4).for_each(|number| record(&denials, &number.to_string(), 0, 2));
        assert_eq!(entries(&denials), [("3".to_owned(), 1, 3), ("2".to_owned(), 1, 2)]);
        denials.clear();
        record(&denials, "x", 0, 2);
        assert_eq!(entries(&denials), [("x".to_owned(), 1, 4)]);
        record(&denials, "y", 0, 0);
        assert!(entries(&denials).is_empty());
    }
}
