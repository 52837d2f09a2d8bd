//! Dialogues with the commands: requests and the expected replies, command family by command family.
//!
//! A dialogue is a text: each request after `> `, its reply below. `UPDATE_EXPECT=1` fills in the replies.
//! With `DIALOGUE_PEER=host:port` the dialogues run against a real Redis or Valkey server instead, which is
//! how the expectations were verified: replies that differ there are marked, with the reason.
//! `tests/dialogues` does that with each of the peers.
//!
//! Start reading at [`check::check`], which has the notation.

mod bitmap;
mod check;
mod connection;
mod generic;
mod geo;
mod hash;
mod host;
mod hyperloglog;
mod list;
mod marks;
mod ours;
mod peer;
mod pubsub;
mod serialization;
mod server;
mod set;
mod show;
mod sorted_set;
mod stream;
mod string;
mod transaction;
