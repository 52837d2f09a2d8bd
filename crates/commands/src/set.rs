//! Sets: a file for each command or close family.
//!
//! Start reading at `sadd.rs`; `combine.rs` is shared by intersections, unions and differences.

mod combine;

pub mod sadd;
pub mod scard;
pub mod sdiff;
pub mod sinter;
pub mod sismember;
pub mod smembers;
pub mod smove;
pub mod spop;
pub mod srandmember;
pub mod srem;
pub mod sscan;
pub mod sunion;

use collections::SetLimits;
use config::Config;

/// Returns the limits of the `intset` and `listpack` encodings.
pub(crate) fn limits(config: &Config) -> SetLimits {
    let len = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    SetLimits {
        // The internal count cannot be larger.
        intset_len_max: len(config.set_max_intset_entries).min(1 << 30),
        listpack_len_max: len(config.set_max_listpack_entries),
        listpack_value_size_max: len(config.set_max_listpack_value),
    }
}
