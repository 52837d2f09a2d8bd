//! Payloads and files that real servers made, in `fixtures`; `fixtures/generate` makes them again.

mod files;
mod payloads;
mod portions;
mod support;
