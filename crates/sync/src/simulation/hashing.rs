//! Seeded keys of hash maps, so that the iteration order of a map is reproducible.

use std::collections::hash_map::{DefaultHasher, RandomState as Real};
use std::hash::{BuildHasher, Hasher};

use super::random_u64;

/// The standard library's random state; in a simulation, one from the seed.
#[derive(Clone, Debug)]
pub struct RandomState(State);

#[derive(Clone, Debug)]
enum State {
    Real(Real),
    Seeded(u64),
}

impl RandomState {
    /// Creates new keys.
    #[must_use]
    pub fn new() -> Self {
        Self(random_u64().map_or_else(|| State::Real(Real::new()), State::Seeded))
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
            State::Real(state) => state.build_hasher(),
            State::Seeded(seed) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(*seed);
                hasher
            }
        }
    }
}
