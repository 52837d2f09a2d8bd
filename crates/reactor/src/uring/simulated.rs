//! A simulated kernel's side of a ring, with requests on sockets of the simulated network.
//!
//! It provides the features that the backend uses, with the least favourable behaviour permitted to a kernel. The
//! queues have the sizes in the network's settings. Completions that overflow their queue wait in a list until
//! the next call. A multishot request ends when its completion finds no room. Calls may be interrupted.

use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::BufRingEntry;
use sync::simulation;

use super::request::{Completion, Operation, Request};
use crate::simulated::{Descriptor, Network, Notice, Readiness, Watched};

pub(super) struct SimulatedQueues {
    network: Arc<Network>,
    /// Occupies a descriptor of the process.
    _descriptor: Descriptor,
    notice: Notice,
    submissions: VecDeque<Request>,
    entries: usize,
    completions: VecDeque<Completion>,
    completion_entries: usize,
    overflow: VecDeque<Completion>,
    interruption_percent: u64,
    armed: Vec<Armed>,
    buffers: Option<Buffers>,
}

/// A request that completes later.
struct Armed {
    user_data: u64,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Receive(usize),
    Room(usize),
    HangUp(usize),
    /// For an event: its id, and the number of signals reported so far.
    Signals(usize, u64),
    Accept(usize),
}

/// The group of receive buffers.
struct Buffers {
    start: NonNull<BufRingEntry>,
    mask: u16,
    head: u16,
}

/// A buffer taken from the group.
struct Buffer {
    start: *mut u8,
    size: usize,
    id: u16,
}

impl SimulatedQueues {
    pub(super) fn new(network: Arc<Network>) -> io::Result<Self> {
        let settings = network.settings();
        Ok(Self {
            _descriptor: network.ring()?,
            notice: Notice::default(),
            submissions: VecDeque::new(),
            entries: settings.ring_entries as usize,
            completions: VecDeque::new(),
            completion_entries: settings.completion_entries as usize,
            overflow: VecDeque::new(),
            interruption_percent: settings.interruption_percent,
            armed: Vec::new(),
            buffers: None,
            network,
        })
    }

    pub(super) fn has_features(&self) -> bool {
        true
    }

    /// # Safety
    ///
    /// 1. See [`Ring::register_buffers`](super::ring::Ring::register_buffers).
    pub(super) unsafe fn register_buffers(
        &mut self,
        start: *mut BufRingEntry,
        entry_count: u16,
        _group: u16,
    ) -> io::Result<()> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::InvalidInput)?;
        self.buffers = Some(Buffers { start, mask: entry_count - 1, head: 0 });
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the kernel may refuse")]
    pub(super) fn unregister_buffers(&mut self, _group: u16) -> io::Result<()> {
        self.buffers = None;
        Ok(())
    }

    /// # Safety
    ///
    /// 1. See [`Ring::push`](super::ring::Ring::push).
    pub(super) unsafe fn try_push(&mut self, request: &Request) -> bool {
        let has_room = self.submissions.len() < self.entries;
        if has_room {
            self.submissions.push_back(*request);
        }
        has_room
    }

    pub(super) fn queued_count(&mut self) -> u32 {
        self.submissions.len() as u32
    }

    pub(super) fn has_overflowed(&mut self) -> bool {
        !self.overflow.is_empty()
    }

    pub(super) fn take(&mut self, to: &mut Vec<Completion>) {
        to.extend(self.completions.drain(..));
    }

    /// The descriptor from an accept's completion.
    pub(super) fn own_result(&self, result: i32) -> io::Result<Descriptor> {
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        Ok(Descriptor::new(Arc::clone(&self.network), result))
    }

    pub(super) fn call(
        &mut self,
        to_submit: u32,
        wanted_count: u32,
        timeout: Option<Duration>,
    ) -> io::Result<u32> {
        let mut now_ns = now();
        for taken in 0..to_submit {
            let Some(request) = self.submissions.pop_front() else { return Ok(taken) };
            self.submit(&request, now_ns);
        }
        self.flush_overflow();
        let end_us = timeout.map(|timeout| (now_ns / 1000).saturating_add(timeout.as_micros() as u64));
        loop {
            self.notice.take();
            let next_ns = self.progress(now_ns);
            if self.completions.len() >= wanted_count as usize {
                return Ok(to_submit);
            }
            if end_us.is_some_and(|end_us| now_ns / 1000 >= end_us) {
                return if to_submit > 0 { Ok(to_submit) } else { Err(error_of(libc::ETIME)) };
            }
            if self.network.chance(self.interruption_percent) {
                // By a signal, or because the kernel has no memory for the wait.
                let error = if (now_ns / 1000).is_multiple_of(2) { libc::EINTR } else { libc::ENOMEM };
                return if to_submit > 0 { Ok(to_submit) } else { Err(error_of(error)) };
            }
            let next_us = next_ns.map(|ns| ns.div_ceil(1000));
            let until_us = [next_us, end_us].into_iter().flatten().min();
            let notice = self.notice.clone();
            simulation::wait_until(until_us, move || notice.is_given());
            now_ns = now();
        }
    }

    /// Starts a request. A request that can't block has ended when this returns.
    fn submit(&mut self, request: &Request, now_ns: u64) {
        let result = match request.operation {
            Operation::Send { fd, start, size } => {
                // SAFETY: `push` (1): the bytes are readable until the request is submitted.
                let bytes = unsafe { std::slice::from_raw_parts(start, size as usize) };
                self.send(fd, bytes, now_ns)
            }
            Operation::SendMessage { fd, message } => {
                // SAFETY: `push` (1): the message is valid until it is submitted.
                let bytes = unsafe { gather(message) };
                self.send(fd, &bytes, now_ns)
            }
            Operation::Receive { fd } => return self.arm(request, fd),
            Operation::AwaitRoom { fd } => return self.arm(request, fd),
            Operation::AwaitHangUp { fd } => return self.arm(request, fd),
            Operation::AwaitSignals { fd } => return self.arm(request, fd),
            Operation::Accept { fd } => return self.arm(request, fd),
            Operation::Cancel { user_data } => {
                let index = self.armed.iter().position(|armed| armed.user_data == user_data);
                match index.map(|index| self.armed.remove(index)) {
                    Some(armed) => {
                        self.post(Completion::new(armed.user_data, -libc::ECANCELED, false, None));
                        Ok(0)
                    }
                    None => Err(libc::ENOENT),
                }
            }
            Operation::CancelAll => {
                for armed in std::mem::take(&mut self.armed) {
                    self.post(Completion::new(armed.user_data, -libc::ECANCELED, false, None));
                }
                Ok(0)
            }
        };
        match result {
            Ok(_) if request.is_quiet => {}
            Ok(result) => self.post(Completion::new(request.user_data, result, false, None)),
            Err(error) => self.post(Completion::new(request.user_data, -error, false, None)),
        }
    }

    /// Sends without blocking. A short send of a quiet request counts as an error, so it posts its size.
    fn send(&mut self, fd: i32, bytes: &[u8], now_ns: u64) -> Result<i32, i32> {
        let Some(Watched::End(end)) = self.network.watched(fd) else { return Err(libc::EBADF) };
        match self.network.write(end, bytes, now_ns) {
            Ok(size) if size < bytes.len() => Err(-(size as i32)),
            Ok(size) => Ok(size as i32),
            Err(error) => Err(error.raw_os_error().unwrap_or(libc::EAGAIN)),
        }
    }

    /// Defers a request's completion.
    fn arm(&mut self, request: &Request, fd: i32) {
        let kind = match (self.network.watched(fd), request.operation) {
            (Some(Watched::End(end)), Operation::Receive { .. }) => Kind::Receive(end),
            (Some(Watched::End(end)), Operation::AwaitRoom { .. }) => Kind::Room(end),
            (Some(Watched::End(end)), Operation::AwaitHangUp { .. }) => Kind::HangUp(end),
            (Some(Watched::Event(event)), Operation::AwaitSignals { .. }) => Kind::Signals(event, 0),
            (Some(Watched::Listener(listener)), Operation::Accept { .. }) => Kind::Accept(listener),
            _ => return self.post(Completion::new(request.user_data, -libc::EBADF, false, None)),
        };
        if let Some(watched) = self.network.watched(fd) {
            self.network.watch(watched, &self.notice);
        }
        self.armed.push(Armed { user_data: request.user_data, kind });
    }

    /// Completes all requests that can complete. Returns when the next one can, unless other events intervene.
    fn progress(&mut self, now_ns: u64) -> Option<u64> {
        let mut next_ns = None;
        let mut index = 0;
        while index < self.armed.len() {
            let Armed { user_data, kind } = self.armed[index];
            let (stays, at) = match kind {
                Kind::Receive(end) => self.receive(user_data, end, now_ns),
                Kind::Room(end) => self.find_room(user_data, end, now_ns),
                Kind::HangUp(end) => self.find_hang_up(user_data, end, now_ns),
                Kind::Signals(event, seen) => (self.see_signals(index, event, seen), None),
                Kind::Accept(listener) => self.accept(user_data, listener, now_ns),
            };
            next_ns = [next_ns, at].into_iter().flatten().min();
            if stays {
                index += 1;
            } else {
                self.armed.remove(index);
            }
        }
        next_ns
    }

    /// Returns whether a receive stays armed, and when it has more data.
    fn receive(&mut self, user_data: u64, end: usize, now_ns: u64) -> (bool, Option<u64>) {
        loop {
            match self.network.read_readiness(end, now_ns) {
                Readiness::Now => {}
                Readiness::At(at) => return (true, Some(at)),
                Readiness::Unknown => return (true, None),
            }
            let Some(buffer) = self.buffers.as_mut().and_then(Buffers::first) else {
                self.post(Completion::new(user_data, -libc::ENOBUFS, false, None));
                return (false, None);
            };
            // SAFETY: the buffer is with the kernel: there are no other readers or writers until a completion
            // names it.
            let room = unsafe { std::slice::from_raw_parts_mut(buffer.start, buffer.size) };
            let result = match self.network.read(end, room, now_ns) {
                Ok(0) => Completion::new(user_data, 0, false, None),
                Ok(size) => {
                    self.buffers.iter_mut().for_each(Buffers::take_first);
                    let has_more = self.has_room();
                    Completion::new(user_data, size as i32, has_more, Some(buffer.id))
                }
                Err(error) => {
                    let error = error.raw_os_error().unwrap_or(libc::EAGAIN);
                    Completion::new(user_data, -error, false, None)
                }
            };
            self.post(result);
            if !result.has_more() {
                return (false, None);
            }
        }
    }

    /// Returns whether a poll for room stays armed, and when a connecting end is connected.
    fn find_room(&mut self, user_data: u64, end: usize, now_ns: u64) -> (bool, Option<u64>) {
        match self.network.room_readiness(end, now_ns) {
            Readiness::Now => {}
            Readiness::At(at) => return (true, Some(at)),
            Readiness::Unknown => return (true, None),
        }
        self.post(Completion::new(user_data, i32::from(libc::POLLOUT), false, None));
        (false, None)
    }

    /// Returns whether a poll for a hang-up stays armed, and when there is one.
    fn find_hang_up(&mut self, user_data: u64, end: usize, now_ns: u64) -> (bool, Option<u64>) {
        let (readiness, is_reset) = self.network.hang_up_readiness(end, now_ns);
        match readiness {
            Readiness::Now => {}
            Readiness::At(at) => return (true, Some(at)),
            Readiness::Unknown => return (true, None),
        }
        let result = libc::POLLRDHUP | if is_reset { libc::POLLERR | libc::POLLHUP } else { 0 };
        self.post(Completion::new(user_data, i32::from(result), false, None));
        (false, None)
    }

    fn see_signals(&mut self, index: usize, event: usize, seen: u64) -> bool {
        let count = self.network.signal_count(event);
        if count == seen {
            return true;
        }
        let has_more = self.has_room();
        let armed = &mut self.armed[index];
        armed.kind = Kind::Signals(event, count);
        let completion = Completion::new(armed.user_data, i32::from(libc::POLLIN), has_more, None);
        self.post(completion);
        has_more
    }

    fn accept(&mut self, user_data: u64, listener: usize, now_ns: u64) -> (bool, Option<u64>) {
        loop {
            match self.network.accept_readiness(listener, now_ns) {
                Readiness::Now => {}
                Readiness::At(at) => return (true, Some(at)),
                Readiness::Unknown => return (true, None),
            }
            let has_more = self.has_room();
            let completion = match self.network.accept(listener, now_ns) {
                Ok(number) => Completion::new(user_data, number, has_more, None),
                Err(error) => {
                    let error = error.raw_os_error().unwrap_or(libc::EINVAL);
                    Completion::new(user_data, -error, false, None)
                }
            };
            self.post(completion);
            if !completion.has_more() {
                return (false, None);
            }
        }
    }

    /// Whether the queue has room for a completion. Once some wait in the list, later ones queue behind them.
    fn has_room(&self) -> bool {
        self.overflow.is_empty() && self.completions.len() < self.completion_entries
    }

    fn post(&mut self, completion: Completion) {
        if self.has_room() {
            self.completions.push_back(completion);
        } else {
            self.overflow.push_back(completion);
        }
    }

    fn flush_overflow(&mut self) {
        while self.completions.len() < self.completion_entries {
            let Some(completion) = self.overflow.pop_front() else { return };
            self.completions.push_back(completion);
        }
    }
}

impl Buffers {
    /// The buffer that the next receive fills, if one is available.
    fn first(&mut self) -> Option<Buffer> {
        // SAFETY: `register_buffers` (1): the entries are alive and initialised.
        let tail = unsafe { BufRingEntry::tail(self.start.as_ptr()) };
        // SAFETY: it is an aligned u16, which the other side also writes atomically.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) }.load(Ordering::Acquire);
        if tail == self.head {
            return None;
        }
        // SAFETY: the masked index is below the number of entries.
        let entry = unsafe { self.start.add(usize::from(self.head & self.mask)) };
        // SAFETY: entries before the tail are written, by this thread.
        let entry = unsafe { entry.as_ref() };
        Some(Buffer { start: entry.addr() as *mut u8, size: entry.len() as usize, id: entry.bid() })
    }

    fn take_first(&mut self) {
        self.head = self.head.wrapping_add(1);
    }
}

/// The bytes of a message.
///
/// # Safety
///
/// 1. The message, its slices and their bytes are valid.
unsafe fn gather(message: *const libc::msghdr) -> Vec<u8> {
    // SAFETY: (1).
    let message = unsafe { &*message };
    // SAFETY: (1).
    let slices = unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    let mut bytes = Vec::new();
    for slice in slices {
        // SAFETY: (1).
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(slice.iov_base.cast(), slice.iov_len) });
    }
    bytes
}

fn now() -> u64 {
    simulation::monotonic_ns().unwrap_or(0)
}

fn error_of(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
