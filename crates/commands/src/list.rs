//! Lists: a file for each command or close family.
//!
//! Start reading at `lpush.rs`, then `lpop.rs` and `blocking_pop.rs`.

pub(crate) mod limits;
mod pops;

pub mod blocking_pop;
pub mod lindex;
pub mod linsert;
pub mod llen;
pub mod lmove;
pub mod lmpop;
pub mod lpop;
pub mod lpos;
pub mod lpush;
pub mod lrange;
pub mod lrem;
pub mod lset;
pub mod ltrim;
