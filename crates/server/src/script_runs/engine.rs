//! An interpreter on a stack of its own.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use commands::error::CommandError;
use os::coroutine::Coroutine;
use script::{Interpreter, LoadedLibrary, Outcome, Settings};
use wire::reply::ReplyBuffer;

use super::job::Job;

/// The size of the stack, in bytes. Lua nests at most 200 calls in C, each with a buffer of 8 KiB; pages that are not used
/// take no memory.
const STACK_SIZE: usize = 8 << 20;

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
    /// Whether the deprecated functions exist.
    pub(super) is_insecure: bool,
    /// The client whose script is paused.
    pub(super) client: u64,
}

impl Engine {
    pub(super) fn new(settings: Settings) -> io::Result<Self> {
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
        Ok(Self { coroutine, interpreter, job: None, libraries_generation: None, is_insecure, client: 0 })
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
        let loaded = self.load_library(code);
        self.forget_functions();
        loaded
    }

    /// Loads a library.
    pub(super) fn load_library(&mut self, code: &[u8]) -> Result<LoadedLibrary, CommandError> {
        self.libraries_generation = None;
        self.interpreter.borrow_mut().load_library(code).map_err(|error| CommandError::quoting(error.0))
    }

    pub(super) fn forget_scripts(&self) {
        self.interpreter.borrow_mut().forget_scripts();
    }

    pub(super) fn forget_functions(&self) {
        self.interpreter.borrow_mut().forget_functions();
    }

    pub(super) fn used_memory(&self) -> usize {
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
