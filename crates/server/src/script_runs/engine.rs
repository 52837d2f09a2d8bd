//! An interpreter on a stack of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use commands::error::CommandError;
use commands::host::{LibraryFacts, ScriptKind};
use os::clock::Ticks;
use os::coroutine::Coroutine;
use script::{Interpreter, InterpreterSettings, LoadedLibrary, RunOutcome};
use wire::reply::ReplyBuffer;

use super::job::Job;
use crate::scripts::Scripts;
use crate::scripts::libraries::LibrarySet;
use crate::scripts::memory::MemoryShare;

/// The size of the stack, in bytes. Lua nests at most 200 calls in C, each with a buffer of 8 KiB; pages that are not used
/// take no memory.
pub(super) const STACK_SIZE: usize = 8 << 20;

/// The steps in which a worker collects the garbage of forgotten libraries in each tick: about a millisecond.
const COLLECT_STEP_COUNT: usize = 4_000;

/// The input with which the coroutine continues.
enum Input {
    Run(Box<Job>),
    Continue,
    End,
}

/// The reason for a pause of the coroutine.
enum EngineOutput {
    Done(Box<Job>, RunOutcome),
    Paused,
}

/// The state of a run after a step.
pub(super) enum EngineStep {
    /// It has ended.
    Done(Box<Job>, RunOutcome),
    /// It is to be continued.
    Paused,
}

/// An interpreter, and the job that it runs or has run last.
pub(super) struct Engine {
    coroutine: Coroutine<Input, EngineOutput>,
    interpreter: Rc<RefCell<Interpreter<Job>>>,
    /// The job for the next run.
    pub(super) job: Option<Box<Job>>,
    /// The count of removals of the set that has all loaded libraries.
    removal_count: u64,
    /// The cycles of collection after which the garbage of forgotten libraries is gone: the first one may have begun before.
    cycles_left: u8,
    /// The libraries that are loaded, by name, each with the memory that it took.
    libraries: HashMap<Vec<u8>, (Arc<LibraryFacts>, u64)>,
    /// The sum of that memory.
    libraries_size: u64,
    libraries_memory: MemoryShare,
    /// All memory of the interpreter. The job reports it, too.
    pub(super) memory: Rc<RefCell<MemoryShare>>,
    /// Whether the deprecated functions exist.
    pub(super) is_insecure: bool,
    /// The client whose script is paused.
    pub(super) client: u64,
    /// Whether that script may write, or the transaction that it is part of.
    pub(super) may_write: bool,
    /// Its kind.
    pub(super) kind: ScriptKind,
    /// When it began.
    pub(super) started: Ticks,
}

impl Engine {
    pub(super) fn new(settings: InterpreterSettings, scripts: &'static Scripts) -> io::Result<Self> {
        let is_insecure = settings.allows_insecure_api;
        let interpreter = Interpreter::new(settings).map_err(|error| io::Error::other(error.to_string()))?;
        let interpreter = Rc::new(RefCell::new(interpreter));
        let own = Rc::clone(&interpreter);
        let coroutine = Coroutine::new(STACK_SIZE, move |pauser, first| {
            let pause = pauser.clone();
            let pause: Rc<dyn Fn()> = Rc::new(move || drop(pause.pause(EngineOutput::Paused)));
            let in_hook = Rc::clone(&pause);
            own.borrow().set_pause(move || in_hook());
            let mut input = first;
            while let Input::Run(mut job) = input {
                job.timing.pause = job.timing.may_pause.then(|| Rc::clone(&pause));
                let (job, outcome) = run(&own, job);
                input = pauser.pause(EngineOutput::Done(job, outcome));
            }
        })?;
        let libraries_memory = MemoryShare::new(&scripts.function_memory);
        let memory = Rc::new(RefCell::new(MemoryShare::new(&scripts.memory)));
        Ok(Self {
            coroutine,
            interpreter,
            job: None,
            removal_count: 0,
            cycles_left: 0,
            libraries: HashMap::new(),
            libraries_size: 0,
            libraries_memory,
            memory,
            is_insecure,
            client: 0,
            may_write: false,
            kind: ScriptKind::Script,
            started: Ticks::now(),
        })
    }

    /// Begins a run.
    pub(super) fn begin(&mut self, job: Box<Job>) -> EngineStep {
        self.resume(Input::Run(job))
    }

    /// Continues a paused run.
    pub(super) fn continue_run(&mut self) -> EngineStep {
        self.resume(Input::Continue)
    }

    fn resume(&mut self, input: Input) -> EngineStep {
        match self.coroutine.resume(input) {
            Some(EngineOutput::Done(job, outcome)) => EngineStep::Done(job, outcome),
            Some(EngineOutput::Paused) => EngineStep::Paused,
            None => unreachable!("it ends with the engine only"),
        }
    }

    /// Compiles a script.
    pub(super) fn compile(&self, sha: &[u8; 40], code: &[u8]) -> Result<(), CommandError> {
        self.interpreter.borrow_mut().compile(sha, code).map_err(CommandError::quoting)
    }

    /// Checks that a library can be loaded.
    pub(super) fn check_library(&mut self, code: &[u8]) -> Result<LoadedLibrary, CommandError> {
        self.interpreter.borrow_mut().check_library(code).map_err(|error| CommandError::quoting(error.0))
    }

    /// Forgets the loaded libraries that a set does not have.
    pub(super) fn follow_libraries(&mut self, set: &LibrarySet) {
        if self.removal_count == set.removals.count {
            return;
        }
        let gone: Vec<_> = match set.removals.since(self.removal_count) {
            Some(names) => names.filter_map(|name| self.libraries.remove(name)).collect(),
            None => {
                let gone = self.libraries.extract_if(|_, (library, _)| !set.has(library));
                gone.map(|(_, gone)| gone).collect()
            }
        };
        self.removal_count = set.removals.count;
        let mut interpreter = self.interpreter.borrow_mut();
        if self.libraries.is_empty() {
            interpreter.forget_functions();
        } else {
            let functions = gone.iter().flat_map(|(library, _)| &library.functions);
            functions.for_each(|function| interpreter.forget_function(&function.name));
        }
        self.libraries_size -= gone.iter().map(|(_, size)| size).sum::<u64>();
        self.libraries_memory.report(self.libraries_size, u64::MAX);
        if !gone.is_empty() {
            self.cycles_left = 2;
        }
    }

    /// Loads a library of the set that it follows, unless it is loaded. It then keeps what is in its variables.
    pub(super) fn load_library(&mut self, library: &Arc<LibraryFacts>) -> Result<(), CommandError> {
        if let Some((loaded, _)) = self.libraries.get(&library.name) {
            debug_assert!(Arc::ptr_eq(loaded, library), "others were forgotten");
            return Ok(());
        }
        let size = self.interpreter.borrow_mut().load_library(&library.code);
        let size = size.map_err(|error| CommandError::quoting(error.0))? as u64;
        self.libraries.insert(library.name.clone(), (Arc::clone(library), size));
        self.libraries_size += size;
        self.libraries_memory.report(self.libraries_size, u64::MAX);
        self.report_memory();
        Ok(())
    }

    /// Forgets the library that was checked last, unless it was loaded.
    pub(super) fn forget_checked(&self) {
        self.interpreter.borrow_mut().forget_checked();
    }

    /// Collects a part of what forgotten libraries have left.
    pub(super) fn collect_some(&mut self) {
        if self.cycles_left == 0 {
            return;
        }
        let is_complete = self.interpreter.borrow_mut().collect_some(COLLECT_STEP_COUNT);
        self.cycles_left -= u8::from(is_complete);
        self.report_memory();
    }

    fn report_memory(&self) {
        let used = self.interpreter.borrow().used_memory() as u64;
        self.memory.borrow_mut().report(used, u64::MAX);
    }

    pub(super) fn forget_scripts(&self) {
        self.interpreter.borrow_mut().forget_scripts();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A coroutine that is paused within a script is leaked.
        if self.client == 0 && self.job.is_some() {
            let _ = self.coroutine.resume(Input::End);
        }
    }
}

fn run(interpreter: &RefCell<Interpreter<Job>>, mut job: Box<Job>) -> (Box<Job>, RunOutcome) {
    let Some(code) = job.script.code.clone() else {
        return (job, RunOutcome::Killed { place: String::new() });
    };
    let mut out = std::mem::take(&mut job.out);
    let (keys, arguments) = (Rc::clone(&job.script.keys), Rc::clone(&job.script.arguments));
    let protocol = job.script.protocol;
    let (mut job, outcome) = interpreter.borrow_mut().run(
        code.run(),
        (keys.args(), arguments.args()),
        job,
        &mut ReplyBuffer::new(&mut out, protocol),
    );
    job.out = out;
    (job, outcome)
}
