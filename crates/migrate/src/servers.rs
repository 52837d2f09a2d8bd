//! Both servers of a move, and the link between them, by which changes of the source reach the target.

use std::time::{Duration, Instant};

use wire::response::Reply;

use crate::connection::WaitLimit;
use crate::error::MigrateError;
use crate::server::Server;

/// A key, with its database.
pub type DatabaseKey = (u32, Vec<u8>);

/// The servers of a move.
pub struct Servers {
    pub source: Server,
    pub target: Server,
}

/// The way in which changes of the source reach the target.
pub trait Link {
    /// Waits until the target has every change that the source made before this call.
    fn settle(&mut self, servers: &mut Servers) -> Result<(), MigrateError>;

    /// As [`Self::settle`], and with those changes that it does not notice.
    fn settle_all(&mut self, servers: &mut Servers) -> Result<(), MigrateError> {
        self.settle(servers)
    }

    /// Whether the target may lack keys that have expired, but that the source still counts.
    fn skips_expired(&self) -> bool;

    /// Brings those of these keys up to date whose changes [`Self::settle`] does not notice.
    fn refresh(&mut self, _servers: &mut Servers, _keys: &[&DatabaseKey]) -> Result<(), MigrateError> {
        Ok(())
    }

    /// Returns what the target has refused until now: numbers of differences, with texts.
    fn refused(&self) -> Vec<(u64, String)> {
        Vec::new()
    }
}

impl Servers {
    /// Ends all waits for replies at this time, until it is set to `None`.
    pub fn wait_until(&mut self, deadline: Option<Instant>) {
        for server in [&mut self.source, &mut self.target] {
            server.limit_waits(WaitLimit { deadline, ..server.wait_limit() });
        }
    }

    /// Waits no longer than this for a reply from now on.
    pub fn shorten_waits(&mut self, time_max: Duration) {
        for server in [&mut self.source, &mut self.target] {
            let limit = server.wait_limit();
            let reply_time_max = limit.reply_time_max.min(time_max);
            server.limit_waits(WaitLimit { reply_time_max, ..limit });
        }
    }

    /// Returns `time`, or less if the time of [`Self::wait_until`] is earlier.
    pub fn at_most(&self, time: Duration) -> Duration {
        self.source.wait_limit().at_most(time)
    }

    /// Returns the difference of the servers' clocks: that of the target minus that of the source, in milliseconds;
    /// `None` if one of them refuses `TIME`.
    pub fn clock_difference_ms(&mut self) -> Result<Option<i64>, MigrateError> {
        let clock = |server: &mut Server| match clock_ms(server) {
            Err(MigrateError::Server { .. }) => Ok(None),
            clock => clock.map(Some),
        };
        let (source, target) = (clock(&mut self.source)?, clock(&mut self.target)?);
        Ok(target.zip(source).map(|(target, source)| target - source))
    }
}

/// Returns the clock of a server in milliseconds since 1970.
pub fn clock_ms(server: &mut Server) -> Result<i64, MigrateError> {
    let reply = server.call(&["TIME"])?;
    let part = |at: usize| {
        let text = reply.elements()?.get(at)?.text()?;
        std::str::from_utf8(text).ok()?.parse::<i64>().ok()
    };
    let clock = part(0).zip(part(1)).map(|(seconds, micros)| seconds * 1000 + micros / 1000);
    clock.ok_or_else(|| MigrateError::server(server.name(), "TIME has another reply than a time"))
}

/// Returns the number in an integer reply.
pub fn integer(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Integer(number) => Some(*number),
        _ => None,
    }
}
