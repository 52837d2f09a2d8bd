//! Persistence as the server's threads see it.

use std::sync::Arc;

use base::Lsn;
use base::limits::THREAD_COUNT_MAX;
use config::Config;
use persist::append_only::AppendOnly;
use sync::write_log::{LogWake, WriteLog};

use crate::connection::token::Token;
use crate::mail::{Mail, Workers};

/// The state of persistence.
pub struct Persistence {
    /// The append-only file.
    pub append_only: AppendOnly,
}

impl Persistence {
    /// Persistence that is off, and the write log that it reads.
    pub(super) fn new(config: &Config, workers: &'static Workers) -> (Self, Arc<WriteLog>) {
        let append_only = AppendOnly::new(|thread| workers.post(thread, Mail::Durable));
        let signal = append_only.signal();
        let wake = move |wake| match wake {
            LogWake::Reader(_) => signal.set(),
            LogWake::Writer(token) => workers.post(Token(token).thread(), Mail::Resume(Token(token))),
        };
        let capacity = config.write_log_size.next_power_of_two() as usize;
        // A worker may begin while the former worker of its handle is still ending.
        let log = WriteLog::new(Lsn(0), capacity, 2 * THREAD_COUNT_MAX, wake);
        (Self { append_only }, Arc::new(log))
    }
}
