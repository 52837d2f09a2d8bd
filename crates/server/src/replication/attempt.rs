//! One attempt to become connected to the primary: connection, handshake, snapshot, hand-over to a worker.

mod channel;
mod snapshot;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use base::DbIndex;
use commands::session::Endpoints;
use config::Config;
use os::clock;
use reactor::Reactor;
use replication::ReplicationId;
use replication::replica::{
    ChannelError, ChannelForm, Handshake, HandshakeError, HandshakeSettings, HandshakeStep, Request,
    SnapshotError,
};
use sync::atomic::{AtomicU64, Ordering};
use sync::simulation::planted;

use super::failover;
use super::install::{self, NotInstalled, SnapshotOf};
use super::wire::{Wire, WireError};
use crate::connection::client::Forwarding;
use crate::connection::record::ClientRecord;
use crate::connection::token::Token;
use crate::faults;
use crate::mail::{BarrierRequest, Mail, PrimaryStream};
use crate::persistence::all_latches::with_all_latches;
use crate::shared::Shared;
use crate::shared::failover::FailoverPhase;
use crate::shared::modes::GlobalFlags;
use crate::shared::role::{LinkState, LinkStream, PrimaryName, Transfer};

/// How long the thread waits before it looks again whether its server has come to rest.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// After so many looks, the ends of turns are requested again: a worker may have ended with the request.
const LOOKS_PER_REQUEST: u64 = 100;

/// Why an attempt has failed.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// There is no connection.
    #[error("Unable to connect to PRIMARY: {0}")]
    Connection(std::io::Error),
    /// The connection has ended.
    #[error("Connection to the primary ended: {0}")]
    Wire(#[from] WireError),
    /// The primary's answers.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// The primary's answers about a connection for the snapshot.
    #[error("{0}")]
    Channel(#[from] ChannelError),
    /// There is no snapshot.
    #[error("{0}")]
    Snapshot(#[from] SnapshotError),
    /// The snapshot can't be written.
    #[error(
        "Write error or short write writing to the DB dump file needed for PRIMARY <-> REPLICA synchronization: {0}"
    )]
    File(std::io::Error),
    /// The snapshot can't be loaded.
    #[error("Failed trying to load the PRIMARY synchronization DB from disk, check server logs.")]
    NotInstalled(#[from] NotInstalled),
    /// A snapshot that was received meanwhile can't be loaded.
    #[error("Failed trying to load the PRIMARY synchronization DB from socket, check server logs.")]
    NotLoaded,
}

/// See the module documentation.
pub struct Attempt<'a> {
    shared: &'static Shared,
    primary: &'a PrimaryName,
    epoch: u64,
    config: Arc<Config>,
}

/// What the handshake has led to.
enum Outcome {
    Full(ReplicationId, u64),
    Channel(ChannelForm),
    Continue(Option<ReplicationId>, ReplicationId, u64),
}

impl<'a> Attempt<'a> {
    /// An attempt in an epoch.
    pub fn new(shared: &'static Shared, primary: &'a PrimaryName, epoch: u64) -> Self {
        Self { shared, primary, epoch, config: shared.config.load_full() }
    }

    /// Runs it. The stream is then applied by a worker.
    ///
    /// # Errors
    /// It has failed, or is given up.
    pub fn run(&self, reactor: &mut Reactor) -> Result<(), AttemptError> {
        let (is_given_up, timeout) = (|| !self.is_current(), || self.timeout());
        self.show(LinkState::Connecting)?;
        log::info!("Connecting to PRIMARY {}:{}", self.primary.host, self.primary.port);
        let mut wire = self.connect(reactor, &is_given_up, &timeout)?;
        log::info!("PRIMARY <-> REPLICA sync started");
        self.show(LinkState::Handshake)?;
        let outcome = self.shake_hands(&mut wire)?;
        let (offset, db) = match outcome {
            Outcome::Full(id, offset) => {
                log::info!("Full resync from primary: {id}:{offset}");
                let db = self.synchronise(&mut wire, SnapshotOf { id, offset, epoch: self.epoch })?;
                (offset, db)
            }
            Outcome::Channel(form) => self.synchronise_by_channel(&mut wire, form)?,
            Outcome::Continue(id, own, offset) => {
                log::info!("Successful partial resynchronization with primary.");
                if let Some(id) = id.filter(|id| *id != own) {
                    self.take_id(id)?;
                    self.shared.replication.replicas.disconnect_all();
                }
                install::begin_feed(self.shared, None);
                log::info!("PRIMARY <-> REPLICA sync: Primary accepted a Partial Resynchronization.");
                (offset, self.shared.replication.role.lock().stream_db)
            }
        };
        self.hand_over(wire, offset, db)
    }

    /// Takes over the id that the primary has given the data, unless the server has another role by now.
    fn take_id(&self, id: ReplicationId) -> Result<(), AttemptError> {
        let state = self.shared.replication.role.lock();
        if state.epoch != self.epoch {
            return Err(WireError::GivenUp.into());
        }
        log::info!("Primary replication ID changed to {id}");
        self.shared.replication.feed.shift_id(id);
        Ok(())
    }

    /// `repl-timeout`, which may change during the attempt.
    fn timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.shared.config.load().repl_timeout))
    }

    fn is_current(&self) -> bool {
        self.shared.replication.role.lock().epoch == self.epoch && !self.shared.modes.is_stopping()
    }

    fn check(&self) -> Result<(), AttemptError> {
        if self.is_current() { Ok(()) } else { Err(WireError::GivenUp.into()) }
    }

    /// Shows a state of the link.
    fn show(&self, link: LinkState) -> Result<(), AttemptError> {
        let mut state = self.shared.replication.role.lock();
        if state.epoch != self.epoch || self.shared.modes.is_stopping() {
            return Err(WireError::GivenUp.into());
        }
        state.link = link;
        Ok(())
    }

    fn connect<'w>(
        &self,
        reactor: &'w mut Reactor,
        is_given_up: &'w dyn Fn() -> bool,
        timeout: &'w dyn Fn() -> Duration,
    ) -> Result<Wire<'w>, AttemptError> {
        let certificates = match self.config.tls_replication {
            false => None,
            true => Some(self.shared.certificates.context().ok_or_else(|| {
                AttemptError::Connection(std::io::Error::other("there are no certificates"))
            })?),
        };
        let source = self.config.bind_source_addr.parse::<IpAddr>().ok();
        let addresses = addresses_of(self.primary).map_err(AttemptError::Connection)?;
        match Wire::connect(reactor, is_given_up, &addresses, source, certificates.as_ref(), timeout) {
            Err(WireError::Io(error)) => Err(AttemptError::Connection(error)),
            connected => Ok(connected?),
        }
    }

    fn handshake_settings(&self) -> HandshakeSettings {
        let config = &self.config;
        let mut credentials = Vec::new();
        if let Some(password) = config.masterauth.reveal() {
            credentials.extend(config.masteruser.reveal().map(<[u8]>::to_vec));
            credentials.push(password.to_vec());
        }
        let own_port = if config.tls_replication { config.tls_port } else { config.port };
        let mut channels = Vec::new();
        if config.dual_channel_replication_enabled {
            channels.push("dual-channel");
        }
        if config.repl_rdb_channel {
            channels.push("rdb-channel-repl");
        }
        HandshakeSettings {
            credentials,
            port: if config.replica_announce_port == 0 { own_port } else { config.replica_announce_port },
            address: config.replica_announce_ip.clone(),
            version: commands::identity::VALKEY_VERSION.to_owned(),
            takes_delimited: true,
            channels,
        }
    }

    fn shake_hands(&self, wire: &mut Wire<'_>) -> Result<Outcome, AttemptError> {
        let settings = self.handshake_settings();
        let (own, offset) = self.position(wire)?;
        let may_continue = self.shared.replication.role.lock().may_continue;
        let is_failover = self.shared.replication.failover.phase() == FailoverPhase::InProgress;
        let request = match may_continue {
            true if is_failover => Request::Failover { id: own, offset },
            true => Request::Continue { id: own, offset },
            false => Request::Full,
        };
        let (mut handshake, first) = Handshake::begin(settings, request);
        wire.send(first)?;
        let outcome = self.converse(wire, &mut handshake, request, (own, offset));
        if is_failover {
            self.settle_failover(&outcome, handshake.is_resuming())?;
        }
        outcome
    }

    /// Ends a failover, by how the target has replied to `PSYNC`, which was sent if `is_resuming`.
    fn settle_failover(
        &self,
        outcome: &Result<Outcome, AttemptError>,
        is_resuming: bool,
    ) -> Result<(), AttemptError> {
        match outcome {
            Ok(_) if self.shared.complete_failover() => Ok(()),
            // It was aborted in the meantime: the server is a primary.
            Ok(_) => Err(WireError::GivenUp.into()),
            Err(AttemptError::Wire(WireError::GivenUp | WireError::TimedOut)) => Ok(()),
            Err(_) if is_resuming => {
                self.shared.abort_failover(failover::REFUSED);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// Exchanges requests and replies until the primary has replied to `PSYNC`.
    fn converse(
        &self,
        wire: &mut Wire<'_>,
        handshake: &mut Handshake,
        request: Request,
        (own, offset): (ReplicationId, u64),
    ) -> Result<Outcome, AttemptError> {
        loop {
            wire.receive()?;
            loop {
                let bytes = std::mem::take(&mut wire.input);
                let (taken, step) = handshake.receive(&bytes)?;
                wire.input = bytes[taken..].to_vec();
                match step {
                    HandshakeStep::Wait => break,
                    HandshakeStep::Note(line) => log::info!("{line}"),
                    HandshakeStep::Send(bytes) => {
                        if handshake.is_resuming() {
                            match request {
                                Request::Full => {
                                    log::info!("Partial resynchronization not possible (no cached primary)")
                                }
                                _ => log::info!(
                                    "Trying a partial resynchronization (request {own}:{}).",
                                    offset + 1
                                ),
                            }
                        } else {
                            log::info!("Primary replied to PING, replication can continue...");
                        }
                        wire.send(bytes)?;
                    }
                    HandshakeStep::Full { id, offset } => return Ok(Outcome::Full(id, offset)),
                    HandshakeStep::Channel(form) => return Ok(Outcome::Channel(form)),
                    HandshakeStep::Continue { id } => return Ok(Outcome::Continue(id, own, offset)),
                    HandshakeStep::Old(bytes) => {
                        log::info!("Retrying with SYNC...");
                        wire.send(bytes)?;
                        return Ok(Outcome::Full(crate::shared::replication::random_replication_id(), 0));
                    }
                }
            }
        }
    }

    /// The id of the data, and the number of bytes of their stream: all that clients have written before the server became a
    /// replica, or that came from the former primary.
    fn position(&self, wire: &mut Wire<'_>) -> Result<(ReplicationId, u64), AttemptError> {
        let mut looks = 0_u64;
        while !self.turns_have_ended(looks.is_multiple_of(LOOKS_PER_REQUEST))
            || self.shared.replication.role.lock().stream_count > 0
            || self.shared.modes.flags.is_set(GlobalFlags::LOADING)
        {
            wire.idle(LOOK_INTERVAL)?;
            self.check()?;
            looks += 1;
        }
        let feed = &self.shared.replication.feed;
        Ok(with_all_latches(self.shared, || {
            let _unlatched = self.shared.keyspace.log.hold_unlatched();
            let offset = feed.move_now();
            (feed.history().id(), offset)
        }))
    }

    /// Whether each worker has ended the turn in which the server became a replica. Requests that, if `requests`.
    fn turns_have_ended(&self, requests: bool) -> bool {
        let workers = self.shared.workers;
        let exists = |worker| workers.handle(worker).is_occupied();
        let (epoch, awaited) = self.shared.replication.role.awaited_turns(exists);
        let has_ended = awaited.as_ref().is_some_and(Vec::is_empty) || planted(faults::LATE_WRITES);
        if requests && !has_ended {
            let request = BarrierRequest { connection: Token::ROLE, number: epoch };
            workers.request_turns(awaited.into_iter().flatten(), Mail::BarrierRequest, request);
        }
        has_ended
    }

    /// Begins to receive a snapshot, and shows it.
    fn begin_transfer(&self) -> Result<Arc<Transfer>, AttemptError> {
        let transfer = Arc::new(Transfer::default());
        transfer.at.store((clock::unix_millis() / 1000) as u64, Ordering::Relaxed);
        self.show(LinkState::Sync(Arc::clone(&transfer)))?;
        Ok(transfer)
    }

    /// Gives the connection to a worker, which applies the stream from this offset on.
    fn hand_over(&self, wire: Wire<'_>, offset: u64, db: DbIndex) -> Result<(), AttemptError> {
        let parts = wire.into_parts()?;
        let shared = self.shared;
        // A socket without these options is served, too.
        let _ = parts.socket.set_nodelay();
        let _ = parts.socket.set_keepalive(self.config.tcp_keepalive);
        let address = |address: std::io::Result<reactor::PeerAddress>| {
            address.map(|address| address.to_string()).unwrap_or_default()
        };
        let endpoints = Arc::new(Endpoints {
            peer: address(parts.socket.peer_address()),
            local: address(parts.socket.local_address()),
            fd: parts.socket.number(),
            is_unix: false,
            is_local: false,
            connected_at: base::Millis(clock::unix_millis()),
        });
        let record = Arc::new(ClientRecord::of_primary(shared.clients.next_id(), endpoints));
        let applied = Arc::new(AtomicU64::new(offset));
        {
            let mut state = shared.replication.role.lock();
            // A stream must not be applied to data that are being loaded (`DEBUG RELOAD`).
            let is_loading = shared.modes.flags.is_set(GlobalFlags::LOADING);
            if state.epoch != self.epoch || is_loading || shared.modes.is_stopping() {
                return Err(WireError::GivenUp.into());
            }
            state.may_continue = true;
            state.stream_count += 1;
            state.link = LinkState::Connected(LinkStream {
                record: Arc::clone(&record),
                applied: Arc::clone(&applied),
            });
        }
        shared.follow_role();
        let stream = PrimaryStream {
            socket: parts.socket,
            encryption: parts.encryption,
            record,
            db,
            forwarding: Box::new(Forwarding::new(applied, db, parts.plain.len())),
            plain: parts.plain,
            unread: parts.unread,
        };
        let wanted = shared.pool.wanted();
        let least = (0..wanted).min_by_key(|thread| shared.workers.handle(*thread).load()).unwrap_or(0);
        let thread = shared.workers.expect_connection(least);
        shared.workers.post(thread, Mail::Primary(Box::new(stream)));
        log::info!("PRIMARY <-> REPLICA sync: Finished with success");
        Ok(())
    }
}

/// The addresses of the primary.
fn addresses_of(primary: &PrimaryName) -> std::io::Result<Vec<SocketAddr>> {
    match primary.host.parse::<IpAddr>() {
        Ok(address) => Ok(vec![SocketAddr::new(address, primary.port)]),
        Err(_) => Ok((primary.host.as_str(), primary.port).to_socket_addrs()?.collect()),
    }
}
