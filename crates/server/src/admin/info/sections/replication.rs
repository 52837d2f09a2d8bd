//! `replication`, `modules` and `cluster`: the states of a server that has none of these.

use super::super::figure::{Figure, figures};

pub static REPLICATION: &[Figure] = figures! { |all|
    /// Always master: there are no replicas.
    text "role" = "master";
    /// Always 0: there are no replicas.
    gauge "connected_slaves" = 0;
    /// Always 0: there are no replicas.
    gauge "replicas_waiting_psync" = 0;
    /// Always no-failover: there are no replicas.
    text "master_failover_state" = "no-failover";
    /// The id of the data for replicas, 40 hexadecimal digits.
    text "master_replid" = String::clone(&all.shared.identity.replication_id.load());
    /// Always 40 zeros: the server was never a replica.
    text "master_replid2" = "0000000000000000000000000000000000000000";
    /// Always 0: there are no replicas.
    gauge "master_repl_offset": Bytes = 0;
    /// Always -1: the server was never a replica.
    gauge "second_repl_offset": Bytes = -1;
    /// Always 0: there are no replicas.
    gauge "repl_backlog_active" = 0;
    /// The directive `repl-backlog-size`.
    gauge "repl_backlog_size": Bytes = all.config.repl_backlog_size;
    /// Always 0: there are no replicas.
    gauge "repl_backlog_first_byte_offset": Bytes = 0;
    /// Always 0: there are no replicas.
    gauge "repl_backlog_histlen": Bytes = 0;
    /// Always 0: there are no replicas; shown if `min-replicas-to-write` and `min-replicas-max-lag` are set.
    gauge "min_slaves_good_slaves" = 0,
        when all.config.min_replicas_to_write > 0 && all.config.min_replicas_max_lag > 0;
};

pub static MODULES: &[Figure] = &[];

pub static CLUSTER: &[Figure] = figures! { |all|
    /// Always 0: there is no cluster.
    gauge "cluster_enabled" = 0;
};
