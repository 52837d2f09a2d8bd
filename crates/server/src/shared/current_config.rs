//! The configuration in force, as all workers see it.
//!
//! Invariant: it is changed under [`CurrentConfig::lock_changes`]. The generation grows after the configuration is
//! stored, so that a worker that sees a new generation loads the new configuration.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use config::Config;
use sync::atomic::{AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

/// The configuration in force. Each worker compares the generation before each batch.
pub struct CurrentConfig {
    current: ArcSwap<Config>,
    generation: AtomicU64,
    changing: Mutex<()>,
}

impl CurrentConfig {
    pub(super) fn new(config: Config) -> Self {
        Self {
            current: ArcSwap::from_pointee(config),
            generation: AtomicU64::new(0),
            changing: Mutex::new(()),
        }
    }

    /// The configuration, for a short time.
    #[inline]
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.current.load()
    }

    /// The configuration, to be kept.
    #[must_use]
    pub fn load_full(&self) -> Arc<Config> {
        self.current.load_full()
    }

    /// Grows by one with each change.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The lock to be held while the configuration is changed.
    pub fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Replaces the configuration.
    pub fn publish(&self, config: Config) {
        self.current.store(Arc::new(config));
        self.begin_generation();
    }

    /// Makes each worker update its derived settings before its next batch.
    pub fn begin_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}
