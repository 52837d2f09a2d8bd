//! Sockets, readiness and completions: bytes in, bytes out, nothing about what they mean.
//!
//! A server thread owns one [`Reactor`], made on that thread. It runs on io_uring or on epoll; which one makes
//! no difference to what the caller observes, and every test of this crate runs on both.
//!
//! - Owns: the sockets adopted into a reactor, its listeners, its receive buffers, the send queues.
//! - Touches: the kernel. With `os` one of the two crates that use libc.
//! - Never: looks into the bytes, starts a thread, blocks outside [`Reactor::wait`].
//! - Invariants: each connection ends in exactly one [`Event::Closed`] or [`Event::Detached`]; buffers are sent
//!   in the order given; a [`ConnectionId`] never names a later connection.
//! - Cost: one system call a turn on io_uring; on epoll one a turn and one for each receive and each send.
//! - Start reading at [`Reactor`], then `epoll` (the simpler backend), then `uring`.
#![allow(unsafe_code)]

pub mod echo;
#[cfg(feature = "simulation")]
pub mod simulated;
mod yield_policy;

mod accept_error;
mod address;
mod connection_table;
mod descriptor;
mod epoll;
mod event;
mod listener;
mod options;
mod reactor;
mod receive_buffer;
mod send_queue;
mod socket;
mod sys;
mod uring;
mod waker;

pub use address::PeerAddress;
pub use connection_table::ConnectionId;
pub use event::{CloseReason, Event};
pub use listener::{Listener, ReusePort};
pub use options::{BackendChoice, ReactorError, ReactorOptions};
pub use reactor::{CloseMode, ListenerToken, Reactor};
pub use receive_buffer::RecvBuffer;
pub use socket::Socket;
pub use waker::Waker;
