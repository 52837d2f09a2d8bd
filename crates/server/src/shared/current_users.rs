//! The users in force: changed by one thread at a time, followed by the connections of all workers.
//!
//! A change stores new [`Users`] and begins a generation of the configuration, so that each worker takes them over before its
//! next batch. Mail makes each worker check its idle connections, too. A command that changes users holds its reply
//! until every worker has ended the turn in which it may have used the old ones. After the reply no request is run with
//! old permissions: a request that waits for a latch or for data is checked again when it continues.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use commands::acl::{DenialEvent, Grammar, Users};
use commands::error::CommandError;
use commands::table::CATALOGUE;
use config::Config;
use sync::Mutex;
use sync::atomic::{AtomicU64, Ordering};

use super::Shared;
use crate::mail::Mail;

/// The users in force.
pub struct CurrentUsers {
    users: ArcSwap<Users>,
    /// Stored after the users.
    version: AtomicU64,
    changing: Mutex<()>,
}

impl CurrentUsers {
    /// Returns the users in force, with the users at the start.
    #[must_use]
    pub fn new(users: Users) -> Self {
        let version = AtomicU64::new(users.version());
        Self { users: ArcSwap::from_pointee(users), version, changing: Mutex::default() }
    }

    /// The users, to be kept.
    #[must_use]
    pub fn load_full(&self) -> Arc<Users> {
        self.users.load_full()
    }

    /// The users, for a short time.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<Users>> {
        self.users.load()
    }

    /// The present version of the users.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

/// Reads the users of an ACL file. `users` are the present users.
///
/// # Errors
/// The file can't be read, or is invalid: the reason, in one line.
pub fn read_file(path: &str, users: &Users, config: &Config) -> Result<Users, String> {
    let text = std::fs::read(path).map_err(|error| {
        let error = error.to_string();
        let reason = error.split(" (os error").next().unwrap_or_default();
        format!("Error loading ACLs, opening file '{path}': {reason}")
    })?;
    users.loaded(&text, path, Grammar::of(config, &CATALOGUE))
}

impl Shared {
    /// Replaces the users by the result of `change`.
    ///
    /// # Errors
    /// The error of `change`: then nothing changes.
    pub fn change_users<E>(&self, change: impl FnOnce(&Users) -> Result<Users, E>) -> Result<(), E> {
        let current = &self.users;
        let _changing = current.changing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let changed = change(&current.load())?;
        let version = changed.version();
        current.users.store(Arc::new(changed));
        current.version.store(version, Ordering::Release);
        self.config.begin_generation();
        self.workers.post_all(|| Mail::UsersChanged);
        Ok(())
    }

    /// Gives the default user the password of `requirepass`.
    pub fn set_default_password(&self, config: &Config) {
        let password = config.requirepass.reveal();
        let changed = self.change_users(|users| {
            Ok::<_, CommandError>(users.with_default_password(password, Grammar::of(config, &CATALOGUE)))
        });
        debug_assert!(changed.is_ok(), "any password is allowed");
    }

    /// `ACL LOAD`
    pub fn load_users(&self) -> Result<(), CommandError> {
        let config = self.config.load_full();
        self.change_users(|users| {
            read_file(&config.aclfile, users, &config)
                .map_err(|reason| CommandError::owned(format!("ERR {reason}")))
        })
    }

    /// `ACL SAVE`
    pub fn save_users(&self) -> Result<(), CommandError> {
        let path = &self.config.load().aclfile;
        let mut text = Vec::new();
        for line in self.users.load().lines() {
            text.extend_from_slice(b"user ");
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        config::disk::replace_file(std::path::Path::new(path), &text).map_err(|error| {
            log::warn!("Writing ACL file for ACL SAVE: {error}");
            CommandError::new(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
            )
        })
    }

    /// Records a denial for a client.
    pub fn record_denial(&self, client: u64, event: &DenialEvent<'_>) {
        let len_max = self.config.load().acllog_max_len;
        let line = || self.client_line(client).unwrap_or_default().into_bytes();
        self.monitoring.denials.record(event, os::clock::unix_millis(), len_max, line);
    }
}
