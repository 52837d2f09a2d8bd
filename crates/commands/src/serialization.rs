//! Serialized values, in the format of RDB files.
//!
//! The storage form of a value follows from the limits that its type's commands use.

pub mod dump;
pub mod migrate;
pub mod restore;

use config::Config;
use rdb::Limits;

use crate::{hash, list, set, sorted_set, stream};

/// Returns the limits for decoding values.
#[must_use]
pub fn value_limits(config: &Config) -> Limits {
    Limits {
        list: list::limits::limits(config),
        set: set::limits(config),
        hash: hash::limits(config),
        sorted_set: sorted_set::limits_of(config),
        stream: stream::xadd::node_limits(config),
    }
}
