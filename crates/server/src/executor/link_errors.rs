//! What should not happen between a primary and its replicas: a request of the primary fails on a replica, or a replica sends
//! a request that has a reply, for which there is no place in the stream.

use commands::session::SessionFlags;
use commands::table::{CATALOGUE, CommandId};
use config::{Config, PropagationErrorBehavior};
use sync::atomic::Ordering;

use super::{Executor, Step};
use crate::connection::client::Client;
use crate::shared::Shared;

impl Executor {
    /// Notes that a request of the primary has failed, with the error that begins at `mark`.
    #[cold]
    pub(super) fn log_failure_of_primary(&self, client: &Client, mark: usize) {
        let bytes = client.replies.bytes.get(mark..).unwrap_or_default();
        note_failure_of_primary(self.shared, &self.settings.config, client.session.ran.last, bytes);
    }

    /// Ends the connection of a replica if a request of it has a reply, which begins at `mark`, besides that to `PSYNC`.
    #[cold]
    pub(super) fn check_replica(&self, client: &mut Client, mark: usize) {
        let is_served =
            client.session.replica.as_mut().is_some_and(|it| std::mem::replace(&mut it.is_served, true));
        if !is_served || client.replies.size_since(mark) == 0 {
            return;
        }
        let last = client.session.ran.last;
        let bytes = client.replies.bytes.get(mark..).unwrap_or_default();
        if bytes.starts_with(b"-") {
            log_failure(self.shared, ("primary", "replica"), last, bytes);
        }
        log::warn!(
            "Replica generated a reply to command '{}', disconnecting it: id={} addr={} laddr={}",
            name_of(last),
            client.session.id,
            client.session.endpoints.peer,
            client.session.endpoints.local
        );
        client.replies.truncate(mark);
        client.session.flags.insert(SessionFlags::CLOSE_AFTER_REPLY);
    }
}

impl Step {
    /// A request that ends the connection stops the others.
    pub(super) fn or_stop(self, client: &Client) -> Self {
        if matches!(self, Self::Done) && client.session.is_closing() { Self::Stop } else { self }
    }
}

/// Notes that a request of the primary has failed, with the error that begins the replies.
///
/// # Panics
/// If `propagation-error-behavior` says so, and only the primary changes the data: the process ends, as in Redis and Valkey.
#[cold]
pub(super) fn note_failure_of_primary(
    shared: &Shared,
    config: &Config,
    command: Option<CommandId>,
    replies: &[u8],
) {
    log_failure(shared, ("replica", "primary"), command, replies);
    assert!(
        !config.replica_read_only || config.propagation_error_behavior == PropagationErrorBehavior::Ignore,
        "This replica panicked sending an error to its primary after processing the command '{}'",
        name_of(command)
    );
}

/// Counts and logs an error, with which replies begin, that the other side of a link does not see.
fn log_failure(shared: &Shared, (own, other): (&str, &str), command: Option<CommandId>, replies: &[u8]) {
    shared.loading.unexpected_error_count.fetch_add(1, Ordering::Relaxed);
    let line = replies.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line.strip_prefix(b"-").unwrap_or(line));
    log::error!(
        "== CRITICAL == This {own} is sending an error to its {other}: '{text}' after processing the command '{}'",
        name_of(command)
    );
}

fn name_of(command: Option<CommandId>) -> &'static str {
    command.map_or("<unknown>", |id| CATALOGUE.name(id))
}
