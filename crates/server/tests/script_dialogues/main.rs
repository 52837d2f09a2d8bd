//! Dialogues with scripts and functions, in the notation of the dialogues of `commands` (`check.rs` there). They need an
//! interpreter, so our side is a running server. `tests/dialogues` runs them against Valkey and Redis too.

#![allow(clippy::unwrap_used)] // Whatever fails here fails the test.

#[path = "../../../commands/tests/dialogue/check.rs"]
mod check;
#[path = "../../../commands/tests/dialogue/marks.rs"]
mod marks;
#[path = "../../../commands/tests/dialogue/peer.rs"]
mod peer;
#[path = "../../../commands/tests/dialogue/show.rs"]
mod show;
#[path = "../support/mod.rs"]
mod support;

mod conversions;
mod errors;
mod functions;
mod libraries;
mod ours;
mod script_cache;
