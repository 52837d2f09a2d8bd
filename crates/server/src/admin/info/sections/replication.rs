//! `replication`; `modules` and `cluster`: the states of a server that has none of these.

use os::clock::Uptime;
use sync::atomic::Ordering;

use super::super::figure::Unit::{Bytes, Seconds};
use super::super::figure::Value::Hundredths;
use super::super::figure::{Field, Figure, Value, figures};
use super::super::gathered::Gathered;
use crate::connection::replica::ReplicaState;
use crate::shared::role::Role;

pub static REPLICATION: &[Figure] = figures! { |all|
    /// Master, or slave: it replicates another server.
    text "role" = if all.replica().is_some() { "slave" } else { "master" };
    /// The name or address of the primary.
    text "master_host" = all.replica().map(|link| Value::from(link.primary.host.as_str()));
    /// The port of the primary.
    gauge "master_port" = all.replica().map(|link| link.primary.port.into());
    /// Whether the stream of the primary is being applied: up or down.
    text "master_link_status" = all.replica().map(|link| Value::from(if link.is_up { "up" } else { "down" }));
    /// The time since the primary sent something; -1: there is no stream.
    gauge "master_last_io_seconds_ago": Seconds = all.replica().map(|link| Value::unless_negative(link.silent_seconds));
    /// Whether a snapshot of the primary is being received or loaded.
    gauge "master_sync_in_progress" = all.replica().map(|link| link.transfer.is_some().into());
    /// The offset up to which the stream of the primary is received.
    gauge "slave_read_repl_offset": Bytes = all.replica().map(|link| link.received.into());
    /// The offset up to which the stream of the primary is applied.
    gauge "slave_repl_offset": Bytes = all.replica().map(|link| link.applied.into());
    /// The bytes of the stream that are kept until the snapshot is loaded.
    gauge "replicas_repl_buffer_size": Bytes = all.replica().map(|_| role_of(all).kept.load(Ordering::Relaxed).into());
    /// The most bytes of the stream that were kept during this synchronisation, or the last.
    gauge "replicas_repl_buffer_peak": Bytes =
        all.replica().map(|_| role_of(all).kept_peak.load(Ordering::Relaxed).into());
    /// As `replicas_repl_buffer_size`, by the name that Redis has for it.
    gauge "replica_full_sync_buffer_size": Bytes =
        all.replica().map(|_| role_of(all).kept.load(Ordering::Relaxed).into());
    /// As `replicas_repl_buffer_peak`, by the name that Redis has for it.
    gauge "replica_full_sync_buffer_peak": Bytes =
        all.replica().map(|_| role_of(all).kept_peak.load(Ordering::Relaxed).into());
    /// The size of the snapshot; 0: not known.
    gauge "master_sync_total_bytes": Bytes = all.transfer().map(|transfer| transfer.total.into());
    /// The bytes of the snapshot that are received.
    gauge "master_sync_read_bytes": Bytes = all.transfer().map(|transfer| transfer.read.into());
    /// The bytes of the snapshot that are missing; negative if its size is not known.
    gauge "master_sync_left_bytes": Bytes =
        all.transfer().map(|transfer| (transfer.total as i64 - transfer.read as i64).into());
    /// The part of the snapshot that is received.
    gauge "master_sync_perc": Percent =
        all.transfer().map(|transfer| Hundredths(transfer.percent()));
    /// The time since a part of the snapshot was received.
    gauge "master_sync_last_io_seconds_ago": Seconds =
        all.transfer().map(|transfer| transfer.silent_seconds.into());
    /// The time since the stream ended, while it is not applied; -1: there was none.
    gauge "master_link_down_since_seconds": Seconds =
        all.replica().filter(|link| !link.is_up).map(|link| Value::unless_negative(link.down_seconds));
    /// The directive `replica-priority`; shown on a replica.
    gauge "slave_priority" = all.config.replica_priority, when all.replica().is_some();
    /// The directive `replica-read-only`; shown on a replica.
    gauge "slave_read_only" = all.config.replica_read_only, when all.replica().is_some();
    /// The directive `replica-announced`; shown on a replica.
    gauge "replica_announced" = all.config.replica_announced, when all.replica().is_some();
    /// The connections of replicas.
    gauge "connected_slaves" = all.replicas().len();
    /// The replicas that count for `min-replicas-to-write`; shown if that and `min-replicas-max-lag` are set.
    gauge "min_slaves_good_slaves" =
        all.shared.replication.replicas.good_count(all.config.min_replicas_max_lag, Uptime::now()),
        when all.config.min_replicas_to_write > 0 && all.config.min_replicas_max_lag > 0;
    /// A replica.
    record(REPLICA) "slave{replica}", each Replica as label = replica(all, label.index);
    /// The replicas that have asked for a snapshot on a connection of its own, and not yet for the stream.
    gauge "replicas_waiting_psync" = all.shared.replication.replicas.expected.count();
    /// How far a failover is: no-failover, waiting-for-sync or failover-in-progress.
    text "master_failover_state" = all.shared.replication.failover.phase().word();
    /// The id of the data for replicas, 40 hexadecimal digits.
    text "master_replid" = all.shared.history().id().to_string();
    /// The former id of the data; 40 zeros: there is none.
    text "master_replid2" = all.shared.history().former_id().to_string();
    /// The offset of the end of the stream.
    gauge "master_repl_offset": Bytes = all.shared.replication.feed.end_offset();
    /// The offset from which the former id of the data is not valid; -1: there is none.
    gauge "second_repl_offset": Bytes = Value::unless_negative(all.shared.history().second_offset());
    /// Whether there is a backlog.
    gauge "repl_backlog_active" = all.feed().is_on;
    /// The directive `repl-backlog-size`.
    gauge "repl_backlog_size": Bytes = all.config.repl_backlog_size;
    /// The offset of the first byte of the backlog, counted from 1; 0: there is none.
    gauge "repl_backlog_first_byte_offset": Bytes =
        if all.feed().is_on { all.feed().kept_start + 1 } else { 0 };
    /// The bytes in the backlog.
    gauge "repl_backlog_histlen": Bytes =
        if all.feed().is_on { all.feed().end - all.feed().kept_start } else { 0 };
};

const REPLICA: &[Field] = &[
    Field::identity("ip", "Its address."),
    Field::identity("port", "The port on which it listens."),
    Field::text("state", "Whether it waits for a snapshot, receives one, or the stream."),
    Field::gauge("offset", Bytes, "The offset that it has acknowledged."),
    Field::gauge("lag", Seconds, "The time since it acknowledged something."),
    Field::identity(
        "type",
        "Whether the connection is for a snapshot alone (rdb-channel), for the stream meanwhile (main-channel), or for both.",
    ),
];

fn role_of<'a>(all: &Gathered<'a>) -> &'a Role {
    &all.shared.replication.role
}

/// A replica that is not about to end.
fn replica(all: &Gathered<'_>, index: usize) -> Option<Value<'static>> {
    let replica = &all.replicas()[index];
    let state = replica.state();
    let lag_ms = Uptime::now().to_raw() - replica.acknowledged_at.load(Ordering::Relaxed);
    let lag = if state == ReplicaState::Online { lag_ms / 1000 } else { 0 };
    Some(Value::record([
        ("ip", replica.address().into()),
        ("port", replica.declared.port.into()),
        ("state", replica.state_word().into()),
        ("offset", replica.applied().into()),
        ("lag", lag.into()),
        ("type", replica.purpose_word().into()),
    ]))
}

pub static MODULES: &[Figure] = &[];

pub static CLUSTER: &[Figure] = figures! { |all|
    /// Always 0: there is no cluster.
    gauge "cluster_enabled" = 0;
};
