//! Sorted sets.

mod combinations;
mod pops;
mod ranges;
mod ranks;
mod scan;
mod zadd;
