//! Prefetching the memory of keys and values before the commands that use it run.

pub(crate) mod prefetched_keys;
pub(crate) mod prefetcher;
pub(crate) mod preloading;
