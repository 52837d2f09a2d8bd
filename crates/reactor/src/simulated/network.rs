//! Sockets, listeners and descriptors: the kernel's objects, and the bytes in flight.
//!
//! A connection has two ends. Data written at one end goes into the other end's `flight` with its arrival time,
//! and becomes readable there at that time.

mod connecting;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sync::simulation::{self, Random};

use super::settings::Settings;
use super::{Descriptor, Notice};
use crate::ReactorOptions;

/// The network of a simulation, and the descriptors of its process.
pub struct Network {
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) random: Random,
    /// Descriptors by number; `None` if free.
    descriptors: Vec<Option<Watched>>,
    ends: Vec<End>,
    listeners: Vec<ListenerState>,
    events: Vec<EventState>,
    next_client_port: u16,
}

/// The object of a descriptor. Indices are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    End(usize),
    Listener(usize),
    Event(usize),
    Ring,
}

/// One end of a connection.
struct End {
    address: SocketAddr,
    peer: usize,
    /// Data in flight to this end, by arrival time in nanoseconds.
    flight: VecDeque<(u64, Vec<u8>)>,
    readable: VecDeque<u8>,
    flight_size: usize,
    /// Arrival time of the peer's end of file.
    fin_at: Option<u64>,
    reset_at: Option<u64>,
    /// When the end is connected, or has failed to connect; `None`: it was accepted, or is that of a client of the simulation.
    connected_at: Option<u64>,
    /// The error with which it fails to connect.
    connect_error: Option<i32>,
    /// Whether the reset has been reported: later writes fail with a broken pipe.
    has_seen_reset: bool,
    is_closed: bool,
    is_write_shut: bool,
    notice: Option<Notice>,
}

struct ListenerState {
    address: SocketAddr,
    handle_count: usize,
    is_listening: bool,
    /// The server's ends of new connections, by arrival time.
    queue: VecDeque<(u64, usize)>,
    notices: Vec<Notice>,
}

struct EventState {
    signal_count: u64,
    notice: Option<Notice>,
}

/// The readiness of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Now,
    /// Ready at this nanosecond, unless other events intervene.
    At(u64),
    Unknown,
}

/// Maximum number of connections waiting to be accepted.
const BACKLOG: usize = 128;

impl Network {
    /// Creates a network for a simulation with this seed.
    #[must_use]
    pub fn new(seed: u64, settings: Settings) -> Arc<Self> {
        let state = State {
            settings,
            random: Random::new(seed),
            // The standard streams.
            descriptors: vec![Some(Watched::Ring); 3],
            ends: Vec::new(),
            listeners: Vec::new(),
            events: Vec::new(),
            next_client_port: 40_000,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// The network of the simulation that the calling thread belongs to.
    #[must_use]
    pub fn current() -> Option<Arc<Self>> {
        simulation::extension()
    }

    /// Changes the maximum number of descriptors of the process; existing ones stay open.
    pub fn limit_descriptors(&self, count_max: usize) {
        self.lock().settings.descriptor_count_max = count_max;
    }

    /// The maximum number of descriptors of the process.
    #[must_use]
    pub fn descriptor_limit(&self) -> usize {
        self.lock().settings.descriptor_count_max
    }

    /// The number of descriptors in use.
    #[must_use]
    pub fn descriptor_count(&self) -> usize {
        self.lock().descriptors.iter().flatten().count()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> Settings {
        self.lock().settings.clone()
    }

    /// Applies the settings to the options of a reactor.
    pub(crate) fn adjust(&self, options: ReactorOptions) -> ReactorOptions {
        let settings = self.settings();
        ReactorOptions {
            recv_buffer_size: settings.receive_buffer_size,
            recv_buffer_count: settings.receive_buffer_count,
            ..options
        }
    }

    /// Returns true with a probability of `percent`.
    pub(crate) fn chance(&self, percent: u64) -> bool {
        percent > 0 && self.lock().random.chance(percent)
    }

    /// Listens on an address.
    pub(crate) fn listen(self: &Arc<Self>, address: SocketAddr) -> io::Result<Descriptor> {
        let mut state = self.lock();
        if state.listener_of(address).is_some() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listener = state.listeners.len();
        let number = state.open(Watched::Listener(listener))?;
        state.listeners.push(ListenerState {
            address,
            handle_count: 1,
            is_listening: true,
            queue: VecDeque::new(),
            notices: Vec::new(),
        });
        Ok(Descriptor::new(Arc::clone(self), number))
    }

    /// Creates an eventfd.
    pub(crate) fn event(self: &Arc<Self>) -> io::Result<Descriptor> {
        let mut state = self.lock();
        let event = state.events.len();
        let number = state.open(Watched::Event(event))?;
        state.events.push(EventState { signal_count: 0, notice: None });
        Ok(Descriptor::new(Arc::clone(self), number))
    }

    /// Creates a descriptor for a ring.
    pub(crate) fn ring(self: &Arc<Self>) -> io::Result<Descriptor> {
        let number = self.lock().open(Watched::Ring)?;
        Ok(Descriptor::new(Arc::clone(self), number))
    }

    /// The object of a descriptor.
    pub(crate) fn watched(&self, number: i32) -> Option<Watched> {
        self.lock().watched(number)
    }

    /// Starts recording changes of this object in `notice`.
    pub(crate) fn watch(&self, watched: Watched, notice: &Notice) {
        let mut state = self.lock();
        match watched {
            Watched::End(end) => state.ends[end].notice = Some(notice.clone()),
            Watched::Listener(listener) => state.listeners[listener].notices.push(notice.clone()),
            Watched::Event(event) => state.events[event].notice = Some(notice.clone()),
            Watched::Ring => {}
        }
    }

    /// Reads arrived data; `WouldBlock` if there is none.
    pub(crate) fn read(&self, end: usize, buffer: &mut [u8], now_ns: u64) -> io::Result<usize> {
        self.lock().read(end, buffer, now_ns)
    }

    /// When the next read completes.
    pub(crate) fn read_readiness(&self, end: usize, now_ns: u64) -> Readiness {
        self.lock().ends[end].read_readiness(now_ns)
    }

    /// When the end is hung up or reset, and whether it is reset.
    pub(crate) fn hang_up_readiness(&self, end: usize, now_ns: u64) -> (Readiness, bool) {
        let state = self.lock();
        let end = &state.ends[end];
        let is_reset = end.reset_at.is_some_and(|at| at <= now_ns);
        let readiness = match [end.fin_at, end.reset_at].into_iter().flatten().min() {
            Some(at) if at <= now_ns => Readiness::Now,
            Some(at) => Readiness::At(at),
            None => Readiness::Unknown,
        };
        (readiness, is_reset)
    }

    /// Writes as much as there is room for; `WouldBlock` if there is none.
    pub(crate) fn write(&self, end: usize, bytes: &[u8], now_ns: u64) -> io::Result<usize> {
        self.lock().write(end, bytes, now_ns)
    }

    /// When a write does not block, or a connecting end is connected or has failed.
    pub(crate) fn room_readiness(&self, end: usize, now_ns: u64) -> Readiness {
        let mut state = self.lock();
        if let Some(at) = state.ends[end].connected_at.filter(|at| *at > now_ns) {
            return Readiness::At(at);
        }
        state.ends[end].arrive(now_ns);
        let one = &state.ends[end];
        let has_ended = one.connect_error.is_some() || one.is_write_shut;
        if has_ended || one.reset_at.is_some_and(|at| at <= now_ns) || state.room(end) > 0 {
            Readiness::Now
        } else {
            Readiness::Unknown
        }
    }

    /// Accepts the next connection that has arrived, with a new descriptor; `WouldBlock` if there is none.
    pub(crate) fn accept(&self, listener: usize, now_ns: u64) -> io::Result<i32> {
        let mut state = self.lock();
        if !state.listeners[listener].is_listening {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match state.listeners[listener].queue.front() {
            Some(&(at, end)) if at <= now_ns => {
                let number = state.open(Watched::End(end))?;
                state.listeners[listener].queue.pop_front();
                Ok(number)
            }
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(crate) fn accept_readiness(&self, listener: usize, now_ns: u64) -> Readiness {
        let state = self.lock();
        let listener = &state.listeners[listener];
        match listener.queue.front() {
            _ if !listener.is_listening => Readiness::Now,
            Some(&(at, _)) if at <= now_ns => Readiness::Now,
            Some(&(at, _)) => Readiness::At(at),
            None => Readiness::Unknown,
        }
    }

    /// Adds one to an event.
    pub(crate) fn signal(&self, event: usize) {
        let mut state = self.lock();
        let event = &mut state.events[event];
        event.signal_count += 1;
        give(event.notice.as_ref());
    }

    /// The number of signals so far.
    pub(crate) fn signal_count(&self, event: usize) -> u64 {
        self.lock().events[event].signal_count
    }

    /// Ends the writing direction.
    pub(super) fn shut_write(&self, end: usize, now_ns: u64) {
        self.lock().shut_write(end, now_ns);
    }

    /// Closes an end. If bytes are unread, or if `by_force`, the peer is reset.
    pub(super) fn close_end(&self, end: usize, by_force: bool, now_ns: u64) {
        self.lock().close_end(end, by_force, now_ns);
    }

    /// Closes a descriptor.
    pub(super) fn close(&self, number: i32, now_ns: u64) {
        let mut state = self.lock();
        let Some(watched) = state.descriptors.get_mut(number as usize).and_then(Option::take) else { return };
        match watched {
            Watched::End(end) => state.close_end(end, false, now_ns),
            Watched::Listener(listener) => {
                state.listeners[listener].handle_count -= 1;
                if state.listeners[listener].handle_count == 0 {
                    state.stop_listening(listener, now_ns);
                }
            }
            Watched::Event(_) | Watched::Ring => {}
        }
    }

    pub(super) fn shut_down(&self, number: i32, how: libc::c_int, now_ns: u64) -> io::Result<()> {
        let mut state = self.lock();
        match state.watched(number) {
            Some(Watched::End(end)) if how == libc::SHUT_WR => {
                if state.ends[end].reset_at.is_some_and(|at| at <= now_ns) {
                    return Err(io::ErrorKind::NotConnected.into());
                }
                state.shut_write(end, now_ns);
                Ok(())
            }
            Some(Watched::Listener(listener)) => {
                state.stop_listening(listener, now_ns);
                Ok(())
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// The error of connecting, or the reset that has arrived, unless it was reported before.
    pub(super) fn take_error(&self, number: i32, now_ns: u64) -> Option<io::Error> {
        let mut state = self.lock();
        let Some(Watched::End(end)) = state.watched(number) else { return None };
        let end = &mut state.ends[end];
        if end.connected_at.is_none_or(|at| at <= now_ns)
            && let Some(error) = end.connect_error.take()
        {
            return Some(io::Error::from_raw_os_error(error));
        }
        let is_reset = end.reset_at.is_some_and(|at| at <= now_ns);
        let is_new = is_reset && !std::mem::replace(&mut end.has_seen_reset, true);
        is_new.then(|| io::Error::from_raw_os_error(libc::ECONNRESET))
    }

    pub(super) fn is_listening(&self, number: i32) -> bool {
        let state = self.lock();
        matches!(state.watched(number), Some(Watched::Listener(listener)) if state.listeners[listener].is_listening)
    }

    /// Creates another descriptor of the same object.
    pub(super) fn duplicate(&self, number: i32) -> io::Result<i32> {
        let mut state = self.lock();
        let watched = state.watched(number).ok_or(io::ErrorKind::InvalidInput)?;
        let copy = state.open(watched)?;
        if let Watched::Listener(listener) = watched {
            state.listeners[listener].handle_count += 1;
        }
        Ok(copy)
    }

    /// The local address of a connection or listener, and the peer's address.
    pub(super) fn addresses(&self, number: i32) -> Option<(SocketAddr, Option<SocketAddr>)> {
        let state = self.lock();
        match state.watched(number)? {
            Watched::End(end) => {
                let end = &state.ends[end];
                Some((end.address, Some(state.ends[end.peer].address)))
            }
            Watched::Listener(listener) => Some((state.listeners[listener].address, None)),
            Watched::Event(_) | Watched::Ring => None,
        }
    }
}

impl State {
    fn watched(&self, number: i32) -> Option<Watched> {
        self.descriptors.get(usize::try_from(number).ok()?).copied().flatten()
    }

    /// Creates a descriptor with the lowest free number, as the kernel does.
    fn open(&mut self, watched: Watched) -> io::Result<i32> {
        let number = self.descriptors.iter().position(Option::is_none).unwrap_or(self.descriptors.len());
        if number >= self.settings.descriptor_count_max {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        if number == self.descriptors.len() {
            self.descriptors.push(None);
        }
        self.descriptors[number] = Some(watched);
        Ok(number as i32)
    }

    fn listener_of(&self, address: SocketAddr) -> Option<usize> {
        self.listeners.iter().position(|listener| listener.address == address && listener.is_listening)
    }

    /// The arrival time of data sent now.
    fn arrival(&mut self, now_ns: u64) -> u64 {
        now_ns + (1 + self.random.below(self.settings.delay_us_max)) * 1000
    }

    /// The arrival time at `end` of data sent now, after all data in flight to it.
    fn arrival_at(&mut self, end: usize, now_ns: u64) -> u64 {
        let at = self.arrival(now_ns);
        let end = &self.ends[end];
        at.max(end.flight.back().map_or(0, |(at, _)| *at)).max(end.fin_at.unwrap_or(0))
    }

    /// How many bytes an end may write.
    fn room(&self, end: usize) -> usize {
        let peer = &self.ends[self.ends[end].peer];
        self.settings.buffer_size.saturating_sub(peer.flight_size + peer.readable.len())
    }

    fn read(&mut self, end: usize, buffer: &mut [u8], now_ns: u64) -> io::Result<usize> {
        let is_cut = self.random.chance(self.settings.cut_percent);
        let one = &mut self.ends[end];
        one.arrive(now_ns);
        if !one.readable.is_empty() {
            let mut size = buffer.len().min(one.readable.len());
            if is_cut && size > 1 {
                size = 1 + self.random.below(size as u64) as usize;
            }
            buffer.iter_mut().zip(one.readable.drain(..size)).for_each(|(to, from)| *to = from);
            let peer = one.peer;
            give(self.ends[peer].notice.as_ref());
            return Ok(size);
        }
        if one.reset_at.is_some_and(|at| at <= now_ns) {
            one.has_seen_reset = true;
            return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
        }
        if one.fin_at.is_some_and(|at| at <= now_ns) {
            return Ok(0);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn write(&mut self, end: usize, bytes: &[u8], now_ns: u64) -> io::Result<usize> {
        let one = &mut self.ends[end];
        if one.reset_at.is_some_and(|at| at <= now_ns) {
            let error = if one.has_seen_reset { libc::EPIPE } else { libc::ECONNRESET };
            one.has_seen_reset = true;
            return Err(io::Error::from_raw_os_error(error));
        }
        if one.is_write_shut {
            return Err(io::Error::from_raw_os_error(libc::EPIPE));
        }
        let peer = one.peer;
        if self.ends[peer].is_closed {
            // The peer responds with a reset.
            let at = self.arrival_at(end, now_ns);
            self.reset(end, at);
            return Ok(bytes.len());
        }
        let mut size = bytes.len().min(self.room(end));
        if size == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if size > 1 && self.random.chance(self.settings.short_write_percent) {
            size = 1 + self.random.below(size as u64) as usize;
        }
        let mut rest = &bytes[..size];
        while !rest.is_empty() {
            let is_cut = rest.len() > 1 && self.random.chance(self.settings.cut_percent);
            let length =
                if is_cut { 1 + self.random.below(rest.len() as u64 - 1) as usize } else { rest.len() };
            let (packet, others) = rest.split_at(length);
            let at = self.arrival_at(peer, now_ns);
            let to = &mut self.ends[peer];
            to.flight.push_back((at, packet.to_vec()));
            to.flight_size += packet.len();
            rest = others;
        }
        give(self.ends[peer].notice.as_ref());
        Ok(size)
    }

    fn shut_write(&mut self, end: usize, now_ns: u64) {
        if std::mem::replace(&mut self.ends[end].is_write_shut, true) {
            return;
        }
        let peer = self.ends[end].peer;
        let at = self.arrival_at(peer, now_ns);
        self.ends[peer].fin_at = Some(at);
        give(self.ends[peer].notice.as_ref());
    }

    fn close_end(&mut self, end: usize, by_force: bool, now_ns: u64) {
        if std::mem::replace(&mut self.ends[end].is_closed, true) {
            return;
        }
        let has_unread = !self.ends[end].readable.is_empty() || !self.ends[end].flight.is_empty();
        let peer = self.ends[end].peer;
        if by_force || has_unread {
            let at = self.arrival_at(peer, now_ns);
            self.reset(peer, at);
        } else {
            self.shut_write(end, now_ns);
        }
        // A waiter for room is notified that none will become available.
        give(self.ends[peer].notice.as_ref());
        let one = &mut self.ends[end];
        (one.readable, one.flight, one.flight_size) = (VecDeque::new(), VecDeque::new(), 0);
    }

    fn reset(&mut self, end: usize, at: u64) {
        let one = &mut self.ends[end];
        one.reset_at = Some(one.reset_at.map_or(at, |before| before.min(at)));
        give(one.notice.as_ref());
    }

    fn stop_listening(&mut self, listener: usize, now_ns: u64) {
        self.listeners[listener].is_listening = false;
        let queue = std::mem::take(&mut self.listeners[listener].queue);
        for (_, end) in queue {
            self.close_end(end, true, now_ns);
        }
        self.listeners[listener].notices.iter().for_each(Notice::give);
    }
}

impl End {
    fn new(address: SocketAddr, peer: usize) -> Self {
        Self {
            address,
            peer,
            flight: VecDeque::new(),
            readable: VecDeque::new(),
            flight_size: 0,
            fin_at: None,
            reset_at: None,
            connected_at: None,
            connect_error: None,
            has_seen_reset: false,
            is_closed: false,
            is_write_shut: false,
            notice: None,
        }
    }

    /// Makes arrived data readable.
    fn arrive(&mut self, now_ns: u64) {
        while let Some((_, packet)) = self.flight.pop_front_if(|(at, _)| *at <= now_ns) {
            self.flight_size -= packet.len();
            self.readable.extend(packet);
        }
    }

    fn read_readiness(&self, now_ns: u64) -> Readiness {
        let first = self.flight.front().map(|(at, _)| *at);
        let at = [first, self.fin_at, self.reset_at].into_iter().flatten().min();
        match at {
            _ if !self.readable.is_empty() => Readiness::Now,
            Some(at) if at <= now_ns => Readiness::Now,
            Some(at) => Readiness::At(at),
            None => Readiness::Unknown,
        }
    }
}

fn give(notice: Option<&Notice>) {
    if let Some(notice) = notice {
        notice.give();
    }
}
