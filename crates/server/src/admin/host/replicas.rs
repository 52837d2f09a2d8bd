//! The replicas of this server.

use std::sync::Arc;

use base::Lsn;
use commands::declared_replica::ChannelForm;
use commands::host::{AcknowledgedCounts, ReplicaFacts, Replicas, SyncAnswer};
use commands::session::Session;
use replication::ReplicationId;
use replication::feed::Resumption;
use sync::atomic::Ordering;

use super::WorkerHost;
use crate::connection::replica::{Replica, ReplicaState};
use crate::shared::failover::FailoverPhase;

impl Replicas for WorkerHost {
    fn synchronise(&self, session: &Session, from: Option<(&[u8], u64)>) -> SyncAnswer {
        let replication = &self.shared.replication;
        if replication.failover.phase() != FailoverPhase::None {
            return SyncAnswer::FailingOver;
        }
        if replication.is_replica() && !replication.role.has_data() {
            return SyncAnswer::NoData;
        }
        let Some(record) = self.shared.clients.find(session.id) else { return SyncAnswer::NoData };
        let declared = session.replica.as_deref().cloned().unwrap_or_default();
        let from = from.and_then(|(id, offset)| Some((ReplicationId::parse(id)?, offset)));
        let resumed = from.map(|(id, offset)| replication.feed.resume(id, offset));
        let peer = &session.endpoints.peer;
        let form = declared.channel_form.filter(|_| !declared.is_channel && !declared.is_old);
        let (replica, answer) = match (resumed, form) {
            (Some(Resumption::Partial(id, cursor)), _) => {
                replication.replicas.partial_count.fetch_add(1, Ordering::Relaxed);
                log::info!("Partial resynchronization request from {peer} accepted.");
                let state = self.state_of_stream(declared.other_client);
                let replica = Replica::streaming(record, declared, cursor, state);
                (replica, SyncAnswer::Continue(id.to_string()))
            }
            (other, form) => {
                if let Some((id, offset)) = from.filter(|_| other.is_some()) {
                    replication.replicas.refused_count.fetch_add(1, Ordering::Relaxed);
                    match self.shared.history().contains(id, offset) {
                        true => log::info!(
                            "Unable to partial resync with replica {peer} for lack of backlog (it lacks byte {})",
                            offset + 1
                        ),
                        false => log::info!("Partial resynchronization not possible for {peer}"),
                    }
                }
                match form {
                    Some(form) => {
                        log::info!("Replica {peer} gets its snapshot on a connection of its own");
                        let answer = SyncAnswer::Channel(form);
                        if form == ChannelForm::Valkey {
                            return answer;
                        }
                        let replica = Replica::waiting(record, declared);
                        replica.set_state(ReplicaState::AwaitingChannel);
                        (replica, answer)
                    }
                    None => {
                        log::info!("Full resync requested by replica {peer}");
                        (Replica::waiting(record, declared), SyncAnswer::Snapshot)
                    }
                }
            }
        };
        let replica = Arc::new(replica);
        replication.replicas.add(Arc::clone(&replica));
        self.new_replicas.borrow_mut().push(replica);
        self.shared.begin_full_sync_if_due();
        answer
    }

    fn acknowledged(&self, session: &Session, applied: u64, durable: Option<u64>) {
        self.shared.replication.replicas.acknowledge(session.id, applied, durable);
        self.shared.continue_failover();
    }

    fn replicas_at(&self, lsn: Lsn) -> AcknowledgedCounts {
        let (applied, durable) = self.shared.replication.acknowledged_counts(lsn);
        AcknowledgedCounts { applied, durable }
    }

    fn is_replica(&self) -> bool {
        self.shared.replication.is_replica()
    }

    fn stream_offset(&self) -> u64 {
        self.shared.replication.feed.end_offset()
    }

    fn awaits_channel(&self, client: u64) -> bool {
        let replica = self.shared.replication.replicas.find(client);
        replica.is_some_and(|replica| replica.state() == ReplicaState::AwaitingChannel)
    }

    fn is_stream_expected(&self, client: u64) -> bool {
        self.shared.replication.replicas.expected.has(client)
    }

    fn replica_facts(&self) -> Vec<ReplicaFacts> {
        let all = self.shared.replication.replicas.all();
        let online = all.iter().filter(|replica| replica.state() == ReplicaState::Online);
        online
            .map(|replica| ReplicaFacts {
                address: replica.address(),
                port: replica.declared.port,
                offset: replica.applied(),
            })
            .collect()
    }
}

impl WorkerHost {
    /// The state of a replica that gets the stream at once, whose snapshot is sent to another client or not. The stream is then
    /// no longer expected, as the replica has a cursor of its own.
    fn state_of_stream(&self, channel: Option<u64>) -> ReplicaState {
        match channel.is_some_and(|channel| self.shared.release_expected_stream(channel)) {
            true => ReplicaState::Buffering,
            false => ReplicaState::Online,
        }
    }
}
