//! The cache of scripts: by digest, of all workers.
//!
//! Scripts of `SCRIPT LOAD` stay until `SCRIPT FLUSH`; of those of `EVAL`, the 500 that were used last stay, as in Valkey.
//! Workers keep references: [`ScriptCache::generation`] changes when they must drop them. A script of `EVAL` is in the
//! cache from its first run on; [`ScriptCache::prepare`] serves requests that are only planned.

use std::collections::HashMap;
use std::sync::Arc;

use commands::error::CommandError;
use script::{Analysis, ScriptFlags, Shebang, analyse, sha1_hex};
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

/// Scripts of `EVAL` that are kept.
const EVALUATED_COUNT_MAX: usize = 500;

/// The memory of an entry beside the text, in bytes.
const ENTRY_SIZE: usize = 160;

/// A script.
pub struct Script {
    /// Its digest.
    pub sha: [u8; 40],
    /// Its text.
    pub body: Arc<[u8]>,
    /// Its first line.
    pub shebang: Shebang,
    /// The properties that its text proves.
    pub analysis: Analysis,
    /// Whether it is to stay until the cache is flushed.
    is_loaded: AtomicBool,
    /// Whether it is in the cache.
    is_cached: AtomicBool,
    /// When it was last used.
    used_at: AtomicU64,
    /// Whether a run has shown that it needs all latches.
    pub needs_everything: AtomicBool,
}

impl Script {
    /// The flags that it declares.
    #[must_use]
    pub fn flags(&self) -> ScriptFlags {
        self.shebang.flags
    }

    /// Whether it is in the cache.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.is_cached.load(Ordering::Acquire)
    }

    /// Its code, without the first line.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        &self.body[self.shebang.size..]
    }
}

/// See the module documentation.
#[derive(Default)]
pub struct ScriptCache {
    scripts: Mutex<HashMap<[u8; 40], Arc<Script>>>,
    generation: AtomicU64,
    clock: AtomicU64,
    evicted: AtomicU64,
    size: AtomicU64,
}

impl ScriptCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 40], Arc<Script>>> {
        self.scripts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes when scripts leave the cache.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The number of scripts that were evicted.
    #[must_use]
    pub fn evicted_count(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The number of scripts, and the memory of their texts in bytes.
    #[must_use]
    pub fn count_and_size(&self) -> (usize, u64) {
        (self.lock().len(), self.size.load(Ordering::Relaxed))
    }

    /// The script with this digest, in lower case.
    #[must_use]
    pub fn find(&self, sha: &[u8; 40]) -> Option<Arc<Script>> {
        self.lock().get(sha).cloned()
    }

    /// Records that a script is used.
    pub fn touch(&self, script: &Script) {
        if !script.is_loaded.load(Ordering::Relaxed) {
            script.used_at.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The cached script with this text, or one that is not in the cache and not compiled.
    pub fn prepare(&self, body: &[u8]) -> Result<Arc<Script>, CommandError> {
        let sha = sha1_hex(body);
        if let Some(script) = self.find(&sha) {
            return Ok(script);
        }
        let shebang =
            Shebang::parse(body).map_err(|error| CommandError::quoting([b"ERR ", &error.0[..]].concat()))?;
        Ok(Arc::new(Script {
            sha,
            analysis: analyse(&body[shebang.size..]),
            body: body.into(),
            shebang,
            is_loaded: AtomicBool::new(false),
            is_cached: AtomicBool::new(false),
            used_at: AtomicU64::new(0),
            needs_everything: AtomicBool::new(false),
        }))
    }

    /// Adds a script that compiles, and returns it; or the one with its text that is there already. `stays`: until the cache is
    /// flushed.
    pub fn insert(&self, script: &Arc<Script>, stays: bool) -> Arc<Script> {
        let mut scripts = self.lock();
        let entered = match scripts.get(&script.sha) {
            Some(present) => Arc::clone(present),
            None => {
                if !stays {
                    self.evict(&mut scripts);
                }
                script.used_at.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                script.is_cached.store(true, Ordering::Release);
                scripts.insert(script.sha, Arc::clone(script));
                self.size.fetch_add((script.body.len() + ENTRY_SIZE) as u64, Ordering::Relaxed);
                Arc::clone(script)
            }
        };
        if stays {
            entered.is_loaded.store(true, Ordering::Relaxed);
        }
        entered
    }

    /// Makes room for a script of `EVAL`.
    fn evict(&self, scripts: &mut HashMap<[u8; 40], Arc<Script>>) {
        let evictable = |script: &&Arc<Script>| !script.is_loaded.load(Ordering::Relaxed);
        while scripts.values().filter(evictable).count() >= EVALUATED_COUNT_MAX {
            let oldest = scripts
                .values()
                .filter(evictable)
                .min_by_key(|script| script.used_at.load(Ordering::Relaxed));
            let Some(sha) = oldest.map(|script| script.sha) else { return };
            if let Some(script) = scripts.remove(&sha) {
                script.is_cached.store(false, Ordering::Release);
                self.size.fetch_sub((script.body.len() + ENTRY_SIZE) as u64, Ordering::Relaxed);
            }
            self.evicted.fetch_add(1, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Sets the count of evicted scripts to zero.
    pub fn reset_evicted(&self) {
        self.evicted.store(0, Ordering::Relaxed);
    }

    /// Removes all scripts.
    pub fn flush(&self) {
        for (_, script) in self.lock().drain() {
            script.is_cached.store(false, Ordering::Release);
            script.is_loaded.store(false, Ordering::Relaxed);
        }
        self.size.store(0, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(cache: &ScriptCache, body: &str, stays: bool) -> Arc<Script> {
        cache.insert(&cache.prepare(body.as_bytes()).unwrap(), stays)
    }

    #[test]
    fn evaluated_scripts_are_evicted_in_the_order_of_use() {
        let cache = ScriptCache::default();
        let (kept, loaded) = (add(&cache, "return 'kept'", false), add(&cache, "return 'loaded'", true));
        for number in 1..EVALUATED_COUNT_MAX {
            add(&cache, &format!("return {number}"), false);
        }
        let first = add(&cache, "return 1", false);
        cache.touch(&kept);
        assert_eq!(cache.evicted_count(), 0);
        add(&cache, "return 'new'", false);
        assert_eq!(cache.evicted_count(), 1);
        assert!(cache.find(&first.sha).is_none());
        assert!(cache.find(&kept.sha).is_some() && cache.find(&loaded.sha).is_some());
        assert!(loaded.is_cached() && !first.is_cached());
        cache.flush();
        assert_eq!(cache.count_and_size(), (0, 0));
        assert!(!loaded.is_cached());
    }

    #[test]
    fn a_prepared_script_is_not_in_the_cache() {
        let cache = ScriptCache::default();
        let (one, other) = (cache.prepare(b"return 1").unwrap(), cache.prepare(b"return 1").unwrap());
        assert!(!one.is_cached() && cache.find(&one.sha).is_none());
        let entered = cache.insert(&one, false);
        // The text is stored once, even if two workers have prepared it.
        assert!(Arc::ptr_eq(&entered, &one) && Arc::ptr_eq(&cache.insert(&other, false), &one));
        assert_eq!(cache.count_and_size().0, 1);
    }
}
