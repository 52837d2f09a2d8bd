//! Seeded keys of hash maps, so that the iteration order of a map is reproducible.

use std::collections::hash_map::{DefaultHasher, RandomState as Real};
use std::hash::{BuildHasher, Hasher};

use super::random_u64;

/// The standard library's random state; in a simulation, one from the seed.
#[derive(Clone, Debug)]
pub struct RandomState(HashKeys);

#[derive(Clone, Debug)]
enum HashKeys {
    Real(Real),
    Seeded(u64),
}

impl RandomState {
    /// Creates new keys.
    #[must_use]
    pub fn new() -> Self {
        Self(random_u64().map_or_else(|| HashKeys::Real(Real::new()), HashKeys::Seeded))
    }
}

impl Default for RandomState {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        match &self.0 {
            HashKeys::Real(state) => state.build_hasher(),
            HashKeys::Seeded(seed) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(*seed);
                hasher
            }
        }
    }
}
