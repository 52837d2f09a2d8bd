//! The interpreter of one thread: its Lua state, the compiled scripts and the loaded libraries.
//!
//! Owns the state. Lends the [`Server`] of a run to the functions of the API while the run lasts.
//! Invariants: a run has one server; the server is back in the hands of the caller when the run ends.

pub(crate) mod api;
mod calls;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_int;
use std::panic::resume_unwind;
use std::rc::Rc;

use commands::error::up_to_nul;
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use wire::reply::ReplyBuffer;
use wire::request::{Args, ArgsBuf};

use crate::conversion::{self, ErrorReply};
use crate::failure::{End, Failure, Stopped, failure_of, place_in_script, text_of};
use crate::loaded::CheckedLibrary;
use crate::meter::Meter;
use crate::random::Random;
use crate::source::DigestMap;
use crate::stack::{LuaType, Name, Stack, with_stack};
use crate::{bit, cjson, cmsgpack, memory, natives, structure};

/// What a running script asks of the server.
pub trait Server: 'static {
    /// Runs a command and writes its reply, in RESP3 if `is_resp3`. `false`: the script must be run again with other
    /// latches, and is to end here.
    fn call(&mut self, args: Args<'_>, is_resp3: bool, out: &mut Vec<u8>) -> bool;
    /// Whether the user may run a command. `None`: it is no valid request.
    fn is_allowed(&mut self, args: Args<'_>) -> Option<bool>;
    /// Writes a line to the server's log. `false`: as with [`Self::call`].
    fn log(&mut self, level: LogLevel, text: &[u8]) -> bool;
    /// Sets to where the changes of the script propagate: bit 0 append-only file, bit 1 replicas.
    fn set_propagation(&mut self, flags: u8);
    /// Called regularly while a script runs.
    fn interrupt(&mut self) -> Verdict;
    /// The instructions until the next interrupt, as of the last one: few if those before took long.
    fn interval(&self) -> u32 {
        INTERVAL_MAX
    }
    /// Whether the command that was called last took so long that an interrupt is due.
    fn is_due(&self) -> bool {
        false
    }
    /// Called with the memory that the interpreter uses: when a run begins, at each interrupt, and when it ends. Returns how
    /// much it may use.
    fn memory_max(&mut self, used: usize) -> usize;
}

/// The most instructions between two interrupts.
pub const INTERVAL_MAX: u32 = 10_000;

/// Whether a script may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Continue,
    /// It is to end with an error.
    Kill,
    /// It runs too long: the thread is to do something else, then to continue it.
    Yield,
}

/// The levels of lines that scripts log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogLevel {
    Debug,
    Verbose,
    Notice,
    Warning,
}

/// The settings of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterpreterSettings {
    /// The memory that the code of a library may use, in bytes. That of a run is said by its server.
    pub memory_max: usize,
    /// The stack that runs have, in bytes.
    pub stack_size: usize,
    /// Whether the deprecated functions `getfenv`, `setfenv` and `newproxy` exist.
    pub allows_insecure_api: bool,
    /// The constants that name the server: name and value.
    pub versions: Vec<(&'static str, Version)>,
}

/// The value of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Version {
    Number(u32),
    Text(&'static str),
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub enum Runnable<'a> {
    /// A script, by its digest; `body` is what follows the shebang.
    Script {
        /// The digest in lower case.
        sha: &'a [u8; 40],
        /// Its code.
        body: &'a [u8],
    },
    /// A function of a library.
    Function {
        /// Its name.
        name: &'a [u8],
    },
}

/// How a run ended.
#[derive(Debug)]
pub enum RunOutcome {
    /// A reply is written.
    Replied,
    /// An error is written, which the caller counts unless that has happened.
    Failed(ErrorReply),
    /// The script was killed.
    Killed {
        /// Where it was, as the ends of other errors name it.
        place: String,
    },
    /// Nothing is written: it must be run again.
    Again,
}

/// The parts that the functions of the API use.
pub(crate) struct Running<S> {
    pub(crate) server: RefCell<Option<Box<S>>>,
    pub(crate) is_resp3: Cell<bool>,
    /// The random numbers of all scripts.
    pub(crate) random: Cell<Random>,
    /// Those of the script that runs, from when it has set a seed.
    pub(crate) seeded: Cell<Option<Random>>,
    pub(crate) request: RefCell<ArgsBuf>,
    pub(crate) reply: RefCell<Vec<u8>>,
    /// The names that the stack pushes.
    pub(crate) names: Table,
    /// The payload of a panic in a call of a command.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// While a library is loaded: the interrupts until its code is ended.
    pub(crate) interrupts_left: Cell<Option<u32>>,
    /// Where the script was that the server has killed.
    killed_at: Cell<Option<String>>,
    /// Called when the server answers [`Verdict::Yield`].
    pub(crate) pause: RefCell<Option<Box<dyn Fn()>>>,
    /// What functions of the host spend.
    pub(crate) meter: Rc<Meter>,
    /// The settings of `cjson`.
    pub(crate) cjson: Rc<Cell<cjson::CjsonSettings>>,
    /// The instructions between two interrupts.
    pub(crate) interval: Cell<u32>,
}

/// See the module documentation.
pub struct Interpreter<S: Server> {
    pub(crate) lua: Lua,
    pub(crate) running: Rc<Running<S>>,
    pub(crate) parts: Parts,
    scripts: DigestMap<Function>,
    /// The functions of libraries by name. The binding has few references, so they are in a table.
    pub(crate) functions: Table,
    /// Those that were called last.
    pub(crate) recent: HashMap<Vec<u8>, Function>,
    /// The library that was checked last.
    pub(crate) checked: Option<CheckedLibrary>,
    settings: InterpreterSettings,
    /// The memory after the last collection of a run's garbage.
    settled_size: usize,
    /// Whether the globals `KEYS` and `ARGV` are those of a script.
    has_arguments: bool,
}

/// The parts of the sandbox that the interpreter uses.
pub(crate) struct Parts {
    environment: Table,
    globals: Table,
    handle: Function,
    pub(crate) compile: Function,
    pub(crate) run_library: Function,
    pub(crate) environment_for_library: Function,
    /// What the code of a library sees while it is loaded, copied for each.
    pub(crate) library_api: Table,
}

/// A collection begins when the memory is this percentage of that after the one before. It goes on in steps of some
/// kilobytes, as scripts allocate.
const COLLECT_AT_PERCENT: c_int = 150;

/// The stack that the code of a library has for recursions of the host, in bytes: it runs on the stack of a worker.
const LIBRARY_STACK_SIZE: usize = 512 << 10;

/// Garbage that runs may leave, in bytes.
const GARBAGE_SIZE_MAX: usize = 16 << 20;

/// Garbage that they may always leave, in bytes: a part of the room that an interpreter has at least.
const GARBAGE_SIZE_MIN: usize = 256 << 10;

/// Compiled scripts that are kept.
const COMPILED_COUNT_MAX: usize = 2_000;

const SANDBOX: &str = include_str!("sandbox.lua");

impl<S: Server> Interpreter<S> {
    /// A new interpreter.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(settings: InterpreterSettings) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::OS | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let running = Rc::new(Running {
            server: RefCell::new(None),
            is_resp3: Cell::new(false),
            random: Cell::new(Random::new()),
            seeded: Cell::new(None),
            killed_at: Cell::new(None),
            request: RefCell::new(ArgsBuf::new()),
            reply: RefCell::new(Vec::new()),
            names: Name::table(&lua)?,
            panic: Cell::new(None),
            interrupts_left: Cell::new(None),
            pause: RefCell::new(None),
            meter: Rc::new(Meter::new(settings.memory_max)),
            cjson: Rc::default(),
            interval: Cell::new(INTERVAL_MAX),
        });
        let own = lua.create_table()?;
        let (meter, array_metatable) = (&running.meter, lua.create_table()?);
        for (name, library) in [
            ("bit", bit::library(&lua)?),
            ("cjson", cjson::library(&lua, meter, &running.cjson, &array_metatable)?),
            ("cmsgpack", cmsgpack::library(&lua, meter)?),
            ("struct", structure::library(&lua, meter)?),
        ] {
            own.set(name, library)?;
        }
        let host = api::host_functions(&lua, &running)?;
        host.set("array_metatable", array_metatable)?;
        host.set("limit_on", memory::limit_function(&lua, settings.memory_max)?)?;
        host.set("limit_off", memory::limit_function(&lua, 0)?)?;
        let api = api::script_api(&lua, &running, &settings)?;
        let insecure = settings.allows_insecure_api;
        let sandbox = lua.load(SANDBOX).set_name("=sandbox").set_mode(ChunkMode::Text);
        let built: Table = sandbox.call((host, api, own, insecure))?;
        let parts = Parts {
            environment: built.get("G")?,
            globals: built.get("globals")?,
            handle: built.get("handle")?,
            compile: built.get("compile")?,
            run_library: built.get("run_library")?,
            environment_for_library: built.get("environment_for_library")?,
            library_api: api::library_api(&lua, &running, &settings)?,
        };
        set_hook(&lua, &running)?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(COLLECT_AT_PERCENT)));
        let (scripts, functions, recent) = (DigestMap::default(), lua.create_table()?, HashMap::new());
        let settled_size = lua.used_memory();
        Ok(Self {
            lua,
            running,
            parts,
            scripts,
            functions,
            recent,
            checked: None,
            settings,
            settled_size,
            has_arguments: false,
        })
    }

    /// The settings that it was made with.
    #[must_use]
    pub fn settings(&self) -> &InterpreterSettings {
        &self.settings
    }

    /// The memory that it uses, in bytes.
    #[must_use]
    pub fn used_memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// Sets what is called when a script runs too long.
    pub fn set_pause(&self, pause: impl Fn() + 'static) {
        *self.running.pause.borrow_mut() = Some(Box::new(pause));
    }

    /// Compiles a script, unless that has happened.
    ///
    /// # Errors
    /// The text of the error, for the client.
    pub fn compile(&mut self, sha: &[u8; 40], body: &[u8]) -> Result<(), Vec<u8>> {
        if self.scripts.contains_key(sha) {
            return Ok(());
        }
        let function = self
            .compile_text(body, "@user_script", &self.parts.environment)
            .map_err(|text| [b"ERR Error compiling script (new function): ", &text[..]].concat())?;
        if self.scripts.len() >= COMPILED_COUNT_MAX {
            self.scripts.clear();
        }
        self.scripts.insert(*sha, function);
        Ok(())
    }

    /// Compiles a text, or returns the text of the error.
    pub(crate) fn compile_text(
        &self,
        code: &[u8],
        name: &str,
        environment: &Table,
    ) -> Result<Function, Vec<u8>> {
        let code = self.lua.create_string(code);
        let compiled = code.and_then(|code| self.parts.compile.call((code, name, environment)));
        match compiled {
            Ok((Some(function), _)) => Ok(function),
            Ok((None, text)) => {
                let text: Option<mlua::LuaString> = text;
                Err(text.map_or_else(Vec::new, |text| up_to_nul(&text.as_bytes()).to_vec()))
            }
            Err(error) => Err(text_of(&error).into_bytes()),
        }
    }

    /// Forgets all compiled scripts.
    pub fn forget_scripts(&mut self) {
        self.scripts.clear();
        // Garbage that is not collected now is collected later.
        let _ = self.lua.gc_collect();
    }

    /// Collects garbage in this many steps, each of some KiB. Returns whether they complete a cycle.
    pub fn collect_some(&mut self, step_count: usize) -> bool {
        // Errors of finalizers are of no interest.
        let is_complete = (0..step_count).any(|_| self.lua.gc_step().unwrap_or(true));
        if is_complete {
            self.settled_size = self.lua.used_memory();
        }
        is_complete
    }

    /// Runs a script or function with its server, and writes its reply. Returns the server.
    pub fn run(
        &mut self,
        run: Runnable<'_>,
        (keys, arguments): (Args<'_>, Args<'_>),
        mut server: Box<S>,
        out: &mut ReplyBuffer<'_>,
    ) -> (Box<S>, RunOutcome) {
        self.reset_settings();
        self.running.meter.begin_stack(self.settings.stack_size);
        self.running.meter.set_memory_max(server.memory_max(self.lua.used_memory()));
        *self.running.server.borrow_mut() = Some(server);
        let mark = out.mark();
        let outcome = self.call(run, keys, arguments, out);
        self.collect_if_large();
        if matches!(outcome, RunOutcome::Again) {
            out.truncate(mark);
        }
        let mut server = self.running.server.borrow_mut().take().expect("put there above");
        server.memory_max(self.lua.used_memory());
        (server, outcome)
    }

    /// What a script may set ends with it: the next one may be that of another user.
    fn reset_settings(&self) {
        self.running.is_resp3.set(false);
        self.running.seeded.set(None);
        self.running.cjson.set(cjson::CjsonSettings::default());
    }

    /// Prepares for the code of a library, which has no server.
    pub(crate) fn begin_library(&self) {
        self.reset_settings();
        self.running.meter.begin_stack(LIBRARY_STACK_SIZE);
        self.running.meter.set_memory_max(self.settings.memory_max);
        self.running.interval.set(INTERVAL_MAX);
        natives::set_interval(&self.lua, INTERVAL_MAX);
    }

    /// Turns the limit off, also after an error that has skipped that, and collects garbage if there is much: an allocation
    /// that fails does not collect it.
    pub(crate) fn settle_memory(&mut self) {
        let _ = self.lua.set_memory_limit(0);
        self.collect_if_large();
    }

    /// A run that reaches the limit fails, as its allocations do not collect garbage. So it is collected while it takes a part
    /// of the room that is left, but not after each run: if other interpreters use the memory, there is never much room.
    fn collect_if_large(&mut self) {
        let used = self.lua.used_memory();
        let garbage = used.saturating_sub(self.settled_size);
        let room = self.running.meter.memory_max().saturating_sub(used);
        if garbage > self.settled_size + GARBAGE_SIZE_MAX || garbage > (room / 2).max(GARBAGE_SIZE_MIN) {
            // Errors of finalizers are of no interest.
            let _ = self.lua.gc_collect();
            self.settled_size = self.lua.used_memory();
        }
    }

    fn call(
        &mut self,
        run: Runnable<'_>,
        keys: Args<'_>,
        arguments: Args<'_>,
        out: &mut ReplyBuffer<'_>,
    ) -> RunOutcome {
        if let Runnable::Script { sha, body } = run
            && let Err(text) = self.compile(sha, body)
        {
            return self.failed(&Failure::Text(text).into(), out);
        }
        let function = match run {
            Runnable::Script { sha, .. } => self.scripts.get(sha).cloned(),
            Runnable::Function { name } => self.function(name).cloned(),
        };
        let Some(function) = function else {
            return self.failed(&Failure::Text(b"Function not found".to_vec()).into(), out);
        };
        let is_script = matches!(run, Runnable::Script { .. });
        if std::mem::replace(&mut self.has_arguments, is_script) && !is_script {
            // They are those of a script, perhaps of another user. Removing a field does not fail.
            for name in ["KEYS", "ARGV"] {
                let _ = self.parts.globals.raw_set(name, Value::Nil);
            }
        }
        with_stack(&self.lua, &self.running.names, |stack| {
            let room = stack.reserve(ROOM);
            assert!(room, "the stack is empty between runs");
            stack.push(&self.parts.handle);
            let handler = stack.top();
            let argument_count = match run {
                Runnable::Script { .. } => {
                    stack.push(&self.parts.globals);
                    let globals = stack.top();
                    for (name, args) in [(Name::Keys, keys), (Name::Argv, arguments)] {
                        stack.push_name(name);
                        push_array(stack, args);
                        stack.put(globals);
                    }
                    stack.pop(1);
                    stack.push(&function);
                    0
                }
                Runnable::Function { .. } => {
                    stack.push(&function);
                    push_array(stack, keys);
                    push_array(stack, arguments);
                    2
                }
            };
            let succeeds = stack.call(argument_count, handler, self.running.meter.memory_max());
            self.outcome(succeeds, stack, out)
        })
    }

    /// Writes the reply: the topmost value is the result, or the error.
    fn outcome(&self, succeeds: bool, stack: &mut Stack<'_>, out: &mut ReplyBuffer<'_>) -> RunOutcome {
        if let Some(payload) = self.running.panic.take() {
            resume_unwind(payload);
        }
        if succeeds {
            return match conversion::to_reply(stack, self.running.is_resp3.get(), out) {
                None => RunOutcome::Replied,
                Some(error) => RunOutcome::Failed(error),
            };
        }
        if stack.kind(stack.top()) == LuaType::Other
            && let Value::Error(error) = stack.pop_value()
        {
            return self.failed(&error, out);
        }
        let error = conversion::failure_reply(stack);
        out.error(&error.text);
        RunOutcome::Failed(error)
    }

    /// Writes the reply for an error of the host or the binding.
    fn failed(&self, error: &mlua::Error, out: &mut ReplyBuffer<'_>) -> RunOutcome {
        match failure_of(error) {
            Some(Failure::End(End::Again)) => RunOutcome::Again,
            Some(Failure::End(End::Killed)) => {
                RunOutcome::Killed { place: self.running.killed_at.take().unwrap_or_default() }
            }
            _ => {
                let text = conversion::error_line(format!("ERR {}", text_of(error)).as_bytes());
                out.error(&text);
                RunOutcome::Failed(ErrorReply { text, is_counted: false })
            }
        }
    }
}

/// The values on the stack that a run needs besides its result.
const ROOM: c_int = 8;

/// Pushes a table of strings.
fn push_array(stack: &mut Stack<'_>, args: Args<'_>) {
    stack.push_table(args.len(), 0);
    let table = stack.top();
    for (index, arg) in args.iter().enumerate() {
        stack.push_bytes(arg);
        stack.put_element(table, index as c_int + 1);
    }
}

/// Interrupts scripts: after a number of instructions, and when functions of the host have worked for a while.
fn set_hook<S: Server>(lua: &Lua, running: &Rc<Running<S>>) -> mlua::Result<()> {
    // The meter belongs to what is running, so it refers to it weakly.
    let weak = Rc::downgrade(running);
    running.meter.set_interrupt(move |lua| match weak.upgrade() {
        Some(running) => interrupt(lua, &running),
        None => Ok(()),
    });
    let running = Rc::clone(running);
    let triggers = HookTriggers::new().every_nth_instruction(INTERVAL_MAX);
    lua.set_global_hook(triggers, move |lua, _| {
        interrupt(lua, &running)?;
        natives::set_interval(lua, running.interval.get());
        let has_limit = lua.set_memory_limit(0)? > 0;
        if has_limit {
            lua.set_memory_limit(running.meter.memory_max())?;
        }
        Ok(VmState::Continue)
    })
}

/// Asks the server whether the script may go on, and pauses it if the server says so.
fn interrupt<S: Server>(lua: &Lua, running: &Running<S>) -> Result<(), Stopped> {
    let used = lua.used_memory();
    loop {
        let verdict = match running.server.try_borrow_mut() {
            Ok(mut server) => server.as_mut().map(|server| {
                running.meter.set_memory_max(server.memory_max(used));
                let verdict = server.interrupt();
                running.interval.set(server.interval());
                verdict
            }),
            Err(_) => Some(Verdict::Continue),
        };
        let Some(verdict) = verdict else {
            // Without a server a library is loaded or a text compiled; the latter has no limit.
            if let Some(left) = running.interrupts_left.get() {
                running.interrupts_left.set(Some(left.checked_sub(1).ok_or(Stopped::Timeout)?));
            }
            return Ok(());
        };
        match verdict {
            Verdict::Continue => return Ok(()),
            Verdict::Kill => {
                running.killed_at.set(Some(place_in_script(lua)));
                return Err(Stopped::Killed);
            }
            Verdict::Yield => match &*running.pause.borrow() {
                Some(pause) => pause(),
                None => return Ok(()),
            },
        }
    }
}
