//! Whether a user may run a request: one of its selectors must allow the command, its databases, keys and channels.
//!
//! The one check for all ways to run a request: alone, in a transaction, for a waiter, in a script. A pure function
//! of the user and the request. Cost: each key is compared with the patterns of each selector until one matches;
//! commands with keys at fixed positions allocate nothing.

use std::collections::HashSet;

use base::DbIndex;
use wire::request::Args;

use super::catalogue::{Databases, accesses_data, channels, has_keys};
use super::denial::{Denial, DenialContext, DenialEvent, MissingPermission};
use super::selector::{ChannelPermissions, DatabasePermissions, Selector};
use super::user::User;
use crate::command::{Begin, Find, Flags, KeyFlags, KeySpec, find_spec_keys};
use crate::resolved_command::CommandId;

/// A request to be checked, as its session would run it.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    id: CommandId,
    args: Args<'a>,
    db: DbIndex,
    db_count: usize,
}

impl User {
    /// Whether the user may run a request in a database.
    ///
    /// # Errors
    /// If no selector allows the request: the missing permission in the selector that allows most of it.
    pub fn check(&self, id: CommandId, args: Args<'_>, db: DbIndex, db_count: usize) -> Result<(), Denial> {
        if !self.is_restricted() {
            return Ok(());
        }
        let request = Request { id, args, db, db_count };
        let mut worst = Denial { missing: MissingPermission::Database, argument: 0 };
        for selector in self.selectors() {
            match self.check_selector(selector, request) {
                Ok(()) => return Ok(()),
                Err(denial) => worst = worst.max(denial),
            }
        }
        Err(worst)
    }

    /// [`Self::check`] of a request that is to be run now: `record` gets a denial for the denial log. `db` is one of `db_count` databases.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn authorise(
        &self,
        id: CommandId,
        args: Args<'_>,
        (db, db_count): (DbIndex, usize),
        context: DenialContext,
        record: impl FnOnce(&DenialEvent<'_>),
    ) -> Result<(), Denial> {
        self.check(id, args, db, db_count).inspect_err(|denial| {
            let object = denial.object(self.catalogue().name(id), args);
            let missing = Some(denial.missing);
            record(&DenialEvent { missing, context, object: &object, user: self.name() });
        })
    }

    /// Whether a selector that allows the request also allows reading all keys. `SORT` reads keys that its arguments
    /// do not name.
    #[must_use]
    pub fn may_read_all_keys(&self, id: CommandId, args: Args<'_>, db: DbIndex, db_count: usize) -> bool {
        let request = Request { id, args, db, db_count };
        let mut selectors = self.selectors().iter();
        !self.is_restricted()
            || selectors.any(|selector| {
                selector.keys.allow_reading_all() && self.check_selector(selector, request).is_ok()
            })
    }

    fn check_selector(&self, selector: &Selector, request: Request<'_>) -> Result<(), Denial> {
        let Request { id, args, .. } = request;
        if selector.databases != DatabasePermissions::All {
            self.check_databases(selector, request)?;
        }
        let command = self.catalogue().command(id);
        if !selector.commands.allows(id, args.get(1)) && !command.flags.contains(Flags::NO_AUTH) {
            return Err(Denial { missing: MissingPermission::Command, argument: 0 });
        }
        for spec in command.keys.iter().filter(|spec| !spec.flags.contains(KeyFlags::NOT_KEY)) {
            check_keys(selector, spec, spec.flags_of(args), args)?;
        }
        if selector.channels != ChannelPermissions::All {
            self.check_channels(selector, request)?;
        }
        Ok(())
    }

    fn check_databases(&self, selector: &Selector, request: Request<'_>) -> Result<(), Denial> {
        let Request { id, args, db, db_count } = request;
        let denied = |argument| Err(Denial { missing: MissingPermission::Database, argument });
        let databases = self.catalogue().databases(id);
        let allows = |database| selector.databases.allow(database, db_count);
        let command = self.catalogue().command(id);
        let needs_current = match databases {
            Databases::Current => accesses_data(command),
            Databases::All => {
                return if (0..db_count as u32).all(allows) { Ok(()) } else { denied(0) };
            }
            Databases::At(_) | Databases::AfterWord => has_keys(command),
        };
        let named = databases.named(args, db_count);
        if let Some((argument, _)) = named.into_iter().find(|(_, database)| !allows(*database)) {
            return denied(argument);
        }
        if needs_current && !allows(u32::from(db.0)) { denied(0) } else { Ok(()) }
    }

    fn check_channels(&self, selector: &Selector, request: Request<'_>) -> Result<(), Denial> {
        let command = self.catalogue().command(request.id);
        let is_pattern = command.flags.contains(Flags::CHANNEL_PATTERNS);
        match channels(command, request.args)
            .find(|index| !selector.channels.allow(request.args.at(*index), is_pattern))
        {
            Some(argument) => Err(Denial { missing: MissingPermission::Channel, argument }),
            None => Ok(()),
        }
    }

    /// Whether this user may use fewer channels than `old`, its previous state. Patterns are compared literally, as
    /// in Valkey: a wider pattern does not cover a narrower one. If true, the caller checks each subscription.
    #[must_use]
    pub fn has_fewer_channels_than(&self, old: &Self) -> bool {
        let has_all =
            |user: &Self| user.selectors().iter().any(|own| own.channels == ChannelPermissions::All);
        !has_all(self) && (has_all(old) || !channel_patterns(old).is_subset(&channel_patterns(self)))
    }

    /// Whether any selector allows a channel, or a pattern of channels.
    #[must_use]
    pub fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.selectors().iter().any(|selector| selector.channels.allow(name, is_pattern))
    }
}

/// Returns the channel patterns of all selectors.
fn channel_patterns(user: &User) -> HashSet<&[u8]> {
    let mut found = HashSet::new();
    for selector in user.selectors() {
        if let ChannelPermissions::Matching(patterns) = &selector.channels {
            found.extend(patterns.iter().map(Vec::as_slice));
        }
    }
    found
}

/// Checks the keys of one spec.
#[inline]
fn check_keys(selector: &Selector, spec: &KeySpec, flags: KeyFlags, args: Args<'_>) -> Result<(), Denial> {
    let denied = |argument| Err(Denial { missing: MissingPermission::Key, argument });
    let allows = |index: usize| selector.keys.allow(args.at(index), flags);
    if let (None, Begin::Index(index), Find::Range { last: 0, .. }) = (spec.custom, spec.begin, spec.find) {
        let index = index as usize;
        return if index >= args.len() || allows(index) { Ok(()) } else { denied(index) };
    }
    let mut indexes = Vec::new();
    // With invalid arguments, only the keys found so far are checked: the planner refuses the request anyway.
    let _ = find_spec_keys(spec, args, &mut indexes);
    match indexes.iter().find(|index| !allows(**index as usize)) {
        Some(index) => denied(*index as usize),
        None => Ok(()),
    }
}
