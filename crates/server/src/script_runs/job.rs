//! A run of a script: its latches, its effects, and the functions that the interpreter calls ([`script::Server`]).
//!
//! Owns the latches and effects of the request while the script runs, and a session of its own, as scripts select
//! databases for themselves. Owns nothing borrowed, so that it can be stored while the script is paused.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use base::DbIndex;
use commands::context::{Ctx, Effects, PlannedKey};
use commands::host::{Host, ScriptKind};
use commands::session::{Session, SessionFlags};
use config::Config;
use keyspace::{Latched, Latches};
use os::clock::Ticks;
use script::{INTERVAL_MAX, LogLevel, Run, ScriptFlags, Server, Verdict};
use sync::Mutex;
use sync::atomic::{AtomicBool, Ordering};
use sync::simulation::{self, Gap};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

use crate::monitoring::command_log::Thresholds;
use crate::scripts::ScriptLatches;
use crate::scripts::cache::Script;
use crate::scripts::libraries::Libraries;
use crate::scripts::memory::MemoryShare;
use crate::scripts::running::RunningScript;
use crate::shared::Shared;

/// How long a script runs until its worker serves others, in nanoseconds.
const SLICE_NS_MAX: u64 = 1_000_000;

/// How long the commands that a script calls take until it is interrupted, in nanoseconds.
const CALLED_NS_MAX: u64 = 10_000_000;

/// The time on the clock goes on for scripts that run longer than this, in milliseconds, if `busy-reply-threshold` is 0.
const FROZEN_MS_MAX: u64 = 5_000;

/// The fewest instructions between two interrupts.
const INTERVAL_MIN: u32 = 10;

/// A script or function.
#[derive(Clone)]
pub enum Code {
    /// A script.
    Script(Arc<Script>),
    /// A function of a library.
    Function {
        /// Its name.
        name: Vec<u8>,
        /// The flags that it declares.
        flags: ScriptFlags,
        /// Whether the code of its library proves that it accesses declared keys only.
        keeps_to_keys: bool,
        /// The libraries of which this is true.
        generation: u64,
    },
}

impl Code {
    /// The flags that it declares.
    #[must_use]
    pub fn flags(&self) -> ScriptFlags {
        match self {
            Self::Script(script) => script.flags(),
            Self::Function { flags, .. } => *flags,
        }
    }

    /// Selects the command that kills it.
    #[must_use]
    pub fn kind(&self) -> ScriptKind {
        match self {
            Self::Script(_) => ScriptKind::Script,
            Self::Function { .. } => ScriptKind::Function,
        }
    }

    /// The form that the interpreter runs.
    #[must_use]
    pub fn run(&self) -> Run<'_> {
        match self {
            Self::Script(script) => Run::Script { sha: &script.sha, body: script.code() },
            Self::Function { name, .. } => Run::Function { name },
        }
    }

    /// Whether the libraries are those among which it was found.
    pub(super) fn is_current(&self, libraries: &Libraries) -> bool {
        match self {
            Self::Script(_) => true,
            Self::Function { generation, .. } => libraries.generation() == *generation,
        }
    }

    fn name(&self) -> Vec<u8> {
        match self {
            Self::Script(script) => script.sha.to_vec(),
            Self::Function { name, .. } => name.clone(),
        }
    }
}

/// See the module documentation.
pub struct Job {
    pub(super) shared: &'static Shared,
    pub(super) thread: usize,
    pub(super) host: Box<dyn Host>,
    pub(super) data: Latched<'static>,
    pub(super) latches: Latches<'static>,
    pub(super) effects: Effects,
    pub(super) session: Session,
    pub(super) config: Arc<Config>,
    pub(super) thresholds: Thresholds,
    pub(super) code: Option<Code>,
    pub(super) keys: Rc<ArgsBuf>,
    pub(super) arguments: Rc<ArgsBuf>,
    pub(super) reads_only: bool,
    pub(super) allows_oom: bool,
    pub(super) has_written: bool,
    pub(super) has_met_undeclared: bool,
    /// Whether one of its commands accesses all slots.
    pub(super) has_needed_all: bool,
    /// Whether the script may pause while its worker serves others.
    pub(super) may_pause: bool,
    /// The connection whose request it is; 0: it is closed.
    pub(super) client: u64,
    /// The latches with which it must be run again after [`Outcome::Again`](script::Outcome::Again).
    pub(super) rerun_latches: ScriptLatches,
    pub(super) protocol: Protocol,
    pub(super) out: Vec<u8>,
    pub(super) planned: Vec<PlannedKey>,
    pub(super) found: Vec<u32>,
    pub(super) running: Option<Arc<RunningScript>>,
    /// Pauses the script; `None`: it can't pause.
    pub(super) pause: Option<Rc<dyn Fn()>>,
    pub(super) started: Ticks,
    pub(super) slice_began: Ticks,
    /// When it was last interrupted, and the instructions until it is again.
    interrupted_at: Ticks,
    interval: u32,
    /// How long the commands took that it has called since.
    pub(super) called_ns: u64,
    /// What the interpreter uses.
    memory: Rc<RefCell<MemoryShare>>,
    /// Whether the script pauses, so that its next slice begins when it continues.
    pub(super) pauses: bool,
    /// Whether the log has a line about how long it runs.
    is_reported: bool,
}

impl Job {
    pub(super) fn new(
        shared: &'static Shared,
        host: Box<dyn Host>,
        thread: usize,
        memory: Rc<RefCell<MemoryShare>>,
        ctx: &Ctx<'_>,
    ) -> Self {
        let users = shared.access.users();
        let session = Session::new(0, String::new(), String::new(), ctx.session.connected_at, &users);
        let now = Ticks::now();
        let config = shared.config.load_full();
        Self {
            shared,
            thread,
            host,
            data: ctx.data.companion(now.to_raw()),
            latches: Latches::default(),
            effects: Effects::default(),
            session,
            thresholds: Thresholds::of(&config),
            config,
            code: None,
            keys: Rc::default(),
            arguments: Rc::default(),
            reads_only: false,
            allows_oom: false,
            has_written: false,
            has_met_undeclared: false,
            has_needed_all: false,
            may_pause: false,
            client: 0,
            rerun_latches: ScriptLatches::Declared,
            protocol: Protocol::Resp2,
            out: Vec::new(),
            planned: Vec::new(),
            found: Vec::new(),
            running: None,
            pause: None,
            started: now,
            slice_began: now,
            interrupted_at: now,
            interval: INTERVAL_MAX,
            called_ns: 0,
            memory,
            pauses: false,
            is_reported: false,
        }
    }

    /// Takes the latched data from the context, and copies the state of the client for which the script runs.
    pub(super) fn begin(&mut self, ctx: &mut Ctx<'_>) {
        ctx.data.exchange(&mut self.data);
        self.data.mode = ctx.data.mode;
        self.config = self.shared.config.load_full();
        self.thresholds = Thresholds::of(&self.config);
        let (own, caller) = (&mut self.session, &mut *ctx.session);
        own.id = caller.id;
        own.peer.clone_from(&caller.peer);
        own.name.clone_from(&caller.name);
        own.last_command = caller.last_command;
        own.script_micros = None;
        own.db = caller.db;
        own.user = Arc::clone(&caller.user);
        own.users_version = caller.users_version;
        own.authenticated = true;
        own.is_import_source = caller.is_import_source;
        // A copy: the connection receives invalidations while the script is paused.
        own.tracking.clone_from(&caller.tracking);
        own.flags = caller.flags & (SessionFlags::NO_TOUCH | SessionFlags::TRACKING);
        own.flags |= SessionFlags::IN_EXEC | SessionFlags::IN_SCRIPT;
        own.flags |= caller.flags & (SessionFlags::TRACKING_BCAST | SessionFlags::TRACKING_NOLOOP);
        self.protocol = caller.protocol;
        self.memory.borrow_mut().begin();
        self.has_written = false;
        self.is_reported = false;
        self.has_met_undeclared = false;
        self.has_needed_all = false;
        self.rerun_latches = ScriptLatches::Declared;
        self.out.clear();
        self.started = Ticks::now();
        self.slice_began = self.started;
        self.interrupted_at = self.started;
        self.called_ns = 0;
        if self.data.logs() && !self.data.effects.is_transaction() {
            self.data.effects.begin_transaction();
        }
        self.client = ctx.session.id;
    }

    /// Returns the latched data and the effects to the context. `in_transaction`: the request is part of a transaction.
    pub(super) fn end(&mut self, ctx: &mut Ctx<'_>, in_transaction: bool) {
        self.data.effects.is_muted = false;
        if self.data.effects.is_transaction() && !in_transaction {
            self.data.effects.end_transaction();
        }
        // The effects of its commands are logged instead of the request.
        ctx.effects.is_logged = self.data.logs();
        ctx.data.exchange(&mut self.data);
        self.session.tracking = None;
        ctx.session.command_count += std::mem::take(&mut self.session.command_count);
        ctx.effects.dirty += std::mem::take(&mut self.effects.dirty);
        ctx.effects.needs_barrier |= std::mem::take(&mut self.effects.needs_barrier);
        if let Some(running) = self.running.take() {
            self.shared.scripts.running.leave(&running);
        }
        self.code = None;
    }

    /// Like [`Self::end`], for a closed connection. Returns the number of changes.
    pub(super) fn end_orphan(&mut self, data: &mut Latched<'static>) -> u64 {
        self.data.effects.is_muted = false;
        if self.data.effects.is_transaction() {
            self.data.effects.end_transaction();
        }
        data.exchange(&mut self.data);
        self.session.tracking = None;
        if let Some(running) = self.running.take() {
            self.shared.scripts.running.leave(&running);
        }
        self.code = None;
        std::mem::take(&mut self.effects.dirty)
    }

    /// Logs that the script runs longer than `busy-reply-threshold`, once.
    #[cold]
    fn report_if_slow(&mut self, now: Ticks) {
        let ms = now.ns_since(self.started) / 1_000_000;
        let threshold_ms = self.config.busy_reply_threshold;
        let Some(code) = self.code.as_ref().filter(|_| threshold_ms > 0 && ms >= threshold_ms) else {
            return;
        };
        self.is_reported = true;
        log::warn!(
            "Slow script detected: still in execution after {ms} milliseconds. You can try killing the script using the {} \
             command. Script name is: {}.",
            crate::scripts::kill_command(code.kind()),
            String::from_utf8_lossy(&code.name()),
        );
    }

    /// Fewer instructions until the next interrupt if those before took long, as each may copy a large string.
    fn adapt_interval(&mut self, ns: u64) {
        if ns > 2 * SLICE_NS_MAX {
            let fitting = u64::from(self.interval) * SLICE_NS_MAX / ns;
            self.interval = u32::try_from(fitting).unwrap_or(u32::MAX).max(INTERVAL_MIN);
        } else {
            self.interval = self.interval.saturating_mul(2).min(INTERVAL_MAX);
        }
    }

    /// A script sees one time, unless it has run so long that it may wait for a later one.
    fn follow_clock(&mut self, now: Ticks) {
        let threshold_ms = match self.config.busy_reply_threshold {
            0 => FROZEN_MS_MAX,
            threshold_ms => threshold_ms,
        };
        if now.ns_since(self.started) / 1_000_000 >= threshold_ms {
            self.session.script_micros = None;
        }
    }

    /// Enters the list of the scripts that run long.
    pub(super) fn register(&mut self) -> &Arc<RunningScript> {
        let (shared, code) = (self.shared, &self.code);
        let slots = if self.running.is_some() { Vec::new() } else { self.data.held_slots() };
        self.running.get_or_insert_with(|| {
            let words = self.keys.args().iter().chain(self.arguments.args().iter()).map(<[u8]>::to_vec);
            let kind = code.as_ref().map_or(ScriptKind::Script, Code::kind);
            let name = code.as_ref().map(Code::name).unwrap_or_default();
            let verb: &[u8] = match (kind, self.reads_only) {
                (ScriptKind::Script, _) => b"evalsha",
                (ScriptKind::Function, false) => b"fcall",
                (ScriptKind::Function, true) => b"fcall_ro",
            };
            let count = self.keys.args().len().to_string().into_bytes();
            let command = [verb.to_vec(), name.clone(), count].into_iter().chain(words).collect();
            let running = Arc::new(RunningScript {
                kind,
                name,
                command,
                started: self.started,
                client: self.client,
                slots: Mutex::new(slots),
                has_written: AtomicBool::new(self.has_written),
                is_killed: AtomicBool::new(false),
            });
            shared.scripts.running.enter(&running);
            running
        })
    }
}

impl Server for Job {
    fn call(&mut self, args: Args<'_>, is_resp3: bool, out: &mut Vec<u8>) -> bool {
        self.session.protocol = if is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        match self.request(args, out) {
            Ok(()) => true,
            Err(super::request::Refusal::RunAgain) => false,
            Err(super::request::Refusal::Error(error)) => {
                out.clear();
                ReplyBuffer::new(out, self.session.protocol).error(error.text());
                true
            }
        }
    }

    fn is_allowed(&mut self, args: Args<'_>) -> Option<bool> {
        // The number of arguments is of no interest, as in Valkey.
        let found = self.find(args)?;
        let (db, db_count): (DbIndex, usize) = (self.session.db, self.data.db_count());
        Some(self.session.user.check(found.id, args, db, db_count).is_ok())
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        match level {
            LogLevel::Debug => log::trace!("{text}"),
            LogLevel::Verbose => log::debug!("{text}"),
            LogLevel::Notice => log::info!("{text}"),
            LogLevel::Warning => log::warn!("{text}"),
        }
        true
    }

    fn set_propagation(&mut self, flags: u8) {
        // There is one log, for the file and for replicas.
        self.data.effects.is_muted = flags & 1 == 0;
    }

    fn interrupt(&mut self) -> Verdict {
        // Without the time that a simulation lets pass here, which does not depend on the number of instructions.
        let passed_ns = Ticks::now().ns_since(self.interrupted_at);
        simulation::pass(Gap::ScriptHook);
        #[cfg(feature = "simulation")]
        if simulation::planted(crate::faults::LOOSE_SCRIPT) {
            self.let_go();
        }
        let now = Ticks::now();
        self.called_ns = 0;
        if std::mem::take(&mut self.pauses) {
            self.slice_began = now;
        } else {
            self.adapt_interval(passed_ns);
        }
        self.interrupted_at = now;
        if self.running.is_none() && now.ns_since(self.started) < SLICE_NS_MAX {
            return Verdict::Continue;
        }
        let running = self.register();
        if running.is_killed.load(Ordering::Acquire) && !running.has_written.load(Ordering::Relaxed) {
            return Verdict::Kill;
        }
        if !self.is_reported {
            self.report_if_slow(now);
        }
        self.follow_clock(now);
        if self.may_pause && now.ns_since(self.slice_began) > SLICE_NS_MAX {
            self.pauses = true;
            return Verdict::Yield;
        }
        Verdict::Continue
    }

    fn interval(&self) -> u32 {
        self.interval
    }

    fn is_due(&self) -> bool {
        self.called_ns > CALLED_NS_MAX
    }

    fn memory_max(&mut self, used: usize) -> usize {
        let allowed = self.memory.borrow_mut().report(used as u64, self.config.lua_memory_limit);
        usize::try_from(allowed).unwrap_or(usize::MAX)
    }
}
