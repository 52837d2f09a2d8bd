//! `--by-scan`: for sources that refuse replication, a copy by `SCAN`, `DUMP` and `RESTORE`. Keyspace events name the keys
//! that change meanwhile, which are copied again.
//!
//! Weaker than replication: the target never shows the state of one instant, a transaction arrives key by key, and scripts,
//! ACL users and settings are not copied. Some changes have no events: `FLUSHALL`, `FLUSHDB` and `SWAPDB` are noticed by the
//! numbers of keys only; `XREADGROUP`, `XACK`, `XCLAIM` and `XAUTOCLAIM` change streams, so these are copied again. Under
//! paused writes, the last events and all streams make both equal.

mod copier;
mod events;

use std::time::Duration;

use tool::interrupt;
use wire::response::Reply;

use crate::by_scan::copier::{Copier, has_equal_counts};
use crate::by_scan::events::Events;
use crate::compare::{self, Comparison};
use crate::error::MigrateError;
use crate::progress::Phase;
use crate::record::{Side, Stage};
use crate::server::Server;
use crate::servers::{DatabaseKey, Link, Servers};
use crate::session::Session;
use crate::switch::Switch;

const EVENTS_SETTING: &str = "notify-keyspace-events";

/// Time between two copies of changed keys with `--follow`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Copies, and switches if that is wanted. Returns the comparison.
pub fn run(session: &mut Session<'_>) -> Result<Comparison, MigrateError> {
    session.progress.line(
        "by scan: weaker than replication. Keys are copied one by one, so the target shows no single instant of the source \
         before the switch; FLUSHALL, FLUSHDB and SWAPDB are noticed by the numbers of keys only",
    );
    session.record.set_stage(Stage::Begun)?;
    let result = copy(session);
    // Also after an error and Ctrl-C. The first error is the cause.
    let restored = restore_events(session);
    let restored = restored.and_then(|()| session.record.remove_if_empty());
    let comparison = result?;
    restored?;
    Ok(comparison)
}

fn copy(session: &mut Session<'_>) -> Result<Comparison, MigrateError> {
    let events = if session.cli.events.are_off {
        session.progress.line("no events: keys that the source changes from now on are not copied again");
        None
    } else {
        switch_events_on(session)?;
        Some(Events::subscribe(&session.servers.source)?)
    };
    let mut link = ScanLink {
        events,
        are_events_assumed: session.cli.events.assume_events,
        copier: Copier::new(&mut session.servers.source)?,
        refused_functions: None,
        time_max: session.cli.timeout,
    };
    let start = session.servers.target.run_id()?;
    link.copier.copy_all(&mut session.servers, &mut session.progress)?;
    link.refused_functions = copy_functions(session)?;
    session.progress.show(&Phase::CatchingUp { keys: 0 });
    link.settle(&mut session.servers)?;
    let (source, target) = (session.servers.source.keyspace()?, session.servers.target.keyspace()?);
    // An earlier copy may have left as many keys as the source has, but others.
    if session.cli.overwrite || !has_equal_counts(&source, &target) {
        link.copier.reconcile(&mut session.servers)?;
    }
    link.settle_all(&mut session.servers)?;
    let mut comparison =
        compare::run(&mut session.servers, &mut link, session.cli.sample, &mut session.progress)?;
    if session.cli.follow && comparison.is_equal() {
        crate::print(session, &comparison);
    }
    while session.cli.follow && comparison.is_equal() {
        interrupt::sleep(FOLLOW_INTERVAL)?;
        let keys = link.copy_changed(&mut session.servers)?;
        session.progress.show(&Phase::CatchingUp { keys });
        comparison.add_refused(&link);
        // Each time: the target may close connections that are idle.
        has_not_restarted(&mut session.servers.target, start.as_deref())?;
    }
    has_not_restarted(&mut session.servers.target, start.as_deref())?;
    if session.cli.switch && comparison.is_equal() {
        let switch = Switch {
            old: Side::Source,
            is_replica: false,
            is_reversed: false,
            is_fenced: !session.cli.no_fence,
        };
        link.time_max = session.cli.pause_max;
        switch.run(session, &mut link)?;
    }
    Ok(comparison)
}

/// Checks that the target has run since the copy began: it could have come back without some of it.
fn has_not_restarted(target: &mut Server, start: Option<&str>) -> Result<(), MigrateError> {
    if target.run_id()?.as_deref() == start {
        return Ok(());
    }
    let reason =
        "it has restarted since the copy began, and may lack keys: --overwrite copies all keys again";
    Err(MigrateError::server(target.name(), reason))
}

/// The copy of changed keys.
struct ScanLink {
    /// Absent with `--no-events`.
    events: Option<Events>,
    /// Whether the setting of the events can't be read.
    are_events_assumed: bool,
    copier: Copier,
    /// The error because of which the target does not have the functions.
    refused_functions: Option<String>,
    /// Maximum time of [`Link::settle`] for receiving the events.
    time_max: Duration,
}

impl ScanLink {
    /// Copies the keys that have changed, and returns their number.
    fn copy_changed(&mut self, servers: &mut Servers) -> Result<u64, MigrateError> {
        let Some(events) = &self.events else { return Ok(0) };
        let changed = events.take(servers.at_most(self.time_max))?;
        // Read after the events: until then, all have been published.
        if !self.are_events_assumed && !has_all_events(servers.source.setting(EVENTS_SETTING)?.as_deref()) {
            let reason = format!(
                "another client has changed {EVENTS_SETTING}, so changes are missing: --overwrite copies all keys again"
            );
            return Err(MigrateError::server(servers.source.name(), reason));
        }
        self.copier.copy_across(servers, &changed)?;
        Ok(changed.len() as u64)
    }
}

impl Link for ScanLink {
    fn settle(&mut self, servers: &mut Servers) -> Result<(), MigrateError> {
        self.copy_changed(servers).map(drop)
    }

    /// Copies all streams again, too.
    fn settle_all(&mut self, servers: &mut Servers) -> Result<(), MigrateError> {
        self.settle(servers)?;
        if self.events.is_some() {
            let streams: Vec<DatabaseKey> = self.copier.streams.iter().cloned().collect();
            self.copier.copy_across(servers, &streams)?;
        }
        Ok(())
    }

    fn skips_expired(&self) -> bool {
        true
    }

    fn refresh(&mut self, servers: &mut Servers, keys: &[&DatabaseKey]) -> Result<(), MigrateError> {
        if self.events.is_none() {
            return Ok(());
        }
        let is_stream = |key: &&&DatabaseKey| self.copier.streams.contains(**key);
        let streams: Vec<DatabaseKey> = keys.iter().filter(is_stream).map(|key| (*key).clone()).collect();
        self.copier.copy_across(servers, &streams)
    }

    fn refused(&self) -> Vec<(u64, String)> {
        let functions = self.refused_functions.as_ref();
        let functions = functions.map(|error| (1, format!("functions are not copied: {error}")));
        let keys = &self.copier.refused;
        let keys = keys.first_key_value().map(|((database, key), error)| {
            let (count, key) = (keys.len(), key.escape_ascii());
            (count as u64, format!("by the target: {count} keys, the first is db{database} '{key}': {error}"))
        });
        functions.into_iter().chain(keys).collect()
    }
}

fn switch_events_on(session: &mut Session<'_>) -> Result<(), MigrateError> {
    if session.cli.events.assume_events {
        return Ok(());
    }
    let name = session.servers.source.name();
    let refused = |reason: String| {
        MigrateError::refused(format!(
            "{name}: its keyspace events can't be switched on ({reason}). Set {EVENTS_SETTING} to EA in its settings and add \
             --assume-events, or copy without later changes with --no-events"
        ))
    };
    let Some(flags) = session.servers.source.setting(EVENTS_SETTING)? else {
        return Err(refused(format!("CONFIG GET {EVENTS_SETTING} has no reply")));
    };
    if has_all_events(Some(&flags)) {
        return Ok(());
    }
    session
        .change(Side::Source, EVENTS_SETTING, &format!("{flags}EA"))
        .map_err(|error| refused(error.to_string()))
}

/// Restores the earlier value of the setting, unless another client has changed it meanwhile.
fn restore_events(session: &mut Session<'_>) -> Result<(), MigrateError> {
    if !session.record.changed(Side::Source).contains(&EVENTS_SETTING) {
        return Ok(());
    }
    let flags = session.servers.source.setting(EVENTS_SETTING)?;
    session.restore(Side::Source, |name| name == EVENTS_SETTING)?;
    match flags {
        Some(flags) if !has_all_events(Some(&flags)) => session.servers.source.set(EVENTS_SETTING, &flags),
        _ => Ok(()),
    }
}

/// Whether a value of the setting stands for events of all kinds, by the name of the event.
fn has_all_events(flags: Option<&str>) -> bool {
    flags.is_some_and(|flags| flags.contains('E') && flags.contains('A'))
}

/// Copies the functions. Returns the error if there are some that the target does not get.
fn copy_functions(session: &mut Session<'_>) -> Result<Option<String>, MigrateError> {
    let Servers { source, target } = &mut session.servers;
    let list = source.try_call(&["FUNCTION", "LIST"])?;
    if let Reply::Error(text) = &list {
        let text = String::from_utf8_lossy(text);
        // Servers before Redis 7 have no functions.
        if !text.to_ascii_lowercase().contains("unknown command") {
            let name = source.name();
            session
                .progress
                .line(&format!("warning: {name}: functions are not copied: FUNCTION LIST: {text}"));
        }
        return Ok(None);
    }
    if list.elements().is_some_and(<[Reply]>::is_empty) {
        return Ok(None);
    }
    let (name, command, reply) = match source.try_call(&["FUNCTION", "DUMP"])? {
        Reply::Bulk(payload) => {
            let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &payload, b"REPLACE"];
            (target.name(), "RESTORE", target.try_call(&words)?)
        }
        refused => (source.name(), "DUMP", refused),
    };
    let Reply::Error(text) = reply else { return Ok(None) };
    let text = String::from_utf8_lossy(&text);
    Ok(Some(format!("{name}: FUNCTION {command}: {text}")))
}
