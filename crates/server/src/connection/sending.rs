//! Output of a connection that was passed to the reactor, and what is known of the peer's progress in reading it.

use os::clock::Uptime;

use super::reply_buffers::ReplyBufferSize;
use super::size_counted;

/// See the module documentation.
pub struct Sending {
    /// The size of buffer that its replies need.
    pub reply_buffer: ReplyBufferSize,
    /// Bytes of replies in the reactor, at the last update.
    pub pending: usize,
    /// Those of messages among them, which other subscribers share.
    pub pending_messages: usize,
    /// Unsent output at the last check of all connections, in bytes.
    pub unsent_size: usize,
    /// When a check last found that this had changed, by the monotonic clock in milliseconds.
    pub sent_at: i64,
    /// The time since which its pending output has exceeded the soft limit.
    pub soft_limit_since: Option<Uptime>,
    /// Whether its output is held until the changes that it shows are durable, or the lines are written that its requests
    /// have logged.
    pub awaits_disk: bool,
    /// Whether its requests are neither received nor run, because too much output is unsent.
    pub pauses_requests: bool,
}

impl Sending {
    /// Nothing was sent. `now`: the monotonic clock in milliseconds.
    #[must_use]
    pub fn new(now: i64) -> Self {
        Self {
            reply_buffer: ReplyBufferSize::new(now),
            pending: 0,
            pending_messages: 0,
            unsent_size: 0,
            sent_at: now,
            soft_limit_since: None,
            awaits_disk: false,
            pauses_requests: false,
        }
    }

    /// Bytes of unsent output that count: less than a buffer only if it is not sent for a while. Messages that other
    /// subscribers share do not count, as in Valkey.
    #[must_use]
    pub fn counted(&self) -> u64 {
        let own = self.pending.saturating_sub(self.pending_messages);
        size_counted(own).max(self.unsent_size.min(own) as u64)
    }
}
