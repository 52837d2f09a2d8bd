//! Sorted sets: the `Z` family.

pub(crate) mod bzpop;
mod combine;
mod logged;
pub(crate) mod pop;
mod range;
mod replies;
pub(crate) mod zadd;
pub(crate) mod zcount;
pub(crate) mod zdiff;
pub(crate) mod zinter;
pub(crate) mod zpop;
pub(crate) mod zrandmember;
pub(crate) mod zrange;
pub(crate) mod zrank;
pub(crate) mod zrem;
pub(crate) mod zremrange;
pub(crate) mod zscan;
pub(crate) mod zscore;
pub(crate) mod zunion;

pub(crate) use logged::log_stored;
pub(crate) use range::ScoreRange;

use collections::SortedSetLimits;
use config::Config;

use crate::context::Ctx;

/// Returns the configured limits of the `listpack` encoding.
#[inline]
pub(crate) fn limits(ctx: &Ctx<'_>) -> SortedSetLimits {
    limits_of(ctx.config)
}

/// [`limits`] of a configuration.
#[inline]
pub(crate) fn limits_of(config: &Config) -> SortedSetLimits {
    SortedSetLimits {
        entry_count_max: config.zset_max_listpack_entries as usize,
        value_size_max: config.zset_max_listpack_value as usize,
    }
}
