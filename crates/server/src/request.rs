//! Whether a request may run: the rules that hold for every way to run one.

pub mod admission;
