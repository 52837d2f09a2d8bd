//! Sending on io_uring.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;

use super::request::{Operation, Request};
use super::{Connection, Ending, KIND_SEND, Sending, Uring};
use crate::send_queue::{Buffer, SLICE_COUNT_MAX, SendQueue};
use crate::{ConnectionId, Event, sys};

impl Uring {
    pub(crate) fn send(&mut self, id: ConnectionId, bytes: Buffer) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if connection.is_leaving() || connection.ending != Ending::None {
            return;
        }
        if bytes.is_empty() {
            let buffer = bytes.emptied();
            self.events.push_back(Event::Sent { connection: id, token: connection.token, buffer });
            return;
        }
        connection.sends.push(bytes);
        self.queue_flush(id);
    }

    pub(crate) fn pending_send_bytes(&self, id: ConnectionId) -> usize {
        self.connections.lookup(id).map_or(0, |connection| connection.sends.held_size())
    }

    pub(crate) fn message_bytes(&self, id: ConnectionId) -> usize {
        self.connections.lookup(id).map_or(0, |connection| connection.sends.message_size())
    }

    pub(crate) fn unsent_bytes(&self, id: ConnectionId) -> usize {
        self.connections.lookup(id).map_or(0, |connection| connection.sends.pending_size())
    }

    pub(crate) fn shutdown_write(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if connection.ending == Ending::None && !connection.is_leaving() {
            connection.ending = Ending::Shutdown;
            self.queue_flush(id);
        }
    }

    /// Schedules the connection for the next submission of sends, unless a send is in flight, whose end does
    /// so.
    pub(super) fn queue_flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if !connection.is_in_flush && connection.sending == Sending::Idle {
            connection.is_in_flush = true;
            self.flush.push(id);
        }
    }

    /// Makes a send request for each connection with pending sends and none in flight.
    pub(super) fn submit_sends(&mut self) -> io::Result<()> {
        if self.ring.is_submitted() {
            self.messages.clear();
        }
        let mut flush = std::mem::take(&mut self.flush);
        for id in flush.drain(..) {
            self.submit_send(id)?;
        }
        // Submitting adds no entry to `flush`, so this keeps the allocation and loses no entry.
        debug_assert!(self.flush.is_empty());
        self.flush = flush;
        Ok(())
    }

    fn submit_send(&mut self, id: ConnectionId) -> io::Result<()> {
        let Some(connection) = self.connections.lookup_mut(id) else { return Ok(()) };
        connection.is_in_flush = false;
        if connection.is_leaving() || connection.sending != Sending::Idle {
            return Ok(());
        }
        if connection.sends.is_empty() && !connection.is_connecting {
            self.end_after_sends(id);
            return Ok(());
        }
        if connection.is_full {
            connection.sending = Sending::AwaitingRoom;
            let await_room = Operation::AwaitRoom { fd: connection.socket.as_raw_fd() };
            let request = Request::new(KIND_SEND | id.to_bits(), await_room);
            // SAFETY: (1) it contains no pointers.
            return unsafe { self.push(&request) };
        }
        let (operation, size) = operation(connection, &mut self.messages);
        let request = Request::new(KIND_SEND | id.to_bits(), operation);
        if is_quiet(connection) {
            connection.sending = Sending::Quiet { size };
            self.quiet.push(id);
            let request = request.quiet();
            // SAFETY: (1) the buffers stay in `sends` and the message in the arena until `settle_quiet_sends`
            // has found the request submitted; with MSG_DONTWAIT it has then ended.
            return unsafe { self.ring.push(&request) };
        }
        connection.sending = Sending::Prompt { size };
        // SAFETY: (1) the buffers stay in `sends` until the completion, and the message in the arena until it
        // is submitted.
        unsafe { self.push(&request) }
    }

    /// Handles the completion of a send, or of the wait for room. A quiet send completes only if data is left.
    pub(super) fn complete_send(&mut self, id: ConnectionId, result: i32) {
        let Some(connection) = self.connections.lookup_mut(id) else {
            debug_assert!(false, "a connection stays until its requests have completed");
            return;
        };
        let sending = std::mem::replace(&mut connection.sending, Sending::Idle);
        if !matches!(sending, Sending::Quiet { .. }) {
            self.in_flight_count -= 1;
        }
        let (Sending::Quiet { size: offered } | Sending::Prompt { size: offered }) = sending else {
            if connection.is_connecting {
                return self.end_connecting(id, result);
            }
            // The result does not matter: the next send reports any error of the socket.
            connection.is_full = false;
            self.queue_flush(id);
            return self.leave_if_quiet(id);
        };
        match -result {
            ..=0 => self.advance(id, result as usize, offered),
            libc::EAGAIN | libc::EINTR => self.advance(id, 0, offered),
            error => self.leave_failed(id, io::Error::from_raw_os_error(error)),
        }
    }

    /// Settles quiet sends: if submitted and without a completion, they are completely sent.
    pub(super) fn settle_quiet_sends(&mut self) {
        if self.quiet.is_empty() || !self.ring.is_submitted() {
            return;
        }
        let mut quiet = std::mem::take(&mut self.quiet);
        for id in quiet.drain(..) {
            let Some(connection) = self.connections.lookup_mut(id) else { continue };
            if let Sending::Quiet { size } = connection.sending {
                connection.sending = Sending::Idle;
                self.advance(id, size, size);
            }
        }
        self.quiet = quiet;
    }

    /// Records that `size` more bytes of the `offered` ones are sent, with no send in flight. Continues with
    /// the rest, or performs the action after the last send.
    fn advance(&mut self, id: ConnectionId, size: usize, offered: usize) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        let token = connection.token;
        let events = &mut self.events;
        connection.sends.advance(size, |buffer| {
            events.push_back(Event::Sent { connection: id, token, buffer });
        });
        connection.is_full = size < offered;
        if connection.is_leaving() {
            self.leave_if_quiet(id);
        } else if connection.sends.is_empty() {
            self.end_after_sends(id);
        } else {
            self.queue_flush(id);
        }
    }

    /// Performs the action after the last send.
    fn end_after_sends(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        match connection.ending {
            Ending::None | Ending::IsShut => {}
            Ending::Shutdown => {
                connection.ending = Ending::IsShut;
                if let Err(error) = connection.socket.shut_down_write() {
                    self.leave_failed(id, error);
                }
            }
            Ending::Close => self.leave(id, crate::CloseReason::Requested),
        }
    }
}

/// Whether the next send may be quiet; see [`Event::Sent`].
fn is_quiet(connection: &Connection) -> bool {
    connection.sends.is_small()
        && !connection.is_full
        && !connection.is_paused
        && connection.ending == Ending::None
}

/// Creates a send of the bytes to offer next. Returns it with their size.
fn operation(connection: &Connection, messages: &mut MessageArena) -> (Operation, usize) {
    let fd = connection.socket.as_raw_fd();
    if connection.sends.buffer_count() == 1 {
        let bytes = connection.sends.first();
        return (Operation::Send { fd, start: bytes.as_ptr(), size: bytes.len() as u32 }, bytes.len());
    }
    let (message, size) = messages.add(&connection.sends);
    (Operation::SendMessage { fd, message }, size)
}

/// Message headers of one turn's requests, at stable addresses.
#[derive(Default)]
pub(super) struct MessageArena {
    #[expect(clippy::vec_box, reason = "the kernel holds their addresses while the vector grows")]
    messages: Vec<Box<Message>>,
    used_count: usize,
}

struct Message {
    header: libc::msghdr,
    slices: [libc::iovec; SLICE_COUNT_MAX],
}

impl MessageArena {
    /// Clears the arena after all messages have been submitted, which is when the kernel copies them.
    fn clear(&mut self) {
        self.used_count = 0;
    }

    /// Adds a message with the bytes to offer next. Returns it with their size.
    fn add(&mut self, sends: &SendQueue) -> (*const libc::msghdr, usize) {
        if self.used_count == self.messages.len() {
            let header = sys::message_of(&[]);
            let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            self.messages.push(Box::new(Message { header, slices: [empty; SLICE_COUNT_MAX] }));
        }
        let message = &mut *self.messages[self.used_count];
        self.used_count += 1;
        let mut slices = [IoSlice::new(&[]); SLICE_COUNT_MAX];
        let (count, size) = sends.fill(&mut slices);
        for (target, slice) in message.slices.iter_mut().zip(&slices[..count]) {
            *target = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        }
        message.header.msg_iov = message.slices.as_mut_ptr();
        message.header.msg_iovlen = count as _;
        (&raw const message.header, size)
    }
}
