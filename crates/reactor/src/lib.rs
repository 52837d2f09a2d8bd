//! Socket I/O by readiness or completion. The bytes are opaque to this crate.
//!
//! A server thread owns one [`Reactor`], created on that thread. It runs on io_uring or epoll. The backends
//! behave identically for the caller, and every test of this crate runs on both.
//!
//! - Owns: the sockets adopted into a reactor, its listeners, its receive buffers, the send queues.
//! - Touches: the kernel. This crate and `os` are the only ones that use libc.
//! - Never: interprets the bytes, starts a thread, blocks outside [`Reactor::wait`].
//! - Invariants: each connection ends in exactly one [`Event::Closed`] or [`Event::Detached`]; buffers are sent
//!   in queue order; a [`ConnectionId`] never refers to a later connection.
//! - Cost: on io_uring one system call per turn; on epoll one per turn, per receive and per send.
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
pub mod faults;
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
pub use event::{CloseMode, CloseReason, Event, ListenerToken};
pub use listener::{Listener, ReusePort};
pub use options::{BackendChoice, ReactorError, ReactorOptions};
pub use reactor::Reactor;
pub use receive_buffer::RecvBuffer;
pub use socket::Socket;
pub use waker::Waker;
