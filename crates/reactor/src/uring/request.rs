//! Requests and completions, independent of the kernel's encoding.

use std::os::fd::RawFd;

use io_uring::{cqueue, opcode, squeue, types};

use crate::receive_buffer::buffer_ring::GROUP;

/// One request. Its completions carry `user_data`.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) user_data: u64,
    pub(super) operation: Operation,
    /// Whether it posts no completion on success.
    pub(super) is_quiet: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Operation {
    /// Receives into buffers of the group. Completes for each arrival until it ends with an error, end of file
    /// or cancellation.
    Receive {
        fd: RawFd,
    },
    /// Sends as much as the socket takes without blocking, and completes. A short send counts as failed.
    Send {
        fd: RawFd,
        start: *const u8,
        size: u32,
    },
    /// As `Send`, for several slices.
    SendMessage {
        fd: RawFd,
        message: *const libc::msghdr,
    },
    /// Completes once when the socket has room.
    AwaitRoom {
        fd: RawFd,
    },
    /// Completes once when the peer has closed or half-closed the connection, or it has failed.
    AwaitHangUp {
        fd: RawFd,
    },
    /// Completes each time the eventfd is signalled.
    AwaitSignals {
        fd: RawFd,
    },
    /// Completes for each connection until it ends with an error or cancellation.
    Accept {
        fd: RawFd,
    },
    /// Ends the request with this user data.
    Cancel {
        user_data: u64,
    },
    CancelAll,
}

/// With MSG_WAITALL a short send counts as failed, so that it completes even where successes are suppressed.
const SEND_FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;

impl Request {
    pub(super) fn new(user_data: u64, operation: Operation) -> Self {
        Self { user_data, operation, is_quiet: false }
    }

    /// Returns the request with completions of successes suppressed.
    pub(super) fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    /// Encodes the request for the kernel.
    #[inline]
    pub(super) fn to_entry(self) -> squeue::Entry {
        let fd = types::Fd;
        let entry = match self.operation {
            Operation::Receive { fd: socket } => opcode::RecvMulti::new(fd(socket), GROUP).build(),
            Operation::Send { fd: socket, start, size } => {
                opcode::Send::new(fd(socket), start, size).flags(SEND_FLAGS).build()
            }
            Operation::SendMessage { fd: socket, message } => {
                opcode::SendMsg::new(fd(socket), message).flags(SEND_FLAGS as u32).build()
            }
            Operation::AwaitRoom { fd: socket } => {
                opcode::PollAdd::new(fd(socket), libc::POLLOUT as u32).build()
            }
            Operation::AwaitHangUp { fd: socket } => {
                opcode::PollAdd::new(fd(socket), libc::POLLRDHUP as u32).build()
            }
            Operation::AwaitSignals { fd: event } => {
                opcode::PollAdd::new(fd(event), libc::POLLIN as u32).multi(true).build()
            }
            Operation::Accept { fd: listener } => {
                let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
                opcode::AcceptMulti::new(fd(listener)).flags(flags).build()
            }
            Operation::Cancel { user_data } => opcode::AsyncCancel::new(user_data).build(),
            Operation::CancelAll => opcode::AsyncCancel2::new(types::CancelBuilder::any()).build(),
        };
        let entry = entry.user_data(self.user_data);
        if self.is_quiet { entry.flags(squeue::Flags::SKIP_SUCCESS) } else { entry }
    }
}

/// A completion of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    /// A count or a descriptor; a negative number is an error.
    pub(super) result: i32,
    flags: u32,
}

impl Completion {
    /// Creates a completion of a simulated ring, with the buffer that it filled.
    #[cfg(feature = "simulation")]
    pub(super) fn new(user_data: u64, result: i32, has_more: bool, buffer: Option<u16>) -> Self {
        // From linux/io_uring.h.
        const BUFFER: u32 = 1 << 0;
        const MORE: u32 = 1 << 1;
        const BUFFER_SHIFT: u32 = 16;
        let buffer = buffer.map_or(0, |id| BUFFER | u32::from(id) << BUFFER_SHIFT);
        Self { user_data, result, flags: buffer | if has_more { MORE } else { 0 } }
    }

    /// Whether the request will complete again.
    pub(super) fn has_more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The buffer that was filled, if any.
    pub(super) fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

impl From<cqueue::Entry> for Completion {
    #[inline]
    fn from(entry: cqueue::Entry) -> Self {
        Self { user_data: entry.user_data(), result: entry.result(), flags: entry.flags() }
    }
}
