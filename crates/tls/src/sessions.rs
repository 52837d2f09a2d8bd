//! The sessions that clients may resume: bounded in number and age, shared by all workers.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rustls::server::StoresServerSessions;
use sync::Mutex;

/// The number of sessions where the setting is 0, which means no limit in OpenSSL.
const SESSION_COUNT_MAX: usize = 1 << 20;

/// A store of sessions. When it is full, the oldest session makes room.
pub(crate) struct Sessions {
    count_max: usize,
    lifetime: Duration,
    kept: Mutex<Kept>,
}

/// Invariant: `order` contains the key of each session in `by_key`, oldest first, and at most as many keys of sessions
/// that are taken or replaced.
#[derive(Default)]
struct Kept {
    by_key: HashMap<Vec<u8>, Session>,
    order: VecDeque<(Vec<u8>, Instant)>,
}

struct Session {
    value: Vec<u8>,
    since: Instant,
}

impl Sessions {
    /// Returns an empty store.
    pub(crate) fn new(count_max: usize, lifetime_seconds: u64) -> Self {
        let count_max = if count_max == 0 { SESSION_COUNT_MAX } else { count_max.min(SESSION_COUNT_MAX) };
        Self { count_max, lifetime: Duration::from_secs(lifetime_seconds), kept: Mutex::default() }
    }

    fn put_at(&self, key: Vec<u8>, value: Vec<u8>, now: Instant) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { by_key, order } = &mut *kept;
        by_key.insert(key.clone(), Session { value, since: now });
        order.push_back((key, now));
        // Keys of sessions that are taken stay in the order for a while; they count, so that it is bounded.
        while let Some((key, since)) = order.front() {
            let is_current = by_key.get(key).is_some_and(|session| session.since == *since);
            let is_over = now.duration_since(*since) > self.lifetime;
            if is_current && !is_over && by_key.len() <= self.count_max && order.len() <= 2 * self.count_max {
                break;
            }
            if is_current {
                by_key.remove(key);
            }
            order.pop_front();
        }
    }

    fn get_at(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let session = kept.by_key.get(key)?;
        (now.duration_since(session.since) <= self.lifetime).then(|| session.value.clone())
    }

    fn take_at(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let session = self.kept.lock().unwrap_or_else(PoisonError::into_inner).by_key.remove(key)?;
        (now.duration_since(session.since) <= self.lifetime).then_some(session.value)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("count_max", &self.count_max).finish_non_exhaustive()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.put_at(key, value, Instant::now());
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_at(key, Instant::now())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.take_at(key, Instant::now())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::new(3, 300);
        let now = Instant::now();
        for key in 0..100_u8 {
            sessions.put_at(vec![key], vec![key], now);
            // A session that is taken leaves its key in the order only for a while.
            if key % 2 == 0 {
                assert_eq!(sessions.take_at(&[key], now), Some(vec![key]));
            }
        }
        assert_eq!(sessions.get_at(&[99], now), Some(vec![99]));
        assert_eq!(sessions.get_at(&[95], now), Some(vec![95]));
        assert_eq!(sessions.get_at(&[91], now), None, "older than the three that are kept");
        let kept = sessions.kept.lock().unwrap();
        assert!(kept.by_key.len() <= 3 && kept.order.len() <= 6);
    }

    #[test]
    fn sessions_expire() {
        let sessions = Sessions::new(10, 300);
        let now = Instant::now();
        sessions.put_at(vec![1], vec![1], now);
        let later = now + Duration::from_secs(301);
        assert_eq!(sessions.get_at(&[1], later), None);
        sessions.put_at(vec![2], vec![2], later);
        assert_eq!(sessions.kept.lock().unwrap().by_key.len(), 1);
        assert_eq!(sessions.take_at(&[2], later), Some(vec![2]));
        assert_eq!(sessions.take_at(&[2], later), None);
    }

    #[test]
    fn a_size_of_zero_has_a_limit_too() {
        assert_eq!(Sessions::new(0, 1).count_max, SESSION_COUNT_MAX);
    }
}
