//! Becoming a replica or a primary.

use config::{Config, PrimaryAddress};
use os::clock::Uptime;
use replication::History;

use super::{install, link};
use crate::connection::client::UnblockReply;
use crate::mail::Mail;
use crate::shared::Shared;
use crate::shared::loading::StreamPosition;
use crate::shared::replication::random_replication_id;
use crate::shared::role::PrimaryName;

/// Makes the server a replica of a primary. Returns whether it was one already.
pub fn replicate(shared: &'static Shared, primary: PrimaryName) -> bool {
    let was_replica = shared.replication.is_replica();
    let is_same = shared.replication.role.lock().primary.as_ref() == Some(&primary);
    if is_same {
        // If its thread could not be started before.
        start_link(shared);
        log::info!(
            "REPLICAOF would result into synchronization with the primary we are already connected with. No operation performed."
        );
        return true;
    }
    // The data of a primary are a prefix of its own stream.
    shared.replication.role.lock().may_continue |= !was_replica;
    let ended = shared.replication.role.change_primary(Some(primary));
    shared.close_stream(ended);
    // From now on clients change nothing, except in turns that have begun.
    shared.follow_role();
    shared.replication.role.await_turns(shared.workers.occupied());
    unblock_clients(shared);
    // Up to the changes that have been acknowledged: a transaction that changes the role is not among them.
    let offset = shared.replication.feed.offset_of(shared.keyspace.log.end());
    shared.replication.replicas.disconnect_all_after(offset);
    if !was_replica {
        log::info!(
            "Before turning into a replica, using my own primary parameters to synthesize a cached primary: I may be able to synchronize with the new primary with just a partial transfer."
        );
    }
    start_link(shared);
    false
}

/// Makes a primary a replica of one of its replicas, for a failover: clients continue to wait, and its replicas keep their
/// connections, so that the target receives what is on the way.
pub fn demote(shared: &'static Shared, target: PrimaryName) {
    let role = &shared.replication.role;
    role.lock().may_continue = true;
    shared.close_stream(role.change_primary(Some(target)));
    shared.follow_role();
    // The failover has awaited them.
    role.await_turns(std::iter::empty());
    start_link(shared);
}

fn start_link(shared: &'static Shared) {
    if let Err(error) = link::start(shared) {
        log::error!("Can't start the thread of the link to the primary: {error}");
    }
}

/// Makes the server a primary, if it is a replica. Returns whether it was one.
pub fn promote(shared: &'static Shared) -> bool {
    if !shared.replication.is_replica() {
        return false;
    }
    let ended = shared.replication.role.change_primary(None);
    shared.close_stream(ended);
    let feed = &shared.replication.feed;
    // Without latches, which this worker may hold: a record that is still being appended then belongs to the new history
    // only, so a replica that has it synchronises anew.
    feed.shift_id(random_replication_id());
    // They continue with the new id.
    shared.replication.replicas.await_from(Uptime::now());
    shared.replication.replicas.disconnect_all();
    let history = feed.history();
    log::info!(
        "Setting secondary replication ID to {}, valid up to offset: {}. New replication ID is {}",
        history.former_id(),
        history.second_offset(),
        history.id()
    );
    shared.follow_role();
    log::info!("PRIMARY MODE enabled");
    true
}

/// Begins the role at the start of the server: while commands are still refused, so that no change is missed.
pub fn begin(shared: &'static Shared) {
    let position = shared.loading.position.get();
    let role = &shared.replication.role;
    if shared.config.load().replicaof.0.is_none() {
        if let Some(position) = position.filter(|_| !shared.replication.feed.is_on()) {
            shared.continue_stream(position);
        }
        return;
    }
    if let Some(StreamPosition { id, offset, db }) = position {
        role.select(*db);
        install::begin_feed(shared, Some((History::new(*id), *offset)));
        let mut state = role.lock();
        (state.may_continue, state.stream_db) = (true, *db);
    }
    let PrimaryAddress(primary) = &shared.config.load().replicaof;
    let Some((host, port)) = primary.clone() else { return };
    role.change_primary(Some(PrimaryName { host, port }));
    shared.follow_role();
    role.await_turns(std::iter::empty());
}

/// Begins to connect to the configured primary, if there is one, when the workers run.
pub fn connect(shared: &'static Shared) {
    if shared.replication.is_replica() {
        start_link(shared);
    }
}

/// The configuration with the role of the server.
pub fn configured(shared: &Shared, config: &Config) -> Config {
    let primary = shared.replication.role.lock().primary.clone();
    let replicaof = PrimaryAddress(primary.map(|primary| (primary.host, primary.port)));
    Config { replicaof, ..Config::clone(config) }
}

/// Ends the waits of clients: what they wait for may not come to a replica. A client that only reads, and has said that it
/// reads from replicas (`READONLY`), continues to wait.
pub(super) fn unblock_clients(shared: &Shared) {
    for record in shared.clients.all() {
        if record.waiter().is_some_and(|waiter| !record.reads_from_replicas() && waiter.wait.try_end()) {
            let token = record.place();
            shared.workers.post(token.thread(), Mail::Unblock(token, record.id, UnblockReply::RoleChange));
        }
    }
}
