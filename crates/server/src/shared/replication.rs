//! Replication as the server's threads see it.

use base::Lsn;
use base::limits::THREAD_COUNT_MAX;
use config::{ClientClass, Config};
use replication::feed::Feed;
use replication::{History, ReplicationId};
use std::sync::Arc;
use sync::DurableLsn;
use sync::simulation::planted;
use sync::write_log::{Audience, WriteLog};

use super::Shared;
use super::failover::Failover;
use super::loading::StreamPosition;
use super::replicas::Replicas;
use super::role::Role;
use crate::faults;
use crate::mail::{Mail, Workers};
use crate::process::identity::random_id;

/// The token of the feed's reader of the log, which never sleeps.
const FEED_READER: u64 = 1;

/// The state of replication.
pub struct Replication {
    /// The stream for replicas.
    pub feed: Feed,
    /// The offset of the end of the stream, for the workers that wait for it to move (as an LSN).
    pub fed: Arc<DurableLsn>,
    /// The role of the server.
    pub role: Role,
    /// The replicas of this server.
    pub replicas: Replicas,
    /// A planned change of roles with one of them.
    pub failover: Failover,
}

impl Replication {
    /// Replication of a server without replicas.
    pub(super) fn new(config: &Config, workers: &'static Workers) -> Self {
        let fed = Arc::new(DurableLsn::new(Lsn(0), THREAD_COUNT_MAX));
        let moved = Arc::clone(&fed);
        let moved = move |end| moved.advance(Lsn(end), |thread| workers.post(thread, Mail::Nothing));
        let replication = Self {
            feed: Feed::new(random_replication_id(), config.repl_backlog_size, moved),
            fed,
            role: Role::default(),
            replicas: Replicas::new(workers),
            failover: Failover::default(),
        };
        replication.follow_config(config);
        replication
    }

    /// Whether the server is a replica.
    #[must_use]
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.role.is_replica()
    }

    /// The number of replicas that have applied everything up to an LSN, and of those that have it on disk.
    #[must_use]
    pub fn acknowledged_counts(&self, lsn: Lsn) -> (i64, i64) {
        if self.replicas.is_empty() {
            return (0, 0);
        }
        self.replicas.acknowledged(if planted(faults::EARLY_WAIT) { 0 } else { self.feed.offset_of(lsn) })
    }

    /// Makes the log go to the feed, if it does not yet. All latches are held.
    pub fn switch_on(&self, log: &Arc<WriteLog>) {
        if self.feed.is_on() {
            return;
        }
        let audience = if planted(faults::SENT_RANGE) { Audience::All } else { Audience::Replicas };
        match log.attach(FEED_READER, audience) {
            Some(reader) => self.feed.begin(reader),
            None => log::error!("The write log has too many readers"),
        }
    }

    /// Makes the log go to the feed, and begins a history at an offset, if one is given. All latches are held, or nothing
    /// changes data yet.
    pub fn begin_stream(&self, log: &Arc<WriteLog>, from: Option<(History, u64)>) {
        self.switch_on(log);
        let _unlatched = log.hold_unlatched();
        if let Some((history, offset)) = from {
            self.feed.reset(history, offset);
        }
        log.forget_database();
    }

    /// Follows a change of the configuration.
    pub fn follow_config(&self, config: &Config) {
        let limit = config.client_output_buffer_limit.of(ClientClass::Replica).hard_size;
        self.feed.configure(config.repl_backlog_size, limit);
    }
}

/// A new id for the data.
#[must_use]
pub fn random_replication_id() -> ReplicationId {
    ReplicationId::parse(random_id().as_bytes()).expect("it has 40 digits")
}

impl Shared {
    /// Gives the data another id, so that replicas synchronise anew (`DEBUG CHANGE-REPL-ID`).
    pub fn change_replication_id(&self) {
        self.replication.feed.change_id(random_replication_id());
    }

    /// Continues the stream of a restarted primary, whose data have this position: from there on replicas continue, and the data
    /// have a new id. Called before there are changes.
    pub fn continue_stream(&self, position: &StreamPosition) {
        // Others may have continued with the id.
        let history = History::continued(random_replication_id(), position.id, position.offset);
        self.replication.begin_stream(&self.keyspace.log, Some((history, position.offset)));
    }

    /// The properties of a snapshot that is cut now: the position in the stream, if changes are counted, and no data are being
    /// loaded. All latches are held.
    #[must_use]
    pub fn stream_properties(&self) -> Vec<(&'static str, String)> {
        if !self.replication.feed.is_on() || self.modes.is_loading() {
            return Vec::new();
        }
        let _unlatched = self.keyspace.log.hold_unlatched();
        self.stream_position().properties()
    }

    /// The position in the stream of the present data. All latches are held, and appends without latches are held away.
    #[must_use]
    pub fn stream_position(&self) -> StreamPosition {
        let feed = &self.replication.feed;
        let db = self.replication.role.applied_db();
        if db.is_none() && !planted(faults::LOST_SELECT) {
            // A replica that continues from here needs what selects the database of the next change.
            self.keyspace.log.forget_database();
        }
        let offset = feed.move_now();
        StreamPosition { id: feed.history().id(), offset, db: db.unwrap_or_default() }
    }

    /// The offset up to which the stream is durable in the append-only file; `None`: there is none, or its base is not complete.
    #[must_use]
    pub fn durable_offset(&self) -> Option<u64> {
        let append_only = &self.persistence.append_only;
        let end = append_only.durable.end();
        let is_durable = self.config.load().appendonly && append_only.is_durable(end);
        if is_durable { self.replication.feed.offset_below(end) } else { None }
    }

    /// The histories of the data.
    #[must_use]
    pub fn history(&self) -> History {
        self.replication.feed.history()
    }
}
