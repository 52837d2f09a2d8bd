//! `--by-scan`: for sources that refuse replication, a copy by `SCAN`, `DUMP` and `RESTORE`. Keyspace events name the keys
//! that change meanwhile, which are copied again.
//!
//! Weaker than replication: the target never shows the state of one instant, a transaction arrives key by key, changes
//! without events (`FLUSHALL`, `FLUSHDB`, `SWAPDB`) are noticed by the numbers of keys only, and scripts, ACL users and
//! settings are not copied. Under paused writes, the last events make both equal.

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
use crate::servers::{Link, Servers};
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
    let restored = session.restore(Side::Source, |name| name == EVENTS_SETTING);
    let comparison = result?;
    restored?;
    session.record.remove_if_empty()?;
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
    let mut link =
        ScanLink { events, copier: Copier::new(&mut session.servers.source)?, time_max: session.cli.timeout };
    link.copier.copy_all(&mut session.servers, &mut session.progress)?;
    copy_functions(session)?;
    session.progress.show(&Phase::CatchingUp { keys: 0 });
    link.settle(&mut session.servers)?;
    let (source, target) = (session.servers.source.keyspace()?, session.servers.target.keyspace()?);
    if !has_equal_counts(&source, &target) {
        link.copier.reconcile(&mut session.servers)?;
        link.settle(&mut session.servers)?;
    }
    let mut comparison =
        compare::run(&mut session.servers, &mut link, session.cli.sample, &mut session.progress)?;
    if let Some(first) = &link.copier.first_refused {
        comparison.difference_count += link.copier.refused_count;
        let line =
            format!("  REFUSED by the target: {} keys, the first is {first}", link.copier.refused_count);
        comparison.lines.push(line);
    }
    while session.cli.follow {
        interrupt::sleep(FOLLOW_INTERVAL)?;
        let keys = link.copy_changed(&mut session.servers)?;
        session.progress.show(&Phase::CatchingUp { keys });
    }
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

/// The copy of changed keys.
struct ScanLink {
    /// Absent with `--no-events`.
    events: Option<Events>,
    copier: Copier,
    /// Maximum time of [`Link::settle`] for receiving the events.
    time_max: Duration,
}

impl ScanLink {
    /// Copies the keys that have changed, and returns their number.
    fn copy_changed(&mut self, servers: &mut Servers) -> Result<u64, MigrateError> {
        let Some(events) = &self.events else { return Ok(0) };
        let changed = events.take(servers.at_most(self.time_max))?;
        for same in changed.chunk_by(|one, other| one.0 == other.0) {
            let keys: Vec<Vec<u8>> = same.iter().map(|(_, key)| key.clone()).collect();
            self.copier.copy(servers, same[0].0, &keys)?;
        }
        Ok(changed.len() as u64)
    }
}

impl Link for ScanLink {
    fn settle(&mut self, servers: &mut Servers) -> Result<(), MigrateError> {
        self.copy_changed(servers).map(drop)
    }

    fn skips_expired(&self) -> bool {
        true
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
    if flags.contains('E') && flags.contains('A') {
        return Ok(());
    }
    session
        .change(Side::Source, EVENTS_SETTING, &format!("{flags}EA"))
        .map_err(|error| refused(error.to_string()))
}

fn copy_functions(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let Reply::Bulk(payload) = session.servers.source.try_call(&["FUNCTION", "DUMP"])? else { return Ok(()) };
    let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &payload, b"REPLACE"];
    if let Reply::Error(text) = session.servers.target.try_call(&words)? {
        let text = String::from_utf8_lossy(&text);
        session.progress.line(&format!("warning: functions are not copied: {text}"));
    }
    Ok(())
}
