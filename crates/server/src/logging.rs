//! The log: lines as Redis writes them, `pid:M 21 Nov 2026 03:28:00.123 * text`, or as logfmt or JSON has them, to
//! standard output or a file, and to the system log if that is asked for.
//!
//! Levels of the `log` facade stand for Redis's: warnings and errors are `#`, info is notice `*`, debug is verbose `-`,
//! trace is debug `.`. The file is opened for each line, so that it may be moved away at any time.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use chrono::{DateTime, Local};
use config::{Config, LogFormat, LogLevel, LogTimestampFormat};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::syslog::Syslog;

/// The process's log.
struct Logger {
    state: Mutex<State>,
}

/// Where lines go, and what they look like.
struct State {
    /// The file; `None`: standard output.
    file: Option<PathBuf>,
    format: LogFormat,
    timestamp_format: LogTimestampFormat,
    syslog: Option<Syslog>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Begins to log as the configuration says.
pub fn start(config: &Config) -> std::io::Result<()> {
    let file = match config.logfile.as_str() {
        "" => None,
        path => {
            OpenOptions::new().append(true).create(true).open(path)?;
            Some(std::path::absolute(path)?)
        }
    };
    let syslog =
        config.syslog_enabled.then(|| Syslog::new(config.syslog_ident.clone(), config.syslog_facility));
    let (format, timestamp_format) = (config.log_format, config.log_timestamp_format);
    let state = State { file, format, timestamp_format, syslog };
    let logger = LOGGER.get_or_init(|| Logger { state: Mutex::new(state) });
    // Fails if something has set a logger before, which nothing in this process does.
    let _ = log::set_logger(logger);
    set_level(config.loglevel);
    Ok(())
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

/// Writes lines in the forms that the configuration says from now on.
pub fn set_format(config: &Config) {
    if let Some(logger) = LOGGER.get() {
        let mut state = logger.state();
        state.format = config.log_format;
        state.timestamp_format = config.log_timestamp_format;
    }
}

/// Writes text to the log as it is, whatever the level.
pub fn write_raw(text: &str) {
    if let Some(logger) = LOGGER.get() {
        logger.state().write(text.as_bytes());
    }
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut state = self.state();
        let now = Local::now();
        let text = record.args().to_string();
        let line = line(state.format, state.timestamp_format, record.level(), now, &text);
        state.write(line.as_bytes());
        if let Some(syslog) = &mut state.syslog {
            syslog.send(record.level(), now, &text);
        }
    }

    fn flush(&self) {}
}

impl Logger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes at once. What can't be written is lost: there is nowhere to complain.
    fn write(&self, line: &[u8]) {
        let written = match &self.file {
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

/// A line with its end.
fn line(
    format: LogFormat,
    timestamp_format: LogTimestampFormat,
    level: Level,
    now: DateTime<Local>,
    text: &str,
) -> String {
    let pid = std::process::id();
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
        LogFormat::Legacy => format!("{pid}:M {time} {mark} {text}\n"),
        LogFormat::Logfmt => {
            let text = text.replace('"', "'").replace(['\r', '\n'], " ");
            format!("pid={pid} role=primary timestamp=\"{time}\" level={word} message=\"{text}\"\n")
        }
        LogFormat::Json => {
            let text = escaped(text);
            format!(
                "{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":\"{time}\",\"level\":\"{word}\",\"message\":\"{text}\"}}\n"
            )
        }
    }
}

/// Text as it stands between the quotes of a JSON string.
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
        assert_eq!(shown(LogFormat::Legacy, millis, "a \"b\""), "PID:M 1795231680123 * a \"b\"\n");
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
    fn times_of_each_form() {
        let legacy = shown(LogFormat::Legacy, LogTimestampFormat::Legacy, "x");
        assert!(legacy.starts_with("PID:M ") && legacy.ends_with(".123 * x\n"), "{legacy}");
        let iso = shown(LogFormat::Legacy, LogTimestampFormat::Iso8601, "x");
        let time =
            iso.strip_prefix("PID:M ").and_then(|rest| rest.strip_suffix(" * x\n")).expect("the frame");
        assert!(DateTime::parse_from_rfc3339(time).is_ok(), "{time}");
    }
}
