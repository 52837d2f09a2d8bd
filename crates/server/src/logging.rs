//! The log: lines as Redis writes them, `pid:M 21 Nov 2026 03:28:00.123 * text`, to standard output or a file.
//!
//! Levels of the `log` facade stand for Redis's: warnings and errors are `#`, info is notice `*`, debug is verbose `-`,
//! trace is debug `.`. The file is opened for each line, so that it may be moved away at any time.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use chrono::Local;
use config::LogLevel;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// The process's log.
struct Logger {
    /// The file; `None`: standard output.
    file: Mutex<Option<PathBuf>>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Begins to log on standard output.
pub fn start(level: LogLevel) {
    let logger = LOGGER.get_or_init(|| Logger { file: Mutex::new(None) });
    // Fails if something has set a logger before, which nothing in this process does.
    let _ = log::set_logger(logger);
    set_level(level);
}

/// Logs from this level on.
pub fn set_level(level: LogLevel) {
    log::set_max_level(match level {
        LogLevel::Debug => LevelFilter::Trace,
        LogLevel::Verbose => LevelFilter::Debug,
        LogLevel::Notice => LevelFilter::Info,
        LogLevel::Warning => LevelFilter::Warn,
        LogLevel::Nothing => LevelFilter::Off,
    });
}

/// Logs to a file from now on, if it can be written to. An empty path is standard output.
pub fn set_file(path: &str) -> std::io::Result<()> {
    let file = match path {
        "" => None,
        path => {
            OpenOptions::new().append(true).create(true).open(path)?;
            Some(std::path::absolute(path)?)
        }
    };
    if let Some(logger) = LOGGER.get() {
        *logger.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = file;
    }
    Ok(())
}

/// Writes text to the log as it is, whatever the level.
pub fn write_raw(text: &str) {
    if let Some(logger) = LOGGER.get() {
        logger.write(text.as_bytes());
    }
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mark = match record.level() {
            Level::Error | Level::Warn => '#',
            Level::Info => '*',
            Level::Debug => '-',
            Level::Trace => '.',
        };
        let now = Local::now().format("%d %b %Y %H:%M:%S%.3f");
        self.write(format!("{}:M {now} {mark} {}\n", std::process::id(), record.args()).as_bytes());
    }

    fn flush(&self) {}
}

impl Logger {
    /// Writes at once. What can't be written is lost: there is nowhere to complain.
    fn write(&self, line: &[u8]) {
        let file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let written = match &*file {
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(line).and_then(|()| out.flush())
            }
            Some(path) => OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line)),
        };
        drop(written);
    }
}
