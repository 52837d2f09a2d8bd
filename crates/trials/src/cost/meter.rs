//! The cost of requests: CPU time of the server's busiest thread during their execution.
//!
//! Latency would vary with other load on the machine. The sum over all threads would include background
//! threads that free memory without delaying a reply. If the kernel provides no CPU times, latency is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::cases::Case;
use super::template::{Cut, Payload, expand};
use crate::reply::Reply;
use crate::server::{Program, Server};

/// Time after which a silent server counts as hung.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Read-only requests are repeated until they take about this long.
const SAMPLE_TIME_MIN: Duration = Duration::from_micros(1500);
const REPEATS_MAX: usize = 32;

/// Maximum wait until a server's threads sleep.
const SETTLING_TIME_MAX: Duration = Duration::from_millis(50);

/// A server under measurement.
pub struct Meter {
    server: Server,
}

/// The replies: the first error, if any.
struct Answer {
    first_error: Option<String>,
}

impl Meter {
    /// Starts a server.
    pub fn start(program: &Program) -> io::Result<Meter> {
        Ok(Meter { server: Server::start(program)? })
    }

    /// Returns the names of the read-only commands.
    pub fn readonly_commands(&self) -> io::Result<BTreeSet<String>> {
        let Reply::List(_, commands) = self.server.connect()?.call(&["COMMAND"])?.reply else {
            return Err(io::Error::other("COMMAND returns no list"));
        };
        let readonly = commands.into_iter().filter_map(|command| {
            let Reply::List(_, parts) = command else { return None };
            let [Reply::Bulk(name), _, Reply::List(_, flags), ..] = &parts[..] else { return None };
            let is = |flag: &Reply| matches!(flag, Reply::Simple(name) if name == b"readonly");
            flags.iter().any(is).then(|| String::from_utf8_lossy(name).into_owned())
        });
        Ok(readonly.collect())
    }

    /// Prepares a case and measures it several times, in milliseconds. `None` if the server does not
    /// implement the command.
    pub fn sample(
        &mut self,
        case: &Case,
        size: usize,
        rounds: usize,
        only_reads: bool,
    ) -> io::Result<Option<Vec<f64>>> {
        let mut link = Link::open(&self.server)?;
        link.exchange(&expand("FLUSHALL", size, Cut::Never))?;
        for text in case.set_up {
            if let Some(error) = link.exchange(&expand(text, size, Cut::Often))?.first_error {
                return if is_unknown(&error) { Ok(None) } else { Err(case.error(&error)) };
            }
        }
        let payload = expand(case.request, size, Cut::Never);
        let mut repeats = 1;
        let mut samples = Vec::new();
        if only_reads {
            let started = Instant::now();
            let answer = link.exchange(&payload)?;
            if let Some(error) = answer.first_error {
                return if is_unknown(&error) { Ok(None) } else { Err(case.error(&error)) };
            }
            let time = started.elapsed().as_nanos().max(1);
            repeats = (SAMPLE_TIME_MIN.as_nanos() / time).clamp(1, REPEATS_MAX as u128) as usize;
        }
        let repeated =
            Payload { bytes: payload.bytes.repeat(repeats), reply_count: payload.reply_count * repeats };
        for _ in 0..rounds {
            let (cost, answer) = self.cost_of(&mut link, &repeated)?;
            if let Some(error) = answer.first_error {
                return if is_unknown(&error) { Ok(None) } else { Err(case.error(&error)) };
            }
            samples.push(cost.as_secs_f64() * 1000.0 / repeats as f64);
        }
        Ok(Some(samples))
    }

    fn cost_of(&self, link: &mut Link, payload: &Payload) -> io::Result<(Duration, Answer)> {
        let ping = expand("PING", 0, Cut::Never);
        link.exchange(&ping)?;
        let (before, started) = (self.thread_times(), Instant::now());
        let answer = link.exchange(payload)?;
        let wall_time = started.elapsed();
        // Work after the reply belongs to the request, and a thread's time is accounted once it sleeps again.
        link.exchange(&ping)?;
        link.exchange(&ping)?;
        let after = self.thread_times();
        let spent = after.iter().map(|(id, time)| *time - before.get(id).copied().unwrap_or_default());
        Ok((spent.max().filter(|spent| *spent > Duration::ZERO).unwrap_or(wall_time), answer))
    }

    fn is_running(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.server.process_id())).into_iter().flatten();
        let mut stats = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        stats.any(|stat| is_running(&stat))
    }

    /// Returns the CPU time of each thread so far. The kernel accounts a thread's time when it sleeps, or at
    /// the next clock tick, so each thread is awaited until it sleeps. The wait is bounded, because a thread
    /// may have much to free.
    fn thread_times(&self) -> BTreeMap<String, Duration> {
        let deadline = Instant::now() + SETTLING_TIME_MAX;
        while self.is_running() && Instant::now() < deadline {
            thread::yield_now();
        }
        let tasks = fs::read_dir(format!("/proc/{}/task", self.server.process_id())).into_iter().flatten();
        let time = |entry: fs::DirEntry| {
            let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
            let nanoseconds = text.split(' ').next()?.parse().ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), Duration::from_nanos(nanoseconds)))
        };
        tasks.flatten().filter_map(time).collect()
    }
}

/// Whether a thread runs or waits for a processor, by its `stat`: the state follows the name, which is in
/// parentheses.
fn is_running(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// Whether an error reports an unimplemented command or option.
fn is_unknown(error: &str) -> bool {
    ["unknown command", "unknown subcommand", "syntax error"].iter().any(|text| error.contains(text))
}

/// A connection that counts replies without keeping them.
struct Link {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Received bytes that are not counted yet.
    pending: Vec<u8>,
}

impl Link {
    fn open(server: &Server) -> io::Result<Link> {
        let stream = TcpStream::connect(server.address())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Link { stream, buffer: vec![0; 256 * 1024], pending: Vec::new() })
    }

    /// Sends all requests at once, while receiving the replies.
    fn exchange(&mut self, payload: &Payload) -> io::Result<Answer> {
        let mut sender = self.stream.try_clone()?;
        thread::scope(|scope| {
            if payload.bytes.len() <= 16 * 1024 {
                sender.write_all(&payload.bytes)?;
                return self.receive(payload.reply_count);
            }
            let sent = scope.spawn(move || sender.write_all(&payload.bytes));
            let answer = self.receive(payload.reply_count);
            sent.join().expect("writing does not panic")?;
            answer
        })
    }

    fn receive(&mut self, reply_count: usize) -> io::Result<Answer> {
        let mut counter = Counter { left: reply_count, skipped: 0, first_error: None };
        loop {
            let used = counter.count(&self.pending);
            self.pending.drain(..used);
            if counter.is_done() {
                return Ok(Answer { first_error: counter.first_error });
            }
            match self.stream.read(&mut self.buffer)? {
                0 => return Err(io::Error::other("the server closed the connection")),
                len => self.pending.extend_from_slice(&self.buffer[..len]),
            }
        }
    }
}

/// Counts RESP2 replies in pieces of any size.
struct Counter {
    /// Remaining replies and parts of replies.
    left: usize,
    /// Remaining bytes of a string.
    skipped: usize,
    first_error: Option<String>,
}

impl Counter {
    /// Whether all replies are complete.
    fn is_done(&self) -> bool {
        self.left == 0 && self.skipped == 0
    }

    /// Returns the number of consumed bytes.
    fn count(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let here = self.skipped.min(bytes.len() - at);
            self.skipped -= here;
            at += here;
            if self.skipped > 0 || self.left == 0 {
                return at;
            }
            let Some(len) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") else { return at };
            let line = &bytes[at..at + len];
            at += len + 2;
            self.left -= 1;
            let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default());
            let number = || text.parse::<usize>().unwrap_or(0);
            match line.first() {
                Some(b'*') => self.left += number(),
                Some(b'$') if &*text != "-1" => self.skipped = number() + 2,
                Some(b'-') => _ = self.first_error.get_or_insert(text.into_owned()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runnable_thread_counts_as_running() {
        let states = ["1 (a) R) S 1 2", "1 (broadloom-io-0) R 1 2", "1 (x) D 1 R", ""];
        assert_eq!(states.map(is_running), [false, true, false, false]);
    }

    #[test]
    fn a_string_is_complete_with_its_last_byte() {
        let mut counter = Counter { left: 1, skipped: 0, first_error: None };
        for (piece, is_done) in [("$3\r\n", false), ("ab", false), ("c\r", false), ("\n", true)] {
            assert_eq!(counter.count(piece.as_bytes()), piece.len());
            assert_eq!(counter.is_done(), is_done, "{piece:?}");
        }
    }

    #[test]
    fn replies_are_counted_in_any_pieces() {
        let replies = b"*2\r\n$3\r\nabc\r\n*1\r\n:7\r\n$-1\r\n*-1\r\n*0\r\n-ERR no\r\n$0\r\n\r\n+OK\r\n";
        for piece_len in 1..replies.len() {
            let mut counter = Counter { left: 7, skipped: 0, first_error: None };
            let mut pending: Vec<u8> = Vec::new();
            for piece in replies.chunks(piece_len) {
                assert!(!counter.is_done());
                pending.extend_from_slice(piece);
                let used = counter.count(&pending);
                pending.drain(..used);
            }
            assert!(counter.is_done() && pending.is_empty());
            assert_eq!(counter.first_error.as_deref(), Some("ERR no"));
        }
    }
}
