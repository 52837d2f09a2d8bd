//! The echo server: replies `+OK` to every request without reading keys, so that only the cost of moving bytes
//! remains. It is the reference for Broadloom's performance.
//!
//! Start reading at [`run_echo`], then [`RequestCounter`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use crate::{
    BackendChoice, CloseMode, ConnectionId, Event, Listener, ListenerToken, Reactor, ReactorError,
    ReactorOptions, Socket, Waker,
};
use os::process::{UsageOf, usage};
use os::threads::set_thread_name;

/// Interval at which a thread checks whether to stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

const REPLY: &[u8] = b"+OK\r\n";

/// Number of replies copied at a time.
const REPLY_BATCH: usize = 128;

/// Statistics of an echo server run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoReport {
    /// Number of requests answered.
    pub request_count: u64,
    /// Processor time of all server threads.
    pub cpu_time: Duration,
}

/// Serves connections of `listener` on `thread_count` threads, spread evenly, until `stop` is set.
pub fn run_echo(
    listener: Listener,
    thread_count: usize,
    choice: BackendChoice,
    stop: &AtomicBool,
) -> Result<EchoReport, ReactorError> {
    assert!(thread_count > 0, "an echo server needs a thread");
    let total = AtomicU64::new(0);
    let cpu_ns = AtomicU64::new(0);
    let mut report = Ok(());
    std::thread::scope(|scope| {
        let mut helpers = Vec::new();
        let mut threads = Vec::new();
        for index in 1..thread_count {
            let (sender, inbox) = mpsc::channel();
            let waker = std::sync::Arc::new(OnceLock::new());
            helpers.push(Helper { sender, waker: waker.clone() });
            let (total, cpu_ns) = (&total, &cpu_ns);
            threads.push(scope.spawn(move || {
                set_thread_name(&format!("echo-{index}"));
                let (reactor, own_waker) = Reactor::new(choice, ReactorOptions::default())?;
                // Set only here.
                let _ = waker.set(own_waker);
                let server = EchoThread::new(reactor, Some(inbox), Vec::new());
                server.run(stop, total, cpu_ns)
            }));
        }
        report = Reactor::new(choice, ReactorOptions::default()).and_then(|(mut reactor, _)| {
            reactor.listen(listener, ListenerToken(0))?;
            EchoThread::new(reactor, None, helpers).run(stop, &total, &cpu_ns)
        });
        if report.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        for thread in threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => report = Err(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    report.map(|()| EchoReport {
        request_count: total.load(Ordering::Relaxed),
        cpu_time: Duration::from_nanos(cpu_ns.load(Ordering::Relaxed)),
    })
}

/// Another thread that serves connections.
struct Helper {
    sender: mpsc::Sender<Socket>,
    waker: std::sync::Arc<OnceLock<Waker>>,
}

struct EchoThread {
    reactor: Reactor,
    inbox: Option<mpsc::Receiver<Socket>>,
    helpers: Vec<Helper>,
    accepted_count: usize,
    /// The state of each connection; its index is the token.
    counters: Vec<RequestCounter>,
    free_tokens: Vec<u64>,
    spare_buffers: Vec<Vec<u8>>,
    replies: Vec<u8>,
    request_count: u64,
}

impl EchoThread {
    fn new(reactor: Reactor, inbox: Option<mpsc::Receiver<Socket>>, helpers: Vec<Helper>) -> Self {
        Self {
            reactor,
            inbox,
            helpers,
            accepted_count: 0,
            counters: Vec::new(),
            free_tokens: Vec::new(),
            spare_buffers: Vec::new(),
            replies: REPLY.repeat(REPLY_BATCH),
            request_count: 0,
        }
    }

    fn run(mut self, stop: &AtomicBool, total: &AtomicU64, cpu_ns: &AtomicU64) -> Result<(), ReactorError> {
        let before = usage(UsageOf::Thread).total();
        while !stop.load(Ordering::Relaxed) {
            self.reactor.wait(Some(STOP_CHECK))?;
            while let Some(event) = self.reactor.next_event() {
                self.handle(event);
            }
            for socket in self.inbox.iter().flat_map(mpsc::Receiver::try_iter).collect::<Vec<_>>() {
                self.adopt(socket);
            }
        }
        total.fetch_add(self.request_count, Ordering::Relaxed);
        let used = usage(UsageOf::Thread).total() - before;
        cpu_ns.fetch_add(used.as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Received { connection, token, data } => {
                let count = self.counters[token as usize].count(&data);
                drop(data);
                self.answer(connection, count);
            }
            Event::Sent { buffer, .. } => self.spare_buffers.push(buffer),
            Event::Accepted { socket, .. } => self.place(socket),
            Event::Eof { connection, .. } => self.reactor.close(connection, CloseMode::AfterSends),
            Event::Closed { token, .. } => self.free_tokens.push(token),
            Event::AcceptError { .. }
            | Event::Connected { .. }
            | Event::HungUp { .. }
            | Event::Detached { .. }
            | Event::Woken => {}
        }
    }

    fn answer(&mut self, connection: ConnectionId, count: usize) {
        if count == 0 {
            return;
        }
        self.request_count += count as u64;
        let mut buffer = self.spare_buffers.pop().unwrap_or_default();
        let mut left = count;
        while left > 0 {
            let batch = left.min(REPLY_BATCH);
            buffer.extend_from_slice(&self.replies[..batch * REPLY.len()]);
            left -= batch;
        }
        self.reactor.send(connection, buffer);
    }

    /// Assigns a new connection to the threads in turn.
    fn place(&mut self, socket: Socket) {
        let turn = self.accepted_count % (self.helpers.len() + 1);
        self.accepted_count += 1;
        let Some(helper) = turn.checked_sub(1).and_then(|index| self.helpers.get(index)) else {
            return self.adopt(socket);
        };
        // Fails if the helper has ended, which closes the connection; the server is stopping anyway.
        let _ = helper.sender.send(socket);
        if let Some(waker) = helper.waker.get() {
            waker.wake();
        }
    }

    fn adopt(&mut self, socket: Socket) {
        // Fails on unix sockets, which do not delay segments.
        let _ = socket.set_nodelay();
        let token = self.free_tokens.pop().unwrap_or(self.counters.len() as u64);
        if token as usize == self.counters.len() {
            self.counters.push(RequestCounter::default());
        }
        self.counters[token as usize] = RequestCounter::default();
        self.reactor.adopt(socket, token);
    }
}

/// Counts the requests that end in a RESP stream, skipping payloads. Keeps its position in a partial request
/// between calls. The input is assumed valid: the echo server reports no errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestCounter {
    state: State,
    /// Remaining arguments of the current request.
    arguments_left: u64,
    /// The number being parsed.
    number: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first byte of a request.
    #[default]
    Start,
    /// In the number after `*`, up to its line feed.
    Count,
    /// Before the `$` of an argument.
    Argument,
    /// In the number after `$`, up to its line feed.
    Length,
    /// In a payload and its line end, of which `number` bytes remain.
    Payload,
    /// In an inline request.
    Inline,
}

impl RequestCounter {
    /// Returns the number of requests that end in `bytes`.
    pub fn count(&mut self, bytes: &[u8]) -> usize {
        let mut ended_count = 0;
        let mut at = 0;
        if self.state == State::Start {
            (ended_count, at) = count_whole(bytes);
        }
        while at < bytes.len() {
            let byte = bytes[at];
            match self.state {
                State::Start if byte == b'*' => self.begin_number(State::Count),
                State::Start | State::Inline => {
                    self.state = if byte == b'\n' { State::Start } else { State::Inline };
                    ended_count += usize::from(byte == b'\n');
                }
                State::Argument => self.begin_number(State::Length),
                State::Count | State::Length => {
                    if byte.is_ascii_digit() {
                        self.number = self.number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                    } else if byte == b'\n' {
                        ended_count += usize::from(self.end_number());
                    }
                }
                State::Payload => {
                    let size = self.number.min((bytes.len() - at) as u64);
                    self.number -= size;
                    at += size as usize;
                    if self.number == 0 {
                        self.arguments_left -= 1;
                        ended_count += usize::from(self.next_argument());
                    }
                    continue;
                }
            }
            at += 1;
        }
        ended_count
    }

    fn begin_number(&mut self, state: State) {
        self.state = state;
        self.number = 0;
    }

    /// Ends a number. Returns whether this also ends a request without arguments.
    fn end_number(&mut self) -> bool {
        if self.state == State::Length {
            self.state = State::Payload;
            self.number = self.number.wrapping_add(2);
            return false;
        }
        self.arguments_left = self.number;
        self.next_argument()
    }

    fn next_argument(&mut self) -> bool {
        let is_over = self.arguments_left == 0;
        self.state = if is_over { State::Start } else { State::Argument };
        is_over
    }
}

/// The fast path for requests that lie entirely in `bytes`: their number, and where the last one ends.
fn count_whole(bytes: &[u8]) -> (usize, usize) {
    let (mut count, mut end) = (0, 0);
    while let Some(next) = hop(bytes, end) {
        count += 1;
        end = next;
    }
    (count, end)
}

/// The end of the request at `start`, if it is a complete multibulk request.
#[inline]
fn hop(bytes: &[u8], start: usize) -> Option<usize> {
    let (argument_count, mut at) = hop_number(bytes, start, b'*')?;
    for _ in 0..argument_count {
        let (size, after) = hop_number(bytes, at, b'$')?;
        at = after.checked_add(size)?.checked_add(2)?;
    }
    (at <= bytes.len()).then_some(at)
}

/// The number between `mark` and a line end, and the offset after it.
#[inline]
fn hop_number(bytes: &[u8], start: usize, mark: u8) -> Option<(usize, usize)> {
    let line = bytes.get(start..)?;
    if *line.first()? != mark {
        return None;
    }
    let mut number = 0_usize;
    for (index, &byte) in line[1..].iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (byte == b'\r').then_some((number, start + index + 3));
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{RequestCounter, run_echo};
    use crate::{BackendChoice, Listener, ReusePort};

    const REQUESTS: &[u8] =
        b"*1\r\n$4\r\nPING\r\nPING\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\n*1\r\n$4\r\nPING\r\n*0\r\nPING x\n\
        *2\r\n$3\r\nGET\r\n$16\r\n0123456789abcdef\r\n";

    #[test]
    fn counts_at_any_split() {
        for first in 0..REQUESTS.len() {
            for second in first..REQUESTS.len() {
                let mut counter = RequestCounter::default();
                let parts = [&REQUESTS[..first], &REQUESTS[first..second], &REQUESTS[second..]];
                let count: usize = parts.iter().map(|part| counter.count(part)).sum();
                assert_eq!(count, 6, "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn answers_each_request_on_several_threads() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 511, ReusePort::No).unwrap();
        let address = listener.local_address().unwrap().tcp().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| run_echo(listener, 2, BackendChoice::Auto, &stop));
            for _ in 0..5 {
                let mut client = TcpStream::connect(address).unwrap();
                client.write_all(&REQUESTS.repeat(100)).unwrap();
                let mut replies = vec![0; 600 * 5];
                client.read_exact(&mut replies).unwrap();
                assert_eq!(replies, b"+OK\r\n".repeat(600));
            }
            stop.store(true, Ordering::Relaxed);
            assert_eq!(server.join().unwrap().unwrap().request_count, 3_000);
        });
    }
}
