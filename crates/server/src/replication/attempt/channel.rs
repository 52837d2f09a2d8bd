//! A full synchronisation with a connection for the snapshot and one for the stream.
//!
//! Another thread has the connection for the snapshot, the *channel*, and loads it; the thread of the attempt keeps what the
//! stream brings meanwhile. When that reaches the limit, it is no longer received: then the primary keeps it. A worker applies
//! what is kept, and then what follows.
//!
//! | loss of | while | then |
//! |---|---|---|
//! | either connection | the snapshot is received | the attempt has failed, the data are as before |
//! | the stream | the snapshot is loaded | the load goes on, and the next attempt continues from the snapshot's offset |

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::DbIndex;
use commands::host::SyncPoint;
use config::{ClientClass, Config};
use os::clock::Uptime;
use reactor::{Reactor, ReactorOptions};
use replication::replica::{ChannelForm, ChannelHandshake, ChannelPosition, ChannelStep, StreamRequest};
use sync::atomic::{AtomicBool, Ordering};
use sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use super::snapshot::{LoadWay, Signs, temporary_path};
use super::{Attempt, AttemptError};
use crate::replication::install::{self, SnapshotOf};
use crate::replication::wire::{Wire, WireError};
use crate::shared::io_backend;
use crate::shared::sync_stops::SyncStops;

/// The longest wait of the thread that keeps the stream. The other one wakes it.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The interval of line ends to the primary, which show that this server lives, in milliseconds.
const KEEP_ALIVE_MS: i64 = 1_000;

/// What the thread with the channel reports, in this order.
enum Report {
    /// The snapshot begins.
    Begun(ChannelPosition),
    /// The data are replaced, and the stream has selected this database; or not.
    Ended(Result<DbIndex, AttemptError>),
}

/// The stream while the snapshot is on its way.
struct KeptStream {
    form: ChannelForm,
    limit: usize,
    is_full: bool,
    /// The request for it that is not answered yet.
    request: Option<StreamRequest>,
    /// When it must be answered.
    answer_until: Uptime,
    /// When the next line end is due; `None`: the snapshot has not begun.
    next_sign: Option<Uptime>,
}

impl Attempt<'_> {
    /// Receives the snapshot and loads it, while the stream is kept in the input of its connection. Returns the offset at which
    /// the stream begins, and the database that it has selected.
    pub(super) fn synchronise_by_channel(
        &self,
        wire: &mut Wire<'_>,
        form: ChannelForm,
    ) -> Result<(u64, DbIndex), AttemptError> {
        log::info!("PSYNC is not possible, initialize RDB channel.");
        let way = self.load_way();
        let must_end = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = channel();
        let (shared, epoch, primary) = (self.shared, self.epoch, self.primary.clone());
        let (config, ends) = (Arc::clone(&self.config), Arc::clone(&must_end));
        let body = move || {
            let _handler_stack = os::fault::prepare_thread();
            let attempt = Attempt { shared, primary: &primary, epoch, config };
            let result = attempt.run_channel(form, way, &ends, &sender);
            // The receiver is waiting, or has failed itself.
            let _ = sender.send(Report::Ended(result));
            shared.replication.role.wake();
        };
        let thread = sync::thread::Builder::new()
            .name("broadloom-channel".to_owned())
            .spawn(body)
            .map_err(AttemptError::File)?;
        let kept = self.keep_stream(wire, form, &receiver);
        // The words that Redis's suite searches for.
        if let Err(error) = &kept
            && self.shared.modes.is_loading()
        {
            log::warn!("Aborting rdb channel sync while loading the RDB: {error}");
            if way == LoadWay::File {
                log::info!("After loading RDB, replica will try psync with master");
            }
        }
        must_end.store(true, Ordering::Release);
        self.shared.replication.role.note_kept(0);
        if thread.join().is_err() {
            return Err(WireError::GivenUp.into());
        }
        kept
    }

    /// Keeps the stream until the snapshot is loaded.
    fn keep_stream(
        &self,
        wire: &mut Wire<'_>,
        form: ChannelForm,
        receiver: &Receiver<Report>,
    ) -> Result<(u64, DbIndex), AttemptError> {
        let role = &self.shared.replication.role;
        let mut kept = KeptStream::new(&self.config, form);
        let (mut offset, mut loaded, mut is_late) = (0, None, false);
        role.kept_peak.store(0, Ordering::Relaxed);
        loop {
            match receiver.try_recv() {
                Ok(Report::Begun(begun)) => {
                    offset = begun.offset;
                    kept.begin(wire, begun)?;
                }
                Ok(Report::Ended(result)) => {
                    loaded = Some(result?);
                    is_late = kept.request.is_some();
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
            }
            if let Some(db) = loaded
                && kept.request.is_none()
            {
                if is_late {
                    log::info!("Dual channel replication: Psync established after rdb load");
                }
                let size = wire.input.len();
                log::info!("The snapshot is loaded, and {size} bytes of the stream that follows are kept");
                return Ok((offset, db));
            }
            self.check()?;
            wire.idle(CHECK_INTERVAL)?;
            role.note_kept(wire.input.len() as u64);
            kept.follow(wire, &self.shared.modes.sync_stops)?;
        }
    }

    /// The work of the thread with the channel.
    fn run_channel(
        &self,
        form: ChannelForm,
        way: LoadWay,
        must_end: &AtomicBool,
        sender: &Sender<Report>,
    ) -> Result<DbIndex, AttemptError> {
        let is_given_up = || must_end.load(Ordering::Acquire) || !self.is_current();
        let timeout = || self.timeout();
        let made = Reactor::new(io_backend::chosen(&self.config), ReactorOptions::default());
        let (mut reactor, _) =
            made.map_err(|error| AttemptError::Connection(io::Error::other(error.to_string())))?;
        let mut wire = self.connect(&mut reactor, &is_given_up, &timeout)?;
        let position = self.open_channel(&mut wire, form)?;
        let transfer = self.begin_transfer()?;
        // The receiver is waiting, or has failed itself.
        let _ = sender.send(Report::Begun(position));
        self.shared.replication.role.wake();
        let of = SnapshotOf { id: position.id, offset: position.offset, epoch: self.epoch };
        let db = if way == LoadWay::File {
            let path = temporary_path();
            let received = self.receive(&mut wire, &transfer, &path);
            drop(wire);
            let installed = received.and_then(|()| match is_given_up() {
                true => Err(WireError::GivenUp.into()),
                false => Ok(install::replace_data(self.shared, &path, of)?),
            });
            self.keep_file_or_remove(&path, installed.is_ok());
            installed?
        } else {
            let loaded = self.load_received(&mut wire, &transfer, of, way, Signs::Elsewhere);
            if let (Err(error), ChannelForm::Redis(_)) = (&loaded, form) {
                log::warn!("Failed trying to load the MASTER synchronization DB from socket: {error}");
            }
            loaded?
        };
        self.note_loaded(of, db);
        Ok(db)
    }

    /// Asks for the snapshot.
    fn open_channel(&self, wire: &mut Wire<'_>, form: ChannelForm) -> Result<ChannelPosition, AttemptError> {
        let (mut handshake, first) = ChannelHandshake::begin(&self.handshake_settings(), form);
        wire.send(first)?;
        loop {
            wire.receive()?;
            let bytes = std::mem::take(&mut wire.input);
            let mut at = 0;
            loop {
                let (taken, step) = handshake.receive(&bytes[at..])?;
                at += taken;
                match step {
                    ChannelStep::Wait if taken == 0 || at == bytes.len() => break,
                    ChannelStep::Wait => {}
                    ChannelStep::Send(bytes) => {
                        self.shared.modes.sync_stops.stop_at(SyncPoint::ChannelRequest);
                        wire.send(bytes)?;
                    }
                    ChannelStep::Done(position) => {
                        log::info!("Full resync from primary: {}:{}", position.id, position.offset);
                        wire.input = bytes[at..].to_vec();
                        return Ok(position);
                    }
                }
            }
        }
    }
}

impl KeptStream {
    fn new(config: &Config, form: ChannelForm) -> Self {
        let own = config.replica_full_sync_buffer_limit;
        let limit = match own {
            0 => config.client_output_buffer_limit.of(ClientClass::Replica).hard_size,
            own => own,
        };
        let limit = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
        Self { form, limit, is_full: false, request: None, answer_until: Uptime::default(), next_sign: None }
    }

    /// Begins with the snapshot: asks for the stream, if that is not sent without a request.
    fn begin(&mut self, wire: &mut Wire<'_>, position: ChannelPosition) -> Result<(), AttemptError> {
        self.next_sign = Some(Uptime::now().plus_ms(KEEP_ALIVE_MS));
        if let Some((request, first)) = StreamRequest::begin(position) {
            log::info!(
                "Trying a partial resynchronization using main channel (request {}:{}).",
                position.id,
                position.offset + 1
            );
            self.request = Some(request);
            self.answer_until = Uptime::now().plus(wire.timeout());
            wire.send(first)?;
        }
        Ok(())
    }

    /// Follows what has arrived, and the time.
    fn follow(&mut self, wire: &mut Wire<'_>, stops: &SyncStops) -> Result<(), AttemptError> {
        while let Some(request) = &mut self.request
            && !wire.input.is_empty()
        {
            let (taken, step) = request.receive(&wire.input)?;
            wire.input.drain(..taken);
            match step {
                ChannelStep::Wait => {}
                ChannelStep::Send(bytes) => {
                    stops.stop_at(SyncPoint::StreamRequest);
                    wire.send(bytes)?;
                }
                ChannelStep::Done(()) => {
                    log::info!(
                        "PRIMARY <-> REPLICA sync: Primary accepted a Partial Resynchronization, RDB load in background."
                    );
                    self.request = None;
                }
            }
        }
        if self.request.is_some() && Uptime::now() > self.answer_until {
            return Err(WireError::TimedOut.into());
        }
        if !self.is_full && wire.input.len() > self.limit {
            self.is_full = true;
            wire.pause();
            // The words that the suites of each search for.
            match self.form {
                ChannelForm::Valkey => log::info!(
                    "Replication buffer limit reached ({} bytes), stopping buffering: the primary keeps what follows",
                    self.limit
                ),
                ChannelForm::Redis(_) => log::info!(
                    "Replication buffer limit has been reached ({} bytes): the primary keeps what follows",
                    self.limit
                ),
            }
        }
        if let Some(next) = self.next_sign.filter(|next| Uptime::now() >= *next) {
            self.next_sign = Some(next.plus_ms(KEEP_ALIVE_MS));
            wire.send(b"\n".to_vec())?;
        }
        Ok(())
    }
}
