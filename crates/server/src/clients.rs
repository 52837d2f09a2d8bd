//! Connections as `CLIENT` shows and treats them, read from their records without stopping any thread.

use std::sync::atomic::Ordering;

use base::Millis;
use commands::host::{ClientFacts, ClientFilter, ClientKind};
use commands::listening::{TOPICS, Topic};
use commands::session::{BlockReason, Blocked, Session, SessionFlags};
use commands::table::NUMBERED;
use reactor::clock;
use wire::reply::Protocol;

use crate::connection::Token;
use crate::mail::{Mail, UnblockReply};
use crate::registry::{
    BLOCKED_BY_PAUSE, BLOCKED_BY_SHUTDOWN, BLOCKED_FOR_KEYS, BLOCKED_FOR_REPLICAS, BLOCKED_WITH_TIMEOUT,
    ClientRecord,
};
use crate::shared::{Attention, Shared};

impl Shared {
    /// The lines of the connections that the filter keeps, ascending by id.
    pub fn client_lines(&self, filter: &ClientFilter) -> Vec<String> {
        let now = clock::unix_millis();
        self.clients
            .all()
            .iter()
            .filter(|record| filter.keeps(&facts(record, now)))
            .map(|record| line(record, now))
            .collect()
    }

    /// Asks the threads to close the connections that the filter keeps. Their number, and whether `own` is one.
    pub fn kill_clients(&self, filter: &ClientFilter, own: u64) -> (u64, bool) {
        let now = clock::unix_millis();
        let mut count = 0;
        let mut own_too = false;
        for record in self.clients.all() {
            if !filter.keeps(&facts(&record, now)) {
                continue;
            }
            // What is being closed already is not there any more for others.
            if record.id == own {
                own_too = true;
            } else if !self.clients.remove(record.id) {
                continue;
            } else {
                // It takes nothing any more, even if its thread hears of it a moment later.
                if let Some(waiter) = record.waiter() {
                    let _ = waiter.wait.end_or_ask();
                }
                let token = record.place();
                self.seats.post(token.thread(), Mail::Kill(token, record.id));
            }
            count += 1;
        }
        (count, own_too)
    }

    /// Ends the wait of a connection in a blocking command. Whether it was in one.
    pub fn unblock_client(&self, id: u64, with_error: bool) -> bool {
        let Some(record) = self.clients.find(id) else { return false };
        if !record.waiter().is_some_and(|waiter| waiter.wait.try_end()) {
            return false;
        }
        let how = if with_error { UnblockReply::Error } else { UnblockReply::Timeout };
        let token = record.place();
        self.seats.post(token.thread(), Mail::Unblock(token, id, how));
        true
    }

    /// Pauses clients until then, or longer if they are paused for longer already; likewise for all rather than for
    /// those that write.
    pub fn pause_clients(&self, until: Millis, writes_only: bool) {
        if self.pause_until.load(Ordering::Acquire) <= clock::unix_millis() {
            self.attention.set(Attention::ANY_PAUSE, false);
        }
        self.pause_until.fetch_max(until.0, Ordering::AcqRel);
        self.attention.set(if writes_only { Attention::PAUSED_WRITES } else { Attention::PAUSED }, true);
    }

    /// Publishes what a command changed of its connection.
    pub fn publish_session(&self, session: &Session) {
        let Some(record) = self.clients.find(session.id) else { return };
        publish(&record, session);
        record.query_bytes.set(0);
        record.query_free_bytes.set(0);
        let mut texts = record.texts();
        texts.name.clone_from(&session.name);
        texts.lib_name.clone_from(&session.lib_name);
        texts.lib_version.clone_from(&session.lib_version);
        texts.user.clone_from(&session.user);
    }
}

/// The numbers of a session that others may read.
pub fn publish(record: &ClientRecord, session: &Session) {
    record.db.set(u64::from(session.db.0));
    let mut flags = session.flags;
    flags.set(SessionFlags::DIRTY_CAS, session.has_watched_change());
    record.flags.set(u64::from(flags.bits()));
    record.follows_redirects.set(u64::from(session.follows_redirects));
    record.is_import_source.set(u64::from(session.is_import_source));
    record.resp.set(if session.protocol == Protocol::Resp3 { 3 } else { 2 });
    record.multi.set(session.multi.as_ref().map_or(0, |queue| queue.requests.len() as u64 + 1));
    record.multi_bytes.set(session.multi.as_ref().map_or(0, |queue| queue.size as u64));
    record.last_command.set(session.last_command.map_or(0, |id| u64::from(id.0) + 1));
    record.command_count.set(session.command_count);
    record.watch_count.set(session.watching.as_ref().map_or(0, |watching| watching.len() as u64));
    record.redirect.set(session.tracking.as_ref().map_or(0, |tracking| tracking.redirect));
    for topic in TOPICS {
        record.name_counts[topic as usize].set(session.name_count(topic) as u64);
    }
    record.blocked.set(session.blocked.as_ref().map_or(0, blocked_number));
}

fn blocked_number(blocked: &Blocked) -> u64 {
    let reason = match blocked.reason {
        // It is not blocked by anything that a client could know of.
        BlockReason::Congestion | BlockReason::Turns => return 0,
        BlockReason::Pause => BLOCKED_BY_PAUSE,
        BlockReason::Replicas { .. } | BlockReason::Disk => BLOCKED_FOR_REPLICAS,
        BlockReason::Shutdown => BLOCKED_BY_SHUTDOWN,
        BlockReason::Keys(_) => BLOCKED_FOR_KEYS,
    };
    let has_end = blocked.until.is_some() && blocked.reason != BlockReason::Pause;
    reason + if has_end { BLOCKED_WITH_TIMEOUT } else { 0 }
}

fn seconds_since(now: i64, then: i64) -> u64 {
    u64::try_from(now - then).unwrap_or(0) / 1000
}

fn facts(record: &ClientRecord, now: i64) -> ClientFacts {
    let texts = record.texts().clone();
    ClientFacts {
        id: record.id,
        kind: if record.is_listener() { ClientKind::Pubsub } else { ClientKind::Normal },
        peer: record.peer.clone(),
        local: record.local.clone(),
        user: texts.user,
        name: texts.name,
        lib_name: texts.lib_name,
        lib_version: texts.lib_version,
        db: record.db.value() as u16,
        flags: flags(record),
        capa: capa(record).to_owned(),
        idle_seconds: seconds_since(now, record.active_at.load(Ordering::Relaxed)),
        age_seconds: seconds_since(now, record.connected_at),
    }
}

fn capa(record: &ClientRecord) -> &'static str {
    if record.follows_redirects.value() != 0 { "r" } else { "" }
}

/// The letters of what is switched on; `N` if nothing is.
fn flags(record: &ClientRecord) -> String {
    let set = SessionFlags::from_bits_truncate(record.flags.value() as u32);
    let letters = [
        ('O', set.contains(SessionFlags::MONITOR)),
        ('P', set.contains(SessionFlags::LISTENING)),
        ('x', record.multi.value() != 0),
        ('b', record.blocked.value() != 0),
        ('t', set.contains(SessionFlags::TRACKING)),
        ('R', set.contains(SessionFlags::BROKEN_REDIRECT)),
        ('B', set.contains(SessionFlags::TRACKING_BCAST)),
        ('d', set.contains(SessionFlags::DIRTY_CAS)),
        ('c', set.contains(SessionFlags::CLOSE_AFTER_REPLY)),
        ('U', record.is_unix),
        ('e', set.contains(SessionFlags::NO_EVICT)),
        ('T', set.contains(SessionFlags::NO_TOUCH)),
        ('I', record.is_import_source.value() != 0),
    ];
    let shown: String = letters.into_iter().filter_map(|(letter, is_set)| is_set.then_some(letter)).collect();
    if shown.is_empty() { "N".to_owned() } else { shown }
}

/// The line of `CLIENT LIST`, with the fields of Valkey 9 in their order.
fn line(record: &ClientRecord, now: i64) -> String {
    let texts = record.texts().clone();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pending = record.output_bytes.value();
    let command = match (record.last_command.value() as usize).checked_sub(1) {
        Some(number) => NUMBERED.get(number).map_or("NULL", |(name, _)| name.as_str()),
        None => "NULL",
    };
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} capa={} db={} sub={} psub={} ssub={} multi={} \
         watch={} qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl=0 oll={} omem={pending} tot-mem={} \
         events={} cmd={command} user={} redir={} resp={} lib-name={} lib-ver={} tot-net-in={} tot-net-out={} \
         tot-cmds={}",
        record.id,
        record.peer,
        record.local,
        record.fd,
        text(&texts.name),
        seconds_since(now, record.connected_at),
        seconds_since(now, record.active_at.load(Ordering::Relaxed)),
        flags(record),
        capa(record),
        record.db.value(),
        record.name_counts[Topic::Channel as usize].value(),
        record.name_counts[Topic::Pattern as usize].value(),
        record.name_counts[Topic::ShardChannel as usize].value(),
        record.multi.value() as i64 - 1,
        record.watch_count.value(),
        record.query_bytes.value(),
        record.query_free_bytes.value(),
        record.multi_bytes.value(),
        record.reply_buffer_bytes.value(),
        record.reply_buffer_peak.value(),
        u8::from(pending > 0),
        record.memory_bytes.value(),
        if pending > 0 { "rw" } else { "r" },
        texts.user,
        record.redirect_shown(),
        record.resp.value(),
        text(&texts.lib_name),
        text(&texts.lib_version),
        record.received_bytes.value(),
        record.sent_bytes.value(),
        record.command_count.value(),
    )
}

impl ClientRecord {
    /// What is switched on for it.
    pub fn session_flags(&self) -> SessionFlags {
        SessionFlags::from_bits_truncate(self.flags.value() as u32)
    }

    /// Whether it is in the mode for listening.
    pub fn is_listener(&self) -> bool {
        self.session_flags().contains(SessionFlags::LISTENING)
    }

    /// The number in `redir=`: -1 without tracking, 0 without a redirection.
    fn redirect_shown(&self) -> i64 {
        if self.session_flags().contains(SessionFlags::TRACKING) { self.redirect.value() as i64 } else { -1 }
    }

    /// Whether it may be closed to free memory.
    pub fn is_evictable(&self) -> bool {
        let flags = SessionFlags::from_bits_truncate(self.flags.value() as u32);
        !flags.contains(SessionFlags::NO_EVICT)
    }

    /// Its token, if it is served by that thread.
    pub fn token_on(&self, thread: usize) -> Option<Token> {
        Some(self.place()).filter(|token| token.thread() == thread)
    }
}
