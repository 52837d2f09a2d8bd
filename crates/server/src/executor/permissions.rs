//! Permissions: whether a connection may run a request at all, checked before anything is latched and again when a request
//! continues after a wait.

use base::DbIndex;
use commands::acl::DenialEvent;
use commands::command::Flags;
use commands::session::Session;
use commands::table::{CATALOGUE, ResolvedCommand};
use sync::simulation;
use wire::request::Args;

use super::{Executor, Step};
use crate::connection::client::Client;
use crate::faults;

impl Executor {
    /// Whether the connection has to authenticate first.
    #[inline]
    pub(super) fn is_unauthenticated(&self, client: &Client) -> bool {
        !client.session.login.is_authenticated && self.settings.requires_authentication
    }

    /// Applies a change of the users to the session. Returns whether the connection must be closed without running
    /// the request: its user is deleted, or may no longer have a subscription.
    #[inline]
    pub fn follow_users(&mut self, session: &mut Session) -> bool {
        if simulation::planted(faults::UNCHECKED_EXEC) && session.in_multi() {
            return false;
        }
        // A session that has just authenticated may have newer users than this worker.
        if session.login.users_version < self.settings.users.version() {
            session.follow_users(&self.settings.users);
            return session.is_closing();
        }
        false
    }

    /// Answers a request that the permissions of its user do not allow. `None`: they allow it. Latches that it waited
    /// for are released.
    #[inline(never)]
    pub(super) fn deny(
        &mut self,
        client: &mut Client,
        found: ResolvedCommand,
        args: Args<'_>,
    ) -> Option<Step> {
        let session = &mut client.session;
        if session.in_multi() && found.command.flags.contains(Flags::NO_MULTI) {
            // It is refused, whatever the permissions are.
            return None;
        }
        let db_count = self.shared.keyspace.db_count();
        let place = (database_of(session), db_count);
        // The log shows the client with the command that is denied.
        let last_command = session.ran.last.replace(found.id);
        let shown = &*session;
        let record = |event: &DenialEvent<'_>| {
            self.shared.publish_session(shown);
            self.shared.record_denial(shown.id, event);
        };
        let authorised = shown.login.user.authorise(found.id, args, place, shown.denial_context(), record);
        let Err(denial) = authorised else {
            session.ran.last = last_command;
            return None;
        };
        self.latching.release();
        let error = denial.error(session.login.user.name(), CATALOGUE.name(found.id));
        self.reject(client, found, &error);
        Some(Step::Done)
    }

    /// Whether a request may access keys that are not among its arguments; its handler checks that, too. Otherwise it need
    /// not latch them.
    pub(super) fn may_reach(&self, client: &Client, found: ResolvedCommand, args: Args<'_>) -> bool {
        let session = &client.session;
        let db_count = self.shared.keyspace.db_count();
        session.login.user.may_read_all_keys(found.id, args, session.db, db_count)
    }
}

/// The database that a request accesses when it is run: in a transaction the one that the last queued `SELECT` selects.
fn database_of(session: &Session) -> DbIndex {
    session.multi.as_ref().and_then(|queue| queue.db()).unwrap_or(session.db)
}
