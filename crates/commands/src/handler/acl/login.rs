//! The user of a session, and updating the session after a change of the users.

use std::sync::Arc;

use super::user::User;
use super::users::Users;
use crate::session::{Session, SessionFlags};
use crate::subscriptions::SubscriptionKind;

impl Session {
    /// Makes this the authenticated user of the session.
    pub fn log_in(&mut self, user: &Arc<User>, users: &Users) {
        self.login.user = Arc::clone(user);
        self.login.users_version = users.version();
        self.login.is_authenticated = true;
    }

    /// Makes the default user the user of the session, which is authenticated if that user needs no password.
    pub fn log_out(&mut self, users: &Users) {
        self.login.was_authenticated |= self.login.is_authenticated;
        self.login.user = Arc::clone(users.default_user());
        self.login.users_version = users.version();
        self.login.is_authenticated = !users.require_authentication();
    }

    /// Adopts the current permissions of the session's user. If the user is deleted, or the session has a subscription
    /// that is no longer permitted, the connection must be closed: [`SessionFlags::CLOSE_AFTER_REPLY`].
    #[cold]
    pub fn follow_users(&mut self, users: &Users) {
        self.login.users_version = users.version();
        let Some(current) = users.current(&self.login.user) else {
            self.login.was_authenticated |= self.login.is_authenticated;
            self.login.user = Arc::clone(users.default_user());
            self.login.is_authenticated = false;
            self.flags.insert(SessionFlags::CLOSE_AFTER_REPLY | SessionFlags::REVOKED);
            return;
        };
        let old = std::mem::replace(&mut self.login.user, Arc::clone(current));
        if self.is_subscribed()
            && self.login.user.has_fewer_channels_than(&old)
            && !self.may_keep_subscriptions()
        {
            self.flags.insert(SessionFlags::CLOSE_AFTER_REPLY | SessionFlags::REVOKED);
        }
    }

    /// Whether the user may use every channel and pattern of the subscriptions.
    fn may_keep_subscriptions(&self) -> bool {
        let kinds = [
            (SubscriptionKind::Pattern, true),
            (SubscriptionKind::Channel, false),
            (SubscriptionKind::ShardChannel, false),
        ];
        kinds.into_iter().all(|(kind, is_pattern)| {
            self.names_of(kind).iter().all(|name| self.login.user.allows_channel(name, is_pattern))
        })
    }
}
