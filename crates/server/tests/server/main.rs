//! Tests against the built server, by subject. One program, as linking one for each subject would take minutes.

#![allow(clippy::unwrap_used)] // Whatever fails here fails the test.

#[path = "../../../tls/tests/support/mod.rs"]
mod certificates;
#[path = "../support/dump.rs"]
mod dump;
#[path = "../support/mod.rs"]
mod support;

mod admin_port;
mod administration;
mod append_only;
mod benchmark;
mod blocking;
mod caching;
mod check_rdb;
mod command_time;
mod damaged_files;
mod defragmentation;
mod directories;
mod diskless_loading;
mod durable_replies;
mod encrypted_replication;
mod encryption;
mod eviction;
mod failing_disk;
mod failovers;
mod flushing;
mod held_memory;
mod introspection;
mod key_sizes;
mod keyspace_events;
mod large_arguments;
mod listening;
mod loading;
mod loading_append_only;
mod logging;
mod long_commands;
mod lost_links;
mod migrating;
mod pages;
mod pausing;
mod replicas;
mod replicating;
mod restarting;
mod role_changes;
mod saving;
mod script_limits;
mod scripts;
mod slow_clients;
mod starting;
mod stopping;
mod stream_origins;
mod sync_stops;
mod threads;
mod transactions;
mod two_connections;
mod users;
