//! The scripts of one worker: which latches a request needs, and running it.
//!
//! Owns the interpreters of the worker: one that is idle, and one for each script that is paused. Touches the connection
//! only through the context of its request.
//! Invariant: a paused script has a connection that continues it, or is an orphan, which the worker continues.

use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use commands::command::{Access, ScriptSource};
use commands::context::Ctx;
use commands::error::CommandError;
use commands::host::{Host, LibraryFacts, ScriptKind, ScriptName, ScriptRequest};
use commands::identity::{REDIS_VERSION, VALKEY_VERSION};
use commands::index::PlanKind;
use commands::session::{Session, SessionFlags};
use commands::table::ResolvedCommand;
use keyspace::{Counters, Latched, SCRIPT_TOKEN};
use os::clock::Ticks;
use script::{DigestMap, InterpreterSettings, LoadedLibrary, RunOutcome, ScriptFlags, Version};
use sync::Mode;
use sync::atomic::Ordering;
use wire::reply::ReplyBuffer;
use wire::request::{Args, ArgsBuf};

use super::engine::{Engine, EngineStep};
use super::job::{Code, Job};
use crate::scripts::cache::Script;
use crate::scripts::libraries::LibrarySet;
use crate::scripts::{ScriptLatches, Totals, errors};
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// Scripts that a worker pauses at once. While there are so many, further ones wait, apart from those of transactions that
/// have begun.
const PAUSED_COUNT_MAX: usize = 16;

/// Scripts that a worker finds without a lock.
const KNOWN_COUNT_MAX: usize = 1_000;

/// The client of a paused script whose connection is closed.
const NO_CLIENT: u64 = u64::MAX;

/// Makes the host for the commands of scripts.
pub type MakeHost = Box<dyn Fn() -> Box<dyn Host>>;

/// The latches that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptPlan {
    /// None: it will be refused, or continues with those that it has.
    Nothing,
    /// Those of its keys.
    Declared(Mode),
    /// Those of its keys, and the token, for writing: it may latch further slots while it runs.
    WithToken,
    /// Those of its keys and of further slots, for reading.
    Further,
    /// All.
    Everything(Mode),
}

/// See the module documentation.
pub struct WorkerScripts {
    shared: &'static Shared,
    thread: usize,
    make_host: MakeHost,
    /// Whether a script may pause: there is a worker that continues it.
    may_pause: bool,
    // Boxed: each run moves it several times.
    idle: RefCell<Option<Box<Engine>>>,
    #[allow(clippy::vec_box)]
    paused: RefCell<Vec<Box<Engine>>>,
    known: RefCell<Known>,
    /// The libraries at the last look.
    libraries: RefCell<Arc<LibrarySet>>,
    /// What the request that is being latched runs.
    planned: RefCell<Option<Code>>,
    /// The latches with which the script that has just run must be run again.
    rerun_latches: Cell<Option<ScriptLatches>>,
}

/// Scripts that were found in the cache, while its generation is this one.
#[derive(Default)]
struct Known {
    generation: u64,
    by_sha: DigestMap<Arc<Script>>,
    by_body: HashMap<Arc<[u8]>, Arc<Script>>,
}

impl WorkerScripts {
    /// The scripts of a worker. `may_pause`: it continues paused scripts.
    pub fn new(shared: &'static Shared, thread: usize, make_host: MakeHost, may_pause: bool) -> Rc<Self> {
        Rc::new(Self {
            shared,
            thread,
            make_host,
            may_pause,
            idle: RefCell::default(),
            paused: RefCell::default(),
            known: RefCell::default(),
            libraries: RefCell::default(),
            planned: RefCell::default(),
            rerun_latches: Cell::new(None),
        })
    }

    /// The latches for a request that runs a script.
    pub fn plan(
        &self,
        found: ResolvedCommand,
        args: Args<'_>,
        session: &Session,
        latches: &ScriptLatches,
    ) -> ScriptPlan {
        if session.unfinished.is_some() {
            return ScriptPlan::Nothing;
        }
        let Ok(code) = self.resolve_of(found, args) else { return ScriptPlan::Nothing };
        let reads_only = matches!(found.command.access, Access::Script { reads_only: true, .. })
            || code.flags().contains(ScriptFlags::NO_WRITES);
        let keeps_to_keys = match &code {
            Code::Script(script) => script.analysis.keeps_to_keys,
            Code::Function { keeps_to_keys, .. } => *keeps_to_keys,
        };
        let needs_everything = match &code {
            Code::Script(script) => script.needs_everything.load(Ordering::Relaxed),
            Code::Function { .. } => false,
        };
        *self.planned.borrow_mut() = Some(code);
        let mode = if reads_only && !session.tracks_reads() { Mode::Read } else { Mode::Write };
        match latches {
            _ if needs_everything || *latches == ScriptLatches::Everything => ScriptPlan::Everything(mode),
            _ if keeps_to_keys => ScriptPlan::Declared(mode),
            _ if !self.may_pause => ScriptPlan::Everything(mode),
            ScriptLatches::Further(_) if mode == Mode::Read => ScriptPlan::Further,
            // What only reads can be run again at any time.
            _ if mode == Mode::Read => ScriptPlan::Declared(mode),
            _ => ScriptPlan::WithToken,
        }
    }

    /// Whether a request runs a function.
    pub fn is_function(found: ResolvedCommand) -> bool {
        matches!(found.command.access, Access::Script { source: ScriptSource::Function, .. })
    }

    /// Whether a request that runs a script accesses its keys only, as far as is known. For a function it is true as long as
    /// the script token is held.
    pub fn keeps_to_keys(&self, found: ResolvedCommand, args: Args<'_>) -> bool {
        match self.resolve_of(found, args) {
            Ok(Code::Script(script)) => {
                script.analysis.keeps_to_keys && !script.needs_everything.load(Ordering::Relaxed)
            }
            Ok(Code::Function { keeps_to_keys, .. }) => keeps_to_keys,
            // Another worker may load a script before it runs.
            Err(_) => Self::is_function(found),
        }
    }

    /// Returns the latches with which the script that has just run must be run again.
    pub fn take_rerun_latches(&self) -> Option<ScriptLatches> {
        self.rerun_latches.take()
    }

    /// The libraries of the server, found without a lock while they do not change.
    fn libraries(&self) -> Ref<'_, Arc<LibrarySet>> {
        let libraries = &self.shared.scripts.libraries;
        if self.libraries.borrow().generation != libraries.generation() {
            *self.libraries.borrow_mut() = libraries.all();
        }
        self.libraries.borrow()
    }

    /// Forgets libraries that are gone, and frees their memory in parts.
    pub fn tick(&self) {
        let set = self.libraries();
        if let Some(engine) = &mut *self.idle.borrow_mut() {
            engine.follow_libraries(&set);
            engine.collect_some();
        }
    }

    /// Finds what a request runs: an error if there is no such script.
    pub(super) fn resolve_of(&self, found: ResolvedCommand, args: Args<'_>) -> Result<Code, CommandError> {
        match found.command.access {
            Access::Script { source, .. } => self.resolve(ScriptName::of(source, args)),
            _ => Err(errors::NO_SCRIPT),
        }
    }

    /// Finds what a request runs whose script has this name.
    fn resolve(&self, name: ScriptName<'_>) -> Result<Code, CommandError> {
        match name {
            ScriptName::Function(name) => {
                let set = self.libraries();
                let function = set.function(name).ok_or(errors::FUNCTION_NOT_FOUND)?;
                Ok(Code::Function {
                    name: function.name.clone(),
                    flags: function.flags,
                    keeps_to_keys: function.keeps_to_keys(),
                    generation: set.generation,
                })
            }
            ScriptName::Sha(sha) => self.script_of(sha).ok_or(errors::NO_SCRIPT).map(Code::Script),
            ScriptName::Body(body) => self.script(body).map(Code::Script),
        }
    }

    /// What the planned request runs, if it is this one.
    fn take_planned(&self, name: ScriptName<'_>) -> Option<Code> {
        let is_same = |code: &Code| match (code, name) {
            (Code::Script(script), ScriptName::Body(body)) => script.body[..] == *body,
            (Code::Script(script), ScriptName::Sha(sha)) => script.sha.eq_ignore_ascii_case(sha),
            (Code::Function { name, .. }, ScriptName::Function(given)) => name.eq_ignore_ascii_case(given),
            _ => false,
        };
        self.planned.take().filter(is_same)
    }

    fn known(&self) -> std::cell::RefMut<'_, Known> {
        let mut known = self.known.borrow_mut();
        let generation = self.shared.scripts.cache.generation();
        if known.generation != generation || known.by_sha.len() + known.by_body.len() > KNOWN_COUNT_MAX {
            known.by_sha.clear();
            known.by_body.clear();
            known.generation = generation;
        }
        known
    }

    /// The cached script with this digest, in any case.
    pub fn script_of(&self, sha: &[u8]) -> Option<Arc<Script>> {
        let mut digest = <[u8; 40]>::try_from(sha).ok()?;
        digest.make_ascii_lowercase();
        let mut known = self.known();
        if let Some(script) = known.by_sha.get(&digest) {
            return Some(Arc::clone(script));
        }
        let script = self.shared.scripts.cache.find(&digest)?;
        known.by_sha.insert(digest, Arc::clone(&script));
        Some(script)
    }

    /// The script with this text. Planning it does not add it to the cache: the request may yet be refused.
    fn script(&self, body: &[u8]) -> Result<Arc<Script>, CommandError> {
        if let Some(script) = self.known().by_body.get(body) {
            return Ok(Arc::clone(script));
        }
        let script = self.shared.scripts.cache.prepare(body)?;
        if script.is_cached() {
            self.known().by_body.insert(Arc::clone(&script.body), Arc::clone(&script));
        }
        Ok(script)
    }

    /// Adds the script of a request that is about to run to the cache, unless it is there.
    fn enter(&self, code: Code, name: ScriptName<'_>) -> Result<Code, CommandError> {
        match code {
            Code::Script(script) if !script.is_cached() => match name {
                ScriptName::Body(_) => self.compile_and_insert(&script, false).map(Code::Script),
                // It has left the cache since it was found.
                _ => Err(errors::NO_SCRIPT),
            },
            other => Ok(other),
        }
    }

    /// Loads a script, which stays in the cache.
    pub fn load(&self, body: &[u8]) -> Result<Arc<Script>, CommandError> {
        let script = self.shared.scripts.cache.prepare(body)?;
        self.compile_and_insert(&script, true)
    }

    fn compile_and_insert(&self, script: &Arc<Script>, stays: bool) -> Result<Arc<Script>, CommandError> {
        if !script.is_cached() {
            self.with_engine(|engine| engine.compile(&script.sha, script.code()))?;
        }
        let script = self.shared.scripts.cache.insert(script, stays);
        self.known().by_body.insert(Arc::clone(&script.body), Arc::clone(&script));
        Ok(script)
    }

    /// Checks that a library can be loaded.
    pub fn check_library(&self, code: &[u8]) -> Result<LoadedLibrary, CommandError> {
        self.with_engine(|engine| engine.check_library(code))
    }

    /// Loads a library that was checked and is one of the server's now.
    pub fn load_library(&self, library: &Arc<LibraryFacts>) -> Result<(), CommandError> {
        self.with_engine(|engine| {
            engine.follow_libraries(&self.libraries());
            engine.load_library(library)
        })
    }

    /// Forgets the library that was checked last, unless it was loaded.
    pub fn forget_checked(&self) {
        if let Some(engine) = &*self.idle.borrow() {
            engine.forget_checked();
        }
    }

    /// Frees what scripts have left in the idle interpreter.
    pub fn reset(&self) {
        if let Some(engine) = &*self.idle.borrow() {
            engine.forget_scripts();
        }
    }

    fn with_engine<R>(
        &self,
        act: impl FnOnce(&mut Engine) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let mut engine = self.take_engine()?;
        let result = act(&mut engine);
        self.put_back(engine);
        result
    }

    fn take_engine(&self) -> Result<Box<Engine>, CommandError> {
        let is_insecure = self.shared.config.load().lua_enable_insecure_api;
        if let Some(engine) = self.idle.borrow_mut().take_if(|engine| engine.is_insecure == is_insecure) {
            return Ok(engine);
        }
        Engine::new(settings(self.shared), &self.shared.scripts).map(Box::new).map_err(super::no_interpreter)
    }

    fn put_back(&self, engine: Box<Engine>) {
        self.idle.borrow_mut().get_or_insert(engine);
    }

    /// Runs a script or function, begins it or continues it, and writes its reply. If it pauses, or must be run again with
    /// other latches, nothing is written.
    pub fn run(
        &self,
        ctx: &mut Ctx<'_>,
        request: ScriptRequest<'_>,
        out: &mut ReplyBuffer<'_>,
    ) -> Result<(), CommandError> {
        if ctx.session.unfinished.take().is_some()
            && let Some(mut engine) = self.take_paused(ctx.session.id, ctx.data.counters)
        {
            let progress = engine.continue_run();
            return self.went_on(engine, progress, ctx, out);
        }
        // Before anything can fail, as other commands.
        self.feed_monitors(ctx);
        let in_transaction = ctx.session.flags.contains(SessionFlags::IN_EXEC);
        // A transaction is planned as a whole: what is left there is of another request.
        let planned = self.take_planned(request.name).filter(|_| !in_transaction);
        let code = planned.map_or_else(|| self.resolve(request.name), Ok)?;
        let code = self.enter(code, request.name)?;
        self.check(&code, request.reads_only, ctx)?;
        let mut engine = self.take_engine()?;
        if let Code::Function { name, .. } = &code {
            if !code.is_current(&self.shared.scripts.libraries) {
                // Its latches may not be those that the present code needs. In a transaction the script token is held.
                debug_assert!(!in_transaction, "libraries change under the script token");
                self.put_back(engine);
                self.rerun_latches.set(Some(ScriptLatches::Declared));
                return Ok(());
            }
            ctx.data.note_slot_read(SCRIPT_TOKEN);
            let set = self.libraries();
            engine.follow_libraries(&set);
            let function = set.function(name).ok_or(errors::FUNCTION_NOT_FOUND);
            if let Err(error) = function.and_then(|function| engine.load_library(&function.library)) {
                self.put_back(engine);
                return Err(error);
            }
        }
        if let Code::Script(script) = &code {
            self.shared.scripts.cache.touch(script);
        }
        if ctx.data.holds_everything() {
            Totals::count(&self.shared.scripts.totals.exclusive);
        }
        let mut job = engine.job.take().unwrap_or_else(|| self.new_job(ctx, &engine));
        job.script.reads_only = request.reads_only || code.flags().contains(ScriptFlags::NO_WRITES);
        job.script.allows_oom = code.flags().contains(ScriptFlags::ALLOW_OOM);
        job.script.code = Some(code);
        job.timing.may_pause = self.may_pause;
        job.script.may_write = !job.script.reads_only || in_transaction;
        engine.may_write = job.script.may_write;
        engine.kind = job.script.code.as_ref().map_or(ScriptKind::Script, Code::kind);
        refill(&mut job.script.keys, request.keys);
        refill(&mut job.script.arguments, request.arguments);
        job.begin(ctx);
        engine.started = job.timing.started;
        let progress = engine.begin(job);
        self.went_on(engine, progress, ctx, out)
    }

    /// Shows the request to monitors, before its commands.
    pub fn feed_monitors(&self, ctx: &Ctx<'_>) {
        if self.shared.modes.flags.is_set(GlobalFlags::MONITORED) {
            let found = ResolvedCommand { command: ctx.command, id: ctx.id, plan_kind: PlanKind::Other };
            self.shared.hub.show_to_monitors(self.thread, ctx.session, found, ctx.args);
        }
    }

    fn new_job(&self, ctx: &Ctx<'_>, engine: &Engine) -> Box<Job> {
        let memory = Rc::clone(&engine.memory);
        Box::new(Job::new(self.shared, (self.make_host)(), self.thread, memory, ctx))
    }

    /// Checks what a script declares about itself.
    fn check(&self, code: &Code, reads_only: bool, ctx: &Ctx<'_>) -> Result<(), CommandError> {
        let flags = code.flags();
        if flags.contains(ScriptFlags::WITHOUT_SHEBANG) {
            return Ok(());
        }
        if reads_only && !flags.contains(ScriptFlags::NO_WRITES) {
            return Err(errors::WRITES);
        }
        let takes_memory = !flags.intersects(ScriptFlags::ALLOW_OOM | ScriptFlags::NO_WRITES);
        if takes_memory && ctx.data.mode.is_over_memory_limit {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        Ok(())
    }

    fn take_paused(&self, client: u64, counters: &Counters) -> Option<Box<Engine>> {
        let mut paused = self.paused.borrow_mut();
        let place = paused.iter().position(|engine| engine.client == client)?;
        let engine = paused.swap_remove(place);
        counters.set_paused_scripts(paused.len());
        Some(engine)
    }

    fn keep_paused(&self, engine: Box<Engine>, counters: &Counters) {
        let mut paused = self.paused.borrow_mut();
        paused.push(engine);
        counters.set_paused_scripts(paused.len());
    }

    fn went_on(
        &self,
        mut engine: Box<Engine>,
        progress: EngineStep,
        ctx: &mut Ctx<'_>,
        out: &mut ReplyBuffer<'_>,
    ) -> Result<(), CommandError> {
        let (mut job, outcome) = match progress {
            EngineStep::Done(job, outcome) => (job, outcome),
            EngineStep::Paused => {
                engine.client = ctx.session.id;
                ctx.session.unfinished = Some(1);
                self.keep_paused(engine, ctx.data.counters);
                return Ok(());
            }
        };
        if let Some(Code::Script(script)) = &job.script.code {
            let needs_everything = &script.needs_everything;
            if matches!(outcome, RunOutcome::Again) && job.observed.has_needed_all {
                needs_everything.store(true, Ordering::Relaxed);
            } else if !job.observed.has_needed_all && job.data.holds_everything() {
                // What an earlier run has shown is not true of this one.
                needs_everything.store(false, Ordering::Relaxed);
            }
        }
        let kind = job.script.code.as_ref().map_or(ScriptKind::Script, Code::kind);
        if job.observed.has_met_undeclared && !matches!(outcome, RunOutcome::Again) {
            Totals::count(&self.shared.scripts.totals.undeclared);
        }
        job.end(ctx, ctx.session.flags.contains(SessionFlags::IN_EXEC));
        let result = match outcome {
            RunOutcome::Failed(error) if !error.is_counted => Err(CommandError::quoting(error.text)),
            RunOutcome::Replied => {
                out.raw(&job.out);
                Ok(())
            }
            RunOutcome::Failed(_) => {
                // The error is counted; the request that replies with it failed, too.
                self.shared.monitoring.statistics.thread(self.thread).command(ctx.id).failed.add(1);
                out.raw(&job.out);
                Ok(())
            }
            RunOutcome::Killed { place } => Err(errors::killed(kind, &place)),
            RunOutcome::Again => {
                Totals::count(&self.shared.scripts.totals.repeated);
                self.rerun_latches.set(Some(std::mem::take(&mut job.observed.rerun_latches)));
                Ok(())
            }
        };
        self.retire(engine, job);
        result
    }

    fn retire(&self, mut engine: Box<Engine>, job: Box<Job>) {
        engine.client = 0;
        engine.job = Some(job);
        self.put_back(engine);
    }

    /// Whether a client's script is paused.
    #[must_use]
    pub fn is_paused(&self, client: u64) -> bool {
        self.paused.borrow().iter().any(|engine| engine.client == client)
    }

    /// Whether so many scripts are paused that further ones wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.paused.borrow().len() >= PAUSED_COUNT_MAX
    }

    /// The kind of a paused script, if all paused ones have run longer than this.
    #[must_use]
    pub fn busy_if_all(&self, threshold_ms: u64) -> Option<ScriptKind> {
        let (paused, now) = (self.paused.borrow(), Ticks::now());
        let is_busy = |engine: &Engine| now.ns_since(engine.started) / 1_000_000 >= threshold_ms;
        let kind = paused.first().map(|engine| engine.kind);
        kind.filter(|_| threshold_ms > 0 && paused.iter().all(|engine| is_busy(engine)))
    }

    /// Whether a script is paused that may write, alone or in a transaction.
    #[must_use]
    pub fn has_begun_to_write(&self) -> bool {
        self.paused.borrow().iter().any(|engine| engine.may_write)
    }

    /// Whether no script is paused.
    #[must_use]
    pub fn has_none_paused(&self) -> bool {
        self.paused.borrow().is_empty()
    }

    /// Handles the end of a connection: its script is ended if it has written nothing, and otherwise continued.
    pub fn abandon(&self, client: u64) {
        for engine in self.paused.borrow_mut().iter_mut().filter(|engine| engine.client == client) {
            engine.client = NO_CLIENT;
            self.shared.scripts.running.end_of_client(client);
        }
    }

    /// Whether there are scripts whose connections are closed.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.paused.borrow().iter().any(|engine| engine.client == NO_CLIENT)
    }

    /// Continues a script whose connection is closed. If it ends, `data` has its latches and effects, which the caller
    /// releases; then returns the number of its changes.
    pub fn continue_orphan(&self, data: &mut Latched<'static>) -> Option<u64> {
        let mut engine = self.take_paused(NO_CLIENT, data.counters)?;
        match engine.continue_run() {
            EngineStep::Paused => {
                self.keep_paused(engine, data.counters);
                None
            }
            EngineStep::Done(mut job, _) => {
                let dirty = job.end_orphan(data);
                self.retire(engine, job);
                Some(dirty)
            }
        }
    }
}

/// The settings of an interpreter.
pub(super) fn settings(shared: &Shared) -> InterpreterSettings {
    let config = shared.config.load();
    let is_redis = config.extended_redis_compatibility;
    InterpreterSettings {
        memory_max: usize::try_from(config.lua_memory_limit).unwrap_or(usize::MAX),
        stack_size: super::engine::STACK_SIZE,
        allows_insecure_api: config.lua_enable_insecure_api,
        versions: vec![
            ("REDIS_VERSION", Version::Text(REDIS_VERSION)),
            ("REDIS_VERSION_NUM", Version::Number(version_number(REDIS_VERSION))),
            ("VALKEY_VERSION", Version::Text(VALKEY_VERSION)),
            ("VALKEY_VERSION_NUM", Version::Number(version_number(VALKEY_VERSION))),
            ("SERVER_NAME", Version::Text(if is_redis { "redis" } else { "valkey" })),
        ],
    }
}

fn refill(buffer: &mut Rc<ArgsBuf>, args: Args<'_>) {
    match Rc::get_mut(buffer) {
        Some(own) => {
            own.clear();
            own.extend(args);
        }
        None => *buffer = Rc::new(args.iter().collect()),
    }
}

/// A version as a number: a byte for each of its three parts.
fn version_number(version: &str) -> u32 {
    version.split('.').take(3).fold(0, |number, part| number << 8 | part.parse::<u32>().unwrap_or(0))
}
