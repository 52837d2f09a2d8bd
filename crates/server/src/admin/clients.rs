//! Connections for `CLIENT`: listed, killed, unblocked and paused by their records, without stopping any worker.

use std::time::Duration;

use commands::host::{ClientFacts, ClientFilter, ClientKind};
use commands::session::{Session, SessionFlags};
use commands::subscriptions::SubscriptionKind;
use commands::table::NUMBERED;
use os::clock::{self, Uptime};
use sync::atomic::Ordering;
use wire::number::{write_i64, write_u64};

use crate::connection::client::UnblockReply;
use crate::connection::record::ClientRecord;
use crate::connection::token::Token;
use crate::mail::Mail;
use crate::shared::Shared;
use crate::shared::pause::PauseReason;

impl Shared {
    /// The lines of the connections that match the filter, ascending by id.
    pub fn client_lines(&self, filter: &ClientFilter) -> Vec<u8> {
        let now = clock::unix_millis();
        let all = self.clients.all();
        let keeps_all = filter.keeps_all();
        let mut text = Vec::with_capacity(if keeps_all { all.len() * LINE_SIZE_USUAL } else { 0 });
        for record in all {
            if keeps_all || filter.keeps(&facts(&record, now)) {
                write_line(&mut text, &record, now);
                text.push(b'\n');
            }
        }
        text
    }

    /// The line of a connection, without a line end; `None`: no connection has this id.
    pub fn client_line(&self, id: u64) -> Option<String> {
        let mut text = Vec::new();
        write_line(&mut text, &*self.clients.find(id)?, clock::unix_millis());
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Requests the workers to close the connections that match the filter. Returns their number, and whether
    /// `own` is one.
    pub fn kill_clients(&self, filter: &ClientFilter, own: u64) -> (u64, bool) {
        let now = clock::unix_millis();
        let mut count = 0;
        let mut includes_own = false;
        for record in self.clients.all() {
            if !filter.keeps(&facts(&record, now)) {
                continue;
            }
            // Others no longer see a connection that is being closed.
            if record.id == own {
                includes_own = true;
            } else if !self.clients.remove(record.id) {
                continue;
            } else {
                // It receives no more data, even if its worker is notified later.
                if let Some(waiter) = record.waiter() {
                    let _ = waiter.wait.end_or_request();
                }
                let token = record.place();
                self.workers.post(token.thread(), Mail::Kill(token, record.id));
            }
            count += 1;
        }
        (count, includes_own)
    }

    /// Ends the wait of a connection in a blocking command. Returns whether it was in one.
    pub fn unblock_client(&self, id: u64, with_error: bool) -> bool {
        let Some(record) = self.clients.find(id) else { return false };
        if !record.waiter().is_some_and(|waiter| waiter.wait.try_end()) {
            return false;
        }
        let how = if with_error { UnblockReply::Error } else { UnblockReply::Timeout };
        let token = record.place();
        self.workers.post(token.thread(), Mail::Unblock(token, id, how));
        true
    }

    /// Pauses clients for this time. A pause in force is extended, never shortened, and the stricter kind holds.
    pub fn pause_clients(&self, time: Duration, writes_only: bool) {
        let now = Uptime::now();
        self.modes.pause.begin(&self.modes.flags, PauseReason::Command, now, now.plus(time), writes_only);
    }

    /// Publishes what a line about the connection shows, before it is logged with a denial.
    pub fn publish_for_denial(&self, session: &Session) {
        // The session of a script does not have the texts that the client has set.
        if !session.flags.contains(SessionFlags::IN_SCRIPT) {
            self.publish_session(session);
        } else if let Some(record) = self.clients.find(session.id) {
            record.publish(session);
        }
    }

    /// Publishes a command's changes of its connection.
    pub fn publish_session(&self, session: &Session) {
        let Some(record) = self.clients.find(session.id) else { return };
        record.publish(session);
        record.buffers.query.set(0);
        record.buffers.query_free.set(0);
        let mut texts = record.texts();
        texts.names.clone_from(&session.names);
        texts.user.clear();
        texts.user.extend_from_slice(session.login.user.name());
    }
}

fn idle_seconds(record: &ClientRecord) -> u64 {
    let active_at = Uptime::from_raw(record.active_at.load(Ordering::Relaxed));
    u64::try_from(Uptime::now().ms_since(active_at)).unwrap_or(0) / 1000
}

fn seconds_since(now: i64, then: i64) -> u64 {
    u64::try_from(now - then).unwrap_or(0) / 1000
}

fn facts(record: &ClientRecord, now: i64) -> ClientFacts {
    let texts = record.texts().clone();
    ClientFacts {
        id: record.id,
        kind: match record.is_primary {
            true => ClientKind::Primary,
            false if has_flag(record, SessionFlags::REPLICA) => ClientKind::Replica,
            false if record.has_subscriptions() => ClientKind::Pubsub,
            false => ClientKind::Normal,
        },
        peer: record.endpoints.peer.clone(),
        local: record.endpoints.local.clone(),
        user: texts.user,
        name: texts.names.client,
        lib_name: texts.names.library,
        lib_version: texts.names.library_version,
        db: record.session.db.value() as u16,
        flags: flags(record),
        capa: capa(record).to_owned(),
        idle_seconds: idle_seconds(record),
        age_seconds: seconds_since(now, record.endpoints.connected_at.0),
    }
}

fn has_flag(record: &ClientRecord, flag: SessionFlags) -> bool {
    SessionFlags::from_bits_truncate(record.session.flags.value() as u32).contains(flag)
}

fn capa(record: &ClientRecord) -> &'static str {
    if record.session.follows_redirects.value() != 0 { "r" } else { "" }
}

/// The letters of the flags in force; `N` if there are none.
fn flags(record: &ClientRecord) -> String {
    let set = SessionFlags::from_bits_truncate(record.session.flags.value() as u32);
    let letters = [
        ('M', record.is_primary),
        ('S', set.contains(SessionFlags::REPLICA)),
        ('C', set.contains(SessionFlags::SNAPSHOT_CHANNEL)),
        ('O', set.contains(SessionFlags::MONITOR)),
        ('P', set.contains(SessionFlags::SUBSCRIBED)),
        ('x', record.session.multi.value() != 0),
        ('b', record.session.blocked.value() != 0),
        ('t', set.contains(SessionFlags::TRACKING)),
        ('R', set.contains(SessionFlags::BROKEN_REDIRECT)),
        ('B', set.contains(SessionFlags::TRACKING_BCAST)),
        ('d', set.contains(SessionFlags::DIRTY_CAS)),
        ('c', set.contains(SessionFlags::CLOSE_AFTER_REPLY)),
        ('U', record.endpoints.is_unix),
        ('r', set.contains(SessionFlags::SHOWN_READONLY)),
        ('e', set.contains(SessionFlags::NO_EVICT)),
        ('T', set.contains(SessionFlags::NO_TOUCH)),
        ('I', record.session.is_import_source.value() != 0),
    ];
    let shown: String = letters.into_iter().filter_map(|(letter, is_set)| is_set.then_some(letter)).collect();
    if shown.is_empty() { "N".to_owned() } else { shown }
}

/// The approximate size of a line, in bytes.
const LINE_SIZE_USUAL: usize = 400;

/// Writes the line of `CLIENT LIST`, with the fields of Valkey 9 in their order.
fn write_line(out: &mut Vec<u8>, record: &ClientRecord, now: i64) {
    let texts = record.texts();
    let pending = record.buffers.output.value();
    let command = match (record.session.last_command.value() as usize).checked_sub(1) {
        Some(number) => NUMBERED.get(number).map_or("NULL", |(name, _)| name.as_str()),
        None => "NULL",
    };
    let count_of = |kind: SubscriptionKind| record.session.name_counts[kind as usize].value();
    let mut line = Line(out);
    line.number("id=", record.id);
    line.text(" addr=", record.endpoints.peer.as_bytes());
    line.text(" laddr=", record.endpoints.local.as_bytes());
    line.signed(" fd=", record.endpoints.fd.into());
    line.text(" name=", &texts.names.client);
    line.number(" age=", seconds_since(now, record.endpoints.connected_at.0));
    line.number(" idle=", idle_seconds(record));
    line.text(" flags=", flags(record).as_bytes());
    line.text(" capa=", capa(record).as_bytes());
    line.number(" db=", record.session.db.value());
    line.number(" sub=", count_of(SubscriptionKind::Channel));
    line.number(" psub=", count_of(SubscriptionKind::Pattern));
    line.number(" ssub=", count_of(SubscriptionKind::ShardChannel));
    line.signed(" multi=", record.session.multi.value() as i64 - 1);
    line.number(" watch=", record.session.watch_count.value());
    line.number(" qbuf=", record.buffers.query.value());
    line.number(" qbuf-free=", record.buffers.query_free.value());
    line.number(" argv-mem=0 multi-mem=", record.session.multi_bytes.value());
    line.number(" rbs=", record.buffers.reply.value());
    line.number(" rbp=", record.buffers.reply_peak.value());
    line.number(" obl=0 oll=", u64::from(pending > 0));
    line.number(" omem=", pending);
    line.number(" tot-mem=", record.memory_bytes.value());
    line.text(" events=", if pending > 0 { b"rw" } else { b"r" });
    line.text(" cmd=", command.as_bytes());
    line.text(" user=", &texts.user);
    line.signed(" redir=", record.redirect_shown());
    line.number(" resp=", record.session.resp.value());
    line.text(" lib-name=", &texts.names.library);
    line.text(" lib-ver=", &texts.names.library_version);
    line.number(" tot-net-in=", record.received_bytes.value());
    line.number(" tot-net-out=", record.sent_bytes.value());
    line.number(" tot-cmds=", record.session.command_count.value());
}

/// A line of fields. Does not use the standard formatter, as there may be very many lines.
struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn text(&mut self, name: &str, text: &[u8]) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(text);
    }

    fn number(&mut self, name: &str, number: u64) {
        self.0.extend_from_slice(name.as_bytes());
        write_u64(self.0, number);
    }

    fn signed(&mut self, name: &str, number: i64) {
        self.0.extend_from_slice(name.as_bytes());
        write_i64(self.0, number);
    }
}

impl ClientRecord {
    /// The session's flags.
    pub fn session_flags(&self) -> SessionFlags {
        SessionFlags::from_bits_truncate(self.session.flags.value() as u32)
    }

    /// Whether it has subscriptions.
    pub fn has_subscriptions(&self) -> bool {
        self.session_flags().contains(SessionFlags::SUBSCRIBED)
    }

    /// The number in `redir=`: -1 without tracking, 0 without a redirection.
    fn redirect_shown(&self) -> i64 {
        if self.session_flags().contains(SessionFlags::TRACKING) {
            self.session.redirect.value() as i64
        } else {
            -1
        }
    }

    /// Whether it may be closed to free memory.
    pub fn is_evictable(&self) -> bool {
        !self.is_primary && !self.session_flags().intersects(SessionFlags::NO_EVICT | SessionFlags::REPLICA)
    }

    /// Its token, if that worker serves it.
    pub fn token_on(&self, thread: usize) -> Option<Token> {
        Some(self.place()).filter(|token| token.thread() == thread)
    }
}
