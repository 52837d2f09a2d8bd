//! Full synchronisation: a snapshot goes to the replicas that wait, and its cut is the place in the stream from which each
//! continues.
//!
//! At the cut, under all latches, the feed is moved up to the end of the log, so that the snapshot has exactly what is below
//! the offset, and each replica gets a cursor there. A replica that does not read fast enough is dropped by the pass
//! (`persist::snapshots::SnapshotOutput`), which never waits for it longer than changes of clients can.

use std::path::PathBuf;
use std::sync::Arc;

use base::DbIndex;
use os::clock::Uptime;
use persist::snapshots::{Done, Recipient, Request, SaveError, SnapshotPurpose};
use rdb::Family;
use sync::atomic::Ordering;

use super::outputs::{DirectOutput, FileFirst, Target};
use crate::connection::replica::{Replica, ReplicaState};
use crate::persistence::saving;
use crate::shared::Shared;
use crate::shared::loading::StreamPosition;
use crate::shared::modes::GlobalFlags;
use crate::shared::replicas::ServedReplicas;
use crate::shared::replication::random_replication_id;

impl Shared {
    /// Begins a snapshot for the replicas that wait, if it is due and no other one is being taken. Called every tick, and when
    /// a replica begins to wait.
    pub fn begin_full_sync_if_due(&'static self) {
        let replicas = &self.replication.replicas;
        // Before their states are read: one thread at a time begins a pass for them.
        let mut pass = replicas.lock_pass();
        let all = replicas.all();
        let is_waiting = |replica: &Arc<Replica>| replica.state() == ReplicaState::Waiting;
        let (without_keys, waiting): (Vec<_>, Vec<_>) =
            all.into_iter().filter(is_waiting).partition(|replica| replica.declared.excludes_keys());
        if without_keys.len() + waiting.len() == 0 || self.modes.is_loading() || self.modes.is_stopping() {
            return;
        }
        without_keys.iter().for_each(|replica| self.send_without_keys(replica));
        let Some(first) = waiting.first() else { return };
        let config = self.config.load();
        let waited_ms = Uptime::now().to_raw() - first.since;
        let delay_ms = match config.repl_diskless_sync {
            true => i64::from(config.repl_diskless_sync_delay) * 1000,
            false => 0,
        };
        let is_enough = config.repl_diskless_sync_max_replicas > 0
            && waiting.len() >= config.repl_diskless_sync_max_replicas as usize;
        if waited_ms < delay_ms && !is_enough {
            return;
        }
        if self.snapshots.is_busy() {
            if !replicas.is_delay_logged.swap(true, Ordering::Relaxed) {
                match self.snapshots.status.is_for_replicas() {
                    true => log::info!("Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC"),
                    false => log::info!(
                        "The synchronisation of replicas begins when the snapshot that is being taken is complete"
                    ),
                }
            }
            return;
        }
        let family = first.family();
        let (served, others): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|replica| replica.family() == family);
        let settings = saving::settings(self).for_replicas(family);
        let count = served.len();
        let together = Arc::new(ServedReplicas::new(served.clone()));
        let recipients = self.recipients(&served, &together);
        let target =
            match (config.repl_diskless_sync, served.iter().all(|replica| replica.declared.is_channel)) {
                (false, _) => "disk",
                (true, true) => "replicas sockets (rdb-channel)",
                (true, false) => "replicas sockets",
            };
        let at_cut = Box::new(move || self.cut_for(&served));
        let request = Request { purpose: SnapshotPurpose::Replicas, recipients, settings, at_cut };
        if let Ok(id) = self.snapshots.begin(request) {
            *pass = Some((id, Arc::downgrade(&together)));
            drop(pass);
            drop(together);
            // They may have ended meanwhile.
            self.end_pass_without_replicas();
            replicas.is_delay_logged.store(false, Ordering::Relaxed);
            log::info!("Starting BGSAVE for SYNC with target: {target}");
            if count > 1 {
                log::info!("{count} replicas share the snapshot");
            }
            if !others.is_empty() {
                let (this, next) = match family {
                    Family::Redis => ("Redis", "Valkey"),
                    Family::Valkey => ("Valkey", "Redis"),
                };
                log::info!(
                    "This snapshot is for replicas that read {this}'s format; {} that read {next}'s get the next one",
                    others.len()
                );
            }
        }
    }

    /// Ends the pass for replicas if all of them are gone.
    pub fn end_pass_without_replicas(&self) {
        let mut pass = self.replication.replicas.lock_pass();
        let Some((id, served)) = &*pass else { return };
        if served.upgrade().is_none_or(|served| served.present_count() > 0) {
            return;
        }
        if self.snapshots.is_running(*id) {
            log::info!("Diskless rdb transfer, last replica dropped, killing fork child.");
            self.snapshots.cancel_only(*id);
        }
        *pass = None;
    }

    /// The recipients of a snapshot for these replicas. Those that must know its size share a file.
    fn recipients(&'static self, served: &[Arc<Replica>], together: &Arc<ServedReplicas>) -> Vec<Recipient> {
        let config = self.config.load();
        let is_direct = |replica: &Arc<Replica>| config.repl_diskless_sync && replica.declared.accepts_mark;
        let (direct, by_file): (Vec<_>, Vec<_>) = served.iter().cloned().partition(is_direct);
        let target = |replica: &Arc<Replica>| Target {
            shared: self,
            replica: Arc::clone(replica),
            served: Arc::clone(together),
        };
        let direct_one = |replica: Arc<Replica>| Recipient {
            output: Box::new(DirectOutput::new(target(&replica))),
            done: self.note_end_for(vec![replica]),
        };
        let mut recipients: Vec<_> = direct.into_iter().map(direct_one).collect();
        if let Some(first) = by_file.first() {
            let name = format!("temp-replica-{}-{}.rdb", std::process::id(), first.record.id);
            let targets = by_file.iter().map(target).collect();
            let output = FileFirst::new(targets, PathBuf::from(&config.dir).join(name));
            recipients.push(Recipient { output: Box::new(output), done: self.note_end_for(by_file) });
        }
        recipients
    }

    /// What follows the end of a snapshot for these replicas. Only the cut moves them on before.
    fn note_end_for(&'static self, replicas: Vec<Arc<Replica>>) -> Done {
        Box::new(move |result: Result<_, SaveError>| {
            for replica in &replicas {
                let Err(error) = &result else {
                    log::info!("Snapshot for replica {} is complete", replica.address());
                    continue;
                };
                let what = match replica.family() {
                    Family::Redis => "Background transfer error",
                    Family::Valkey => "Background RDB transfer error",
                };
                log::warn!("{what}: snapshot for replica {} has failed: {error}", replica.address());
                self.end_replica(replica);
            }
        })
    }

    /// Sends a snapshot without keys, which needs no cut: the libraries of functions, if they are wanted.
    fn send_without_keys(&'static self, replica: &Arc<Replica>) {
        if !replica.change_state(ReplicaState::Waiting, ReplicaState::Receiving) {
            return;
        }
        let libraries = match replica.declared.includes_functions {
            true => self.snapshots.libraries(),
            false => Vec::new(),
        };
        let position = StreamPosition {
            id: self.history().id(),
            offset: self.replication.feed.end_offset(),
            db: DbIndex::default(),
        };
        let mut bytes = self.answer_at_cut(replica, &position).unwrap_or_default().into_bytes();
        let snapshot = persist::snapshots::without_keys(&libraries);
        replica.begin_snapshot(false);
        bytes.extend_from_slice(format!("${}\r\n", snapshot.len()).as_bytes());
        bytes.extend(snapshot);
        log::info!("Sending {} libraries, and no keys, to replica {}", libraries.len(), replica.address());
        let _ = replica.pipe.push_last(bytes);
        self.replication.replicas.wake(replica);
    }

    /// The cut of a snapshot for replicas. All latches are held.
    fn cut_for(&'static self, served: &[Arc<Replica>]) -> Vec<(&'static str, String)> {
        // A load that has begun in the meantime sets it before it acquires the latches.
        if self.modes.flags.is_set(GlobalFlags::LOADING) {
            log::warn!(
                "No snapshot is sent to replicas, which have to connect again: the data are being loaded"
            );
            served.iter().for_each(|replica| self.end_replica(replica));
            return Vec::new();
        }
        let (feed, log) = (&self.replication.feed, &self.keyspace.log);
        let had_backlog = feed.is_on();
        if !had_backlog {
            // Changes before were not counted: no replica has these data at this offset.
            feed.change_id(random_replication_id());
            self.replication.switch_on(log);
        }
        // Until the cursors are taken: a message in between would be counted by the offset of none of the replicas.
        let _unlatched = log.hold_unlatched();
        let position = self.stream_position();
        for replica in served {
            if !replica.change_state(ReplicaState::Waiting, ReplicaState::Receiving) {
                continue;
            }
            match replica.declared.is_channel {
                true => {
                    let backlog =
                        if had_backlog { "tracking repl-backlog tail" } else { "no repl-backlog to track" };
                    log::debug!(
                        "Add rdb replica {} at the cut of its snapshot, {backlog}",
                        replica.address()
                    );
                    self.begin_stream_of(replica);
                }
                false => replica.set_cursor(feed.attach_at_end()),
            }
            if let Some(answer) = self.answer_at_cut(replica, &position) {
                let _ = replica.pipe.push(answer.into_bytes());
            }
            if replica.state() == ReplicaState::Gone {
                // Its worker may have looked for its cursor before.
                self.release_stream_of(replica);
                continue;
            }
            self.replication.replicas.full_count.fetch_add(1, Ordering::Relaxed);
            self.replication.replicas.wake(replica);
        }
        self.begin_stop_after_snapshot();
        position.properties()
    }

    /// Ends the connection of a replica whose snapshot has failed, and the stream that belongs to it.
    pub(super) fn end_replica(&self, replica: &Arc<Replica>) {
        self.end_stream_of(replica);
        replica.end();
        self.replication.replicas.wake(replica);
    }

    /// Whether messages of the server itself must not move the end of the stream.
    pub fn holds_stream_end(&self) -> bool {
        self.replication.failover.holds_end()
            || self.modes.shutdown.holds_stream_end()
            || self.modes.is_stopping()
    }

    /// The periodic work for replicas: snapshots, `PING`, the end of the backlog, and whether there are enough for writes.
    pub fn care_for_replicas(&'static self, now: Uptime, ping: impl FnOnce()) {
        let replicas = &self.replication.replicas;
        self.begin_full_sync_if_due();
        self.drop_overdue_streams(now);
        self.stop_after_snapshot_if_due();
        let config = self.config.load();
        let is_replica = self.replication.is_replica();
        let feed = &self.replication.feed;
        if replicas.is_empty() {
            // The first one has just been told that this server is there.
            replicas.pinged_at.store(now.to_raw(), Ordering::Relaxed);
        }
        if feed.is_on() && !is_replica {
            let period_ms = i64::from(config.repl_ping_replica_period) * 1000;
            let pinged_at = &replicas.pinged_at;
            let is_due = now.to_raw() - pinged_at.load(Ordering::Relaxed) >= period_ms;
            if is_due && !self.holds_stream_end() {
                pinged_at.store(now.to_raw(), Ordering::Relaxed);
                ping();
            }
            let ttl_ms = (config.repl_backlog_ttl as i64).saturating_mul(1000);
            // Until it has ended, no pass begins for a replica that comes now: its cut would take a place in the backlog.
            let _pass = replicas.lock_pass();
            if ttl_ms > 0 && replicas.absent_ms(now).is_some_and(|absent_ms| absent_ms > ttl_ms) {
                feed.end(random_replication_id());
                log::info!(
                    "Replication backlog freed after {} seconds without connected replicas.",
                    ttl_ms / 1000
                );
            }
        }
        self.guard_replica_count(&config);
    }
}
