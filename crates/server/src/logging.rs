//! The log: lines as Redis writes them, `pid:M 21 Nov 2026 03:28:00.123 * text`, or as logfmt or JSON, to
//! standard output or a file, and to the system log if configured.
//!
//! Levels of the `log` facade map to Redis's: warnings and errors are `#`, info is notice `*`, debug is verbose
//! `-`, trace is debug `.`. The file is opened for each line, so that it may be moved away at any time.
//!
//! A separate thread writes (`logging/queue.rs`). [`flush`] waits for it at the end of the process. While a
//! fault is being reported, the reporting thread writes the queued lines.
//!
//! Clients that read the log after a reply find the lines that their request has logged: the worker keeps the reply
//! until they are written, and serves other clients meanwhile ([`take_last_line`], [`request_wake`]).

mod queue;
pub mod stacks;
mod syslog;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use base::Lsn;
use base::limits::THREAD_COUNT_MAX;
use chrono::{DateTime, Local};
use config::{Config, LogFormat, LogLevel, LogTimestampFormat};
use log::{Level, LevelFilter, Log, Metadata, Record};
use sync::DurableLsn;

use self::queue::{Batch, Entry, Queue};
use self::syslog::Syslog;

/// How long the lines of a report wait for a line being written: a thread that a fault stopped within a write
/// never releases it.
const WRITE_LOCK_TIME: Duration = Duration::from_millis(500);

/// How long the end of the process waits for the last lines.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// The process's log.
struct Logger {
    output: LogOutput,
    form: ArcSwap<LineForm>,
    queue: Queue,
    /// How many lines are written, and the workers that wait for more.
    written: DurableLsn,
    /// Wakes a worker.
    wake: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
    /// Whether a thread writes the queue.
    has_writer: AtomicBool,
    /// Held while a line is written, so that lines are not mixed. `None`: the system log is not configured.
    write_lock: Mutex<Option<Syslog>>,
    /// Whether a wait for `write_lock` has timed out.
    has_timed_out: AtomicBool,
}

/// The target of lines.
enum LogOutput {
    /// Standard output, through a descriptor of its own: the standard library's has a lock.
    Standard(Option<File>),
    File(PathBuf),
}

/// The form of lines.
struct LineForm {
    format: LogFormat,
    timestamp_format: LogTimestampFormat,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

thread_local! {
    /// The number of the last line of this thread that is queued and not returned by [`take_last_line`].
    static LAST_LINE: Cell<u64> = const { Cell::new(0) };
}

/// Whether a fault is being reported: then a thread may have stopped for good with any lock held.
static REPORTS_FAULT: AtomicBool = AtomicBool::new(false);

fn is_reporting_fault() -> bool {
    REPORTS_FAULT.load(Ordering::Acquire)
}

/// Begins the report of a fault. `false`: another one has begun, which a second one would garble.
#[must_use]
pub fn begin_fault_report() -> bool {
    !REPORTS_FAULT.swap(true, Ordering::AcqRel)
}

/// Starts the log as configured.
pub fn start(config: &Config) -> io::Result<()> {
    let output = match config.logfile.as_str() {
        // Without standard output, lines are lost.
        "" => LogOutput::Standard(io::stdout().as_fd().try_clone_to_owned().ok().map(File::from)),
        name => {
            // The server enters its directory later; one that does not exist is an error then.
            let directory = Path::new(&config.dir);
            let path = if directory.is_dir() { directory.join(name) } else { PathBuf::from(name) };
            OpenOptions::new().append(true).create(true).open(&path)?;
            LogOutput::File(std::path::absolute(path)?)
        }
    };
    let syslog =
        config.syslog_enabled.then(|| Syslog::new(config.syslog_ident.clone(), config.syslog_facility));
    let logger = LOGGER.get_or_init(|| Logger {
        output,
        form: ArcSwap::new(Arc::new(LineForm::new(config))),
        queue: Queue::default(),
        written: DurableLsn::new(Lsn(0), THREAD_COUNT_MAX),
        wake: OnceLock::new(),
        has_writer: AtomicBool::new(false),
        write_lock: Mutex::new(syslog),
        has_timed_out: AtomicBool::new(false),
    });
    let writer = std::thread::Builder::new().name("broadloom-log".to_owned());
    let write = move || {
        let _handler_stack = os::fault::prepare_thread();
        logger.write_queued();
    };
    // Without the thread, lines are written by the logging thread.
    logger.has_writer.store(writer.spawn(write).is_ok(), Ordering::Release);
    // Fails only if a logger was set before, which nothing in this process does.
    let _ = log::set_logger(logger);
    set_level(config.loglevel);
    Ok(())
}

/// Sets the minimum level.
pub fn set_level(level: LogLevel) {
    log::set_max_level(match level {
        LogLevel::Debug => LevelFilter::Trace,
        LogLevel::Verbose => LevelFilter::Debug,
        LogLevel::Notice => LevelFilter::Info,
        LogLevel::Warning => LevelFilter::Warn,
        LogLevel::Nothing => LevelFilter::Off,
    });
}

/// Switches to the configured form of lines.
pub fn set_format(config: &Config) {
    if let Some(logger) = LOGGER.get() {
        logger.form.store(Arc::new(LineForm::new(config)));
    }
}

/// Writes text to the log unchanged, at any level.
pub fn write_raw(text: &str) {
    if let Some(logger) = LOGGER.get() {
        logger.add(Entry::Raw(text.to_owned()));
    }
}

/// Sets the function that wakes a worker that has requested it. Called once.
pub fn wake_with(wake: impl Fn(usize) + Send + Sync + 'static) {
    if let Some(logger) = LOGGER.get() {
        logger.wake.get_or_init(|| Box::new(wake));
    }
}

/// The number of the last line that this thread has logged since the last call; `None` if there is none.
#[inline]
pub fn take_last_line() -> Option<u64> {
    Some(LAST_LINE.replace(0)).filter(|line| *line > 0)
}

/// The number of the last line that any thread has logged.
pub fn last_line() -> Option<u64> {
    LOGGER.get().map(|logger| logger.queue.last())
}

/// Whether this line is written.
pub fn is_written(line: u64) -> bool {
    LOGGER.get().is_none_or(|logger| logger.written.end() >= Lsn(line))
}

/// Requests a wake-up of a worker when more lines are written. To be followed by [`is_written`].
pub fn request_wake(worker: usize) {
    if let Some(logger) = LOGGER.get() {
        let _ = logger.written.request_wake(worker);
    }
}

/// Waits until all log lines are written.
pub fn flush() {
    if let Some(logger) = LOGGER.get() {
        logger.flush();
    }
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.add(Entry::Line(record.level(), SystemTime::now(), record.args().to_string()));
    }

    fn flush(&self) {
        if self.has_writer.load(Ordering::Acquire) {
            self.queue.wait_until_written(FLUSH_TIME);
        }
    }
}

impl Logger {
    /// Passes an entry to the writing thread, or writes it if there is none or a fault is being reported.
    fn add(&self, entry: Entry) {
        if is_reporting_fault() {
            let guard = self.lock_writes();
            let before = self.queue.take_within(WRITE_LOCK_TIME);
            self.write_batch(before, guard);
            self.write_batch(Batch { entries: [entry].into(), ..Batch::default() }, self.lock_writes());
        } else if self.has_writer.load(Ordering::Acquire) {
            LAST_LINE.set(self.queue.push(entry));
        } else {
            self.write_batch(Batch { entries: [entry].into(), ..Batch::default() }, self.lock_writes());
        }
    }

    /// Writes the queue until the end of the process.
    fn write_queued(&self) -> ! {
        loop {
            let batch = self.queue.take();
            let last = batch.last;
            self.write_batch(batch, self.lock_writes());
            self.queue.done();
            self.written.advance(Lsn(last), |worker| {
                if let Some(wake) = self.wake.get() {
                    wake(worker);
                }
            });
        }
    }

    fn write_batch(&self, batch: Batch, mut guard: Option<MutexGuard<'_, Option<Syslog>>>) {
        let form = self.form.load();
        let mut write = |entry| match entry {
            Entry::Raw(text) => self.output.write(text.as_bytes()),
            Entry::Line(level, at, text) => {
                let at = DateTime::<Local>::from(at);
                let line = line(form.format, form.timestamp_format, level, at, &text);
                self.output.write(line.as_bytes());
                if let Some(syslog) = guard.as_mut().and_then(|guard| guard.as_mut()) {
                    syslog.send(level, at, &text);
                }
            }
        };
        batch.entries.into_iter().for_each(&mut write);
        if batch.dropped_count > 0 {
            let text =
                format!("{} lines are missing here: the log was written too slowly.", batch.dropped_count);
            write(Entry::Line(Level::Warn, SystemTime::now(), text));
        }
    }

    /// Acquires the lock for writing lines. While a fault is being reported this may time out: then lines are written
    /// without it.
    fn lock_writes(&self) -> Option<MutexGuard<'_, Option<Syslog>>> {
        if is_reporting_fault() {
            return self.lock_writes_within(WRITE_LOCK_TIME);
        }
        Some(self.write_lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock_writes_within(&self, time: Duration) -> Option<MutexGuard<'_, Option<Syslog>>> {
        let started = Instant::now();
        loop {
            match self.write_lock.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock)
                    if self.has_timed_out.load(Ordering::Relaxed) || started.elapsed() >= time =>
                {
                    self.has_timed_out.store(true, Ordering::Relaxed);
                    return None;
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl LineForm {
    fn new(config: &Config) -> Self {
        Self { format: config.log_format, timestamp_format: config.log_timestamp_format }
    }
}

impl LogOutput {
    /// Writes at once. Lines that can't be written are lost: there is no place to report that.
    fn write(&self, line: &[u8]) {
        let written = match self {
            Self::Standard(None) => Ok(()),
            Self::Standard(Some(file)) => (&*file).write_all(line),
            Self::File(path) => OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line)),
        };
        drop(written);
    }
}

/// Whether lines show the role of a replica.
static IS_REPLICA: AtomicBool = AtomicBool::new(false);

/// Sets the role that later lines show.
pub fn set_replica(is_replica: bool) {
    IS_REPLICA.store(is_replica, Ordering::Relaxed);
}

/// Returns a line with its line end.
fn line(
    format: LogFormat,
    timestamp_format: LogTimestampFormat,
    level: Level,
    now: DateTime<Local>,
    text: &str,
) -> String {
    let pid = std::process::id();
    // The letters of Redis: of its older words, master and slave.
    let (letter, role) = if IS_REPLICA.load(Ordering::Relaxed) { ('S', "replica") } else { ('M', "primary") };
    let time = match timestamp_format {
        LogTimestampFormat::Legacy => now.format("%d %b %Y %H:%M:%S%.3f").to_string(),
        LogTimestampFormat::Iso8601 => now.format("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
        LogTimestampFormat::Milliseconds => now.timestamp_millis().to_string(),
    };
    let (mark, word) = match level {
        Level::Error | Level::Warn => ('#', "warning"),
        Level::Info => ('*', "notice"),
        Level::Debug => ('-', "info"),
        Level::Trace => ('.', "debug"),
    };
    match format {
        LogFormat::Legacy => format!("{pid}:{letter} {time} {mark} {}\n", on_one_line(text)),
        LogFormat::Logfmt => {
            let text = text.replace('"', "'").replace(['\r', '\n'], " ");
            format!("pid={pid} role={role} timestamp=\"{time}\" level={word} message=\"{text}\"\n")
        }
        LogFormat::Json => {
            let text = escaped(text);
            format!(
                "{{\"pid\":{pid},\"role\":\"{role}\",\"timestamp\":\"{time}\",\"level\":\"{word}\",\"message\":\"{text}\"}}\n"
            )
        }
    }
}

/// Replaces control characters, so that client data can't imitate a log line.
fn on_one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(|char: char| char.is_control() && char != '\t') {
        return Cow::Borrowed(text);
    }
    let shown = |char: char| match char {
        '\t' => '\t'.to_string(),
        char if char.is_control() => char.escape_default().to_string(),
        char => char.to_string(),
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Escapes text for a JSON string.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' | '"' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            '\u{8}' => out.push_str("\\b"),
            char if u32::from(char) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;

    use super::*;

    fn shown(format: LogFormat, timestamp_format: LogTimestampFormat, text: &str) -> String {
        let now = Local.timestamp_millis_opt(1_795_231_680_123).single().expect("one instant");
        let line = line(format, timestamp_format, Level::Info, now, text);
        line.replace(&std::process::id().to_string(), "PID")
    }

    #[test]
    fn lines_of_each_form() {
        let millis = LogTimestampFormat::Milliseconds;
        assert_eq!(shown(LogFormat::Legacy, millis, "a \"b\"\tc"), "PID:M 1795231680123 * a \"b\"\tc\n");
        assert_eq!(
            shown(LogFormat::Legacy, millis, "\u{e4}\r\n1:M 1 # \u{1b}[0m"),
            "PID:M 1795231680123 * \u{e4}\\r\\n1:M 1 # \\u{1b}[0m\n"
        );
        assert_eq!(
            shown(LogFormat::Logfmt, millis, "a \"b\"\nc"),
            "pid=PID role=primary timestamp=\"1795231680123\" level=notice message=\"a 'b' c\"\n"
        );
        assert_eq!(
            shown(LogFormat::Json, millis, "a\t\"b\\\u{1}"),
            "{\"pid\":PID,\"role\":\"primary\",\"timestamp\":\"1795231680123\",\"level\":\"notice\",\"message\":\"a\\t\\\"b\\\\\\u0001\"}\n"
        );
    }

    #[test]
    fn a_stuck_writer_does_not_block_other_threads_for_ever() {
        let form = LineForm::new(&Config::default());
        let form = ArcSwap::new(Arc::new(form));
        let (output, write_lock, has_timed_out) =
            (LogOutput::Standard(None), Mutex::new(None), AtomicBool::new(false));
        let (queue, has_writer) = (Queue::default(), AtomicBool::new(false));
        let (written, wake) = (DurableLsn::new(Lsn(0), 1), OnceLock::new());
        let logger = Logger { output, form, queue, written, wake, has_writer, write_lock, has_timed_out };
        let stopped = logger.lock_writes_within(Duration::ZERO);
        assert!(stopped.is_some());
        assert!(logger.lock_writes_within(Duration::from_millis(1)).is_none());
        // From then on lines do not wait.
        assert!(logger.lock_writes_within(Duration::MAX).is_none());
        drop(stopped);
        assert!(logger.lock_writes_within(Duration::ZERO).is_some());
    }

    #[test]
    fn times_of_each_form() {
        let legacy = shown(LogFormat::Legacy, LogTimestampFormat::Legacy, "x");
        assert!(legacy.starts_with("PID:M ") && legacy.ends_with(".123 * x\n"), "{legacy}");
        let iso = shown(LogFormat::Legacy, LogTimestampFormat::Iso8601, "x");
        let time =
            iso.strip_prefix("PID:M ").and_then(|rest| rest.strip_suffix(" * x\n")).expect("the frame");
        assert!(DateTime::parse_from_rfc3339(time).is_ok(), "{time}");
    }
}
