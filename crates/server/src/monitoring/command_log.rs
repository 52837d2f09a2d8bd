//! The three command logs: slow commands, large requests, large replies. Written rarely, so one lock for
//! each is enough.

use std::collections::VecDeque;

use commands::command::Flags;
use commands::host::{CommandLog, LoggedCommand};
use commands::session::Session;
use commands::table::ResolvedCommand;
use config::Config;
use sync::{Mutex, MutexGuard};
use wire::request::Args;

use super::Monitoring;
use crate::monitoring::secrets::{REDACTED, is_secret};

/// The cost of a command.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Size of its reply in bytes.
    pub reply_size: usize,
    /// Size of its request in bytes.
    pub request_size: usize,
}

/// All command logs.
#[derive(Default)]
pub struct CommandLogs {
    logs: [Mutex<Log>; 3],
}

#[derive(Default)]
struct Log {
    /// Newest first.
    entries: VecDeque<LoggedCommand>,
    next_id: u64,
}

/// The thresholds from which on a command may be logged, in the units of [`Cost`]; see [`is_wanted`].
#[derive(Clone, Copy)]
pub struct Thresholds {
    /// The smallest duration that any log or latency threshold selects.
    pub ns: u64,
    reply_size: usize,
    request_size: usize,
}

impl Thresholds {
    /// Returns the thresholds of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let size = |size: i64| usize::try_from(size).unwrap_or(usize::MAX);
        Self {
            ns: threshold_ns(config),
            reply_size: size(config.commandlog_reply_larger_than),
            request_size: size(config.commandlog_request_larger_than),
        }
    }

    /// Whether a command of this cost may be logged.
    #[inline(always)]
    #[must_use]
    pub fn are_exceeded(&self, cost: Cost) -> bool {
        cost.ns >= self.ns || self.sizes_are_exceeded(cost.reply_size, cost.request_size)
    }

    /// Whether a command with these sizes may be logged, for any duration.
    #[inline(always)]
    #[must_use]
    pub fn sizes_are_exceeded(&self, reply_size: usize, request_size: usize) -> bool {
        reply_size > self.reply_size || request_size > self.request_size
    }
}

/// The smallest duration from which on a command may be logged.
#[must_use]
fn threshold_ns(config: &Config) -> u64 {
    let slow = u64::try_from(config.slowlog_log_slower_than).map_or(u64::MAX, |us| us.saturating_mul(1000));
    let latency = match config.latency_monitor_threshold {
        0 => u64::MAX,
        ms => ms.saturating_mul(1_000_000),
    };
    slow.min(latency)
}

/// Whether any log may select a command of this cost.
#[must_use]
pub fn is_wanted(config: &Config, cost: Cost) -> bool {
    Thresholds::of(config).are_exceeded(cost)
}

/// Arguments as an entry stores them: limited in number and length.
#[must_use]
pub fn shorten(found: ResolvedCommand, args: Args<'_>, config: &Config) -> Vec<Vec<u8>> {
    let kept = args.len().min(config.slowlog_entry_max_argc as usize);
    let size_max = config.slowlog_entry_max_string_len as usize;
    let shown = |(index, arg)| if is_secret(found, args, index) { REDACTED } else { arg };
    let shorten = |arg| shorten_arg(arg, size_max);
    let mut short: Vec<Vec<u8>> = args.iter().enumerate().take(kept).map(shown).map(shorten).collect();
    if args.len() > kept {
        let left = args.len() - kept + 1;
        short[kept - 1] = format!("... ({left} more arguments)").into_bytes();
    }
    short
}

fn shorten_arg(arg: &[u8], size_max: usize) -> Vec<u8> {
    if arg.len() <= size_max {
        return arg.to_vec();
    }
    let mut short = arg[..size_max].to_vec();
    short.extend_from_slice(format!("... ({} more bytes)", arg.len() - size_max).as_bytes());
    short
}

impl Monitoring {
    /// Writes a slow or large command to the logs that select it.
    pub fn log_command(
        &self,
        config: &Config,
        session: &Session,
        found: ResolvedCommand,
        args: Args<'_>,
        cost: Cost,
    ) {
        let at_seconds = os::clock::unix_millis() / 1000;
        let us = cost.ns / 1000;
        let ms = us / 1000;
        if config.latency_monitor_threshold > 0 && ms >= config.latency_monitor_threshold {
            let event = if found.command.flags.contains(Flags::FAST) { "fast-command" } else { "command" };
            self.latency.add(event, at_seconds as u32, ms);
        }
        if found.command.flags.contains(Flags::SKIP_COMMANDLOG) {
            return;
        }
        let slower_than = u64::try_from(config.slowlog_log_slower_than).ok();
        let larger_than = |value: usize, threshold: i64| {
            u64::try_from(threshold).is_ok_and(|threshold| value as u64 > threshold)
        };
        let logs = [
            (CommandLog::Slow, us, slower_than.is_some_and(|limit| us >= limit), config.slowlog_max_len),
            (
                CommandLog::LargeRequest,
                cost.request_size as u64,
                larger_than(cost.request_size, config.commandlog_request_larger_than),
                config.commandlog_large_request_max_len,
            ),
            (
                CommandLog::LargeReply,
                cost.reply_size as u64,
                larger_than(cost.reply_size, config.commandlog_reply_larger_than),
                config.commandlog_large_reply_max_len,
            ),
        ];
        for (log, value, is_wanted, len_max) in logs {
            if is_wanted {
                let entry = LoggedCommand {
                    id: 0,
                    at_seconds,
                    value,
                    args: shorten(found, args, config),
                    peer: session.endpoints.peer.clone(),
                    name: session.names.client.clone(),
                };
                self.command_logs.push(log, entry, len_max as usize);
            }
        }
    }
}

impl CommandLogs {
    fn log(&self, which: CommandLog) -> MutexGuard<'_, Log> {
        let index = match which {
            CommandLog::Slow => 0,
            CommandLog::LargeRequest => 1,
            CommandLog::LargeReply => 2,
        };
        self.logs[index].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds an entry, assigns its id, and drops the oldest entries beyond `len_max`.
    pub fn push(&self, which: CommandLog, mut entry: LoggedCommand, len_max: usize) {
        if len_max == 0 {
            return;
        }
        let mut log = self.log(which);
        entry.id = log.next_id;
        log.next_id += 1;
        log.entries.push_front(entry);
        log.entries.truncate(len_max);
    }

    /// The newest entries.
    #[must_use]
    pub fn newest(&self, which: CommandLog, count: usize) -> Vec<LoggedCommand> {
        self.log(which).entries.iter().take(count).cloned().collect()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self, which: CommandLog) -> usize {
        self.log(which).entries.len()
    }

    /// Removes all entries.
    pub fn reset(&self, which: CommandLog) {
        self.log(which).entries.clear();
    }
}
