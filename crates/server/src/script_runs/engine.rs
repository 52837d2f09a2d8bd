//! An interpreter on a stack of its own.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use commands::error::CommandError;
use commands::host::{LibraryFacts, ScriptKind};
use os::clock::Ticks;
use os::coroutine::Coroutine;
use script::{Interpreter, LoadedLibrary, Outcome, Settings};
use wire::reply::ReplyBuffer;

use super::job::Job;
use crate::scripts::Scripts;
use crate::scripts::libraries::LibrarySet;
use crate::scripts::memory::MemoryShare;

/// The size of the stack, in bytes. Lua nests at most 200 calls in C, each with a buffer of 8 KiB; pages that are not used
/// take no memory.
pub(super) const STACK_SIZE: usize = 8 << 20;

/// The input with which the coroutine continues.
enum Input {
    Run(Box<Job>),
    Continue,
    End,
}

/// The reason for a pause of the coroutine.
enum Output {
    Done(Box<Job>, Outcome),
    Paused,
}

/// The state of a run after a step.
pub(super) enum Progress {
    /// It has ended.
    Done(Box<Job>, Outcome),
    /// It is to be continued.
    Paused,
}

/// An interpreter, and the job that it runs or has run last.
pub(super) struct Engine {
    coroutine: Coroutine<Input, Output>,
    interpreter: Rc<RefCell<Interpreter<Job>>>,
    /// The job for the next run.
    pub(super) job: Option<Box<Job>>,
    /// The generation of the libraries that are loaded in the interpreter.
    pub(super) libraries_generation: Option<u64>,
    /// The libraries that are loaded, by name, each with the memory that it took.
    libraries: Vec<(Arc<LibraryFacts>, u64)>,
    /// The memory that they took.
    libraries_memory: MemoryShare,
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
    pub(super) fn new(settings: Settings, scripts: &'static Scripts) -> io::Result<Self> {
        let is_insecure = settings.allows_insecure_api;
        let interpreter = Interpreter::new(settings).map_err(|error| io::Error::other(error.to_string()))?;
        let interpreter = Rc::new(RefCell::new(interpreter));
        let own = Rc::clone(&interpreter);
        let coroutine = Coroutine::new(STACK_SIZE, move |pauser, first| {
            let pause = pauser.clone();
            let pause: Rc<dyn Fn()> = Rc::new(move || drop(pause.pause(Output::Paused)));
            let in_hook = Rc::clone(&pause);
            own.borrow().set_pause(move || in_hook());
            let mut input = first;
            while let Input::Run(mut job) = input {
                job.pause = job.may_pause.then(|| Rc::clone(&pause));
                let (job, outcome) = run(&own, job);
                input = pauser.pause(Output::Done(job, outcome));
            }
        })?;
        let libraries_memory = MemoryShare::new(&scripts.function_memory);
        Ok(Self {
            coroutine,
            interpreter,
            job: None,
            libraries_generation: None,
            libraries: Vec::new(),
            libraries_memory,
            is_insecure,
            client: 0,
            may_write: false,
            kind: ScriptKind::Script,
            started: Ticks::now(),
        })
    }

    /// Begins a run.
    pub(super) fn begin(&mut self, job: Box<Job>) -> Progress {
        self.resume(Input::Run(job))
    }

    /// Continues a paused run.
    pub(super) fn continue_run(&mut self) -> Progress {
        self.resume(Input::Continue)
    }

    fn resume(&mut self, input: Input) -> Progress {
        match self.coroutine.resume(input) {
            Some(Output::Done(job, outcome)) => Progress::Done(job, outcome),
            Some(Output::Paused) => Progress::Paused,
            None => unreachable!("it ends with the engine only"),
        }
    }

    /// Compiles a script.
    pub(super) fn compile(&self, sha: &[u8; 40], code: &[u8]) -> Result<(), CommandError> {
        self.interpreter.borrow_mut().compile(sha, code).map_err(CommandError::quoting)
    }

    /// Checks that a library can be loaded. The functions of all libraries are loaded when one is next run.
    pub(super) fn check_library(&mut self, code: &[u8]) -> Result<LoadedLibrary, CommandError> {
        self.interpreter.borrow_mut().check_library(code).map_err(|error| CommandError::quoting(error.0))
    }

    /// Loads the libraries of a set, which has this generation. Those that are loaded keep what is in their variables.
    pub(super) fn follow_libraries(&mut self, set: &LibrarySet, generation: u64) -> Result<(), CommandError> {
        self.libraries_generation = None;
        let missing = self.forget_libraries(set);
        let (kept_count, before) = (self.libraries.len(), self.used_memory());
        let loaded = missing.into_iter().try_for_each(|library| self.load_library(library));
        // Garbage is collected in between, so each has its part of the sum.
        let taken = self.used_memory().saturating_sub(before) as u64;
        let added = &mut self.libraries[kept_count..];
        let share = taken / (added.len() as u64).max(1);
        added.iter_mut().for_each(|(_, size)| *size = share);
        self.libraries.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        let taken = self.libraries.iter().map(|(_, size)| size).sum();
        self.libraries_memory.report(taken, u64::MAX);
        loaded?;
        self.libraries_generation = Some(generation);
        Ok(())
    }

    /// Forgets the loaded libraries that a set does not have. Returns those of the set that are not loaded.
    fn forget_libraries<'a>(&mut self, set: &'a LibrarySet) -> Vec<&'a Arc<LibraryFacts>> {
        let mut loaded = std::mem::take(&mut self.libraries).into_iter().peekable();
        let (mut gone, mut missing) = (Vec::new(), Vec::new());
        for library in &set.libraries {
            let is_other = |old: &Arc<LibraryFacts>| !Arc::ptr_eq(old, library) && old.name <= library.name;
            while let Some((old, _)) = loaded.next_if(|(old, _)| is_other(old)) {
                gone.push(old);
            }
            match loaded.next_if(|(old, _)| Arc::ptr_eq(old, library)) {
                Some(same) => self.libraries.push(same),
                None => missing.push(library),
            }
        }
        gone.extend(loaded.map(|(old, _)| old));
        let mut interpreter = self.interpreter.borrow_mut();
        if self.libraries.is_empty() {
            interpreter.forget_functions();
        } else {
            let functions = gone.iter().flat_map(|library| &library.functions);
            functions.for_each(|function| interpreter.forget_function(&function.name));
        }
        missing
    }

    fn load_library(&mut self, library: &Arc<LibraryFacts>) -> Result<(), CommandError> {
        let loaded = self.interpreter.borrow_mut().load_library(&library.code);
        loaded.map_err(|error| CommandError::quoting(error.0))?;
        self.libraries.push((Arc::clone(library), 0));
        Ok(())
    }

    pub(super) fn forget_scripts(&self) {
        self.interpreter.borrow_mut().forget_scripts();
    }

    fn used_memory(&self) -> usize {
        self.interpreter.try_borrow().map_or(0, |interpreter| interpreter.used_memory())
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

fn run(interpreter: &RefCell<Interpreter<Job>>, mut job: Box<Job>) -> (Box<Job>, Outcome) {
    let Some(code) = job.code.clone() else { return (job, Outcome::Killed) };
    let mut out = std::mem::take(&mut job.out);
    let (keys, arguments) = (Rc::clone(&job.keys), Rc::clone(&job.arguments));
    let protocol = job.protocol;
    let (mut job, outcome) = interpreter.borrow_mut().run(
        code.run(),
        (keys.args(), arguments.args()),
        job,
        &mut ReplyBuffer::new(&mut out, protocol),
    );
    job.out = out;
    (job, outcome)
}
