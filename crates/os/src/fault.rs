//! Faults of the process: signals that mean that it can't go on, and where its threads are when one comes.
//!
//! Owns: the handlers of `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGABRT`, and of `SIGUSR2`, by which a thread is asked
//! where it is. A handler allocates nothing and takes no lock of ours: it notes what happened and its return addresses, wakes the
//! thread in [`wait`], and lets the process die of the signal when that has called [`done`], or after a while.
//! (Unwinding may take the loader's lock; if the fault lies there, the process hangs for that while at most.)
//!
//! | state | to | by |
//! |---|---|---|
//! | `CALM` | `NOTED` | the first fault's handler |
//! | `CALM`, `NOTED` | `REPORTED` | [`done`] |
//!
//! Invariants: only the first fault is noted. A capture is written by the one thread that claimed it, and read after its
//! `is_done` was seen.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::os::fd::{FromRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::check;
use crate::mapping::Mapping;

/// Signals that end the process with a report.
const FATAL: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
/// The signal that asks a thread where it is.
const ASK: libc::c_int = libc::SIGUSR2;

/// Return addresses kept of a thread.
const FRAME_COUNT_MAX: usize = 64;
/// Threads whose addresses are kept.
const THREAD_COUNT_MAX: usize = base::limits::THREAD_COUNT_MAX + 8;
/// Size of the stack that a handler runs on, in bytes: unwinding wants a good deal.
const STACK_SIZE: usize = 256 << 10;
/// How long a fault's report may take, and how long threads may take to say where they are.
const REPORT_TIME: Duration = Duration::from_secs(60);
const ASK_TIME: Duration = Duration::from_millis(500);

const CALM: u32 = 0;
const NOTED: u32 = 1;
const REPORTED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(CALM);
static WAKE: AtomicI32 = AtomicI32::new(-1);
static NOTE: Note = Note {
    signal: AtomicI32::new(0),
    code: AtomicI32::new(0),
    address: AtomicUsize::new(0),
    instruction: AtomicUsize::new(0),
    sender: AtomicI32::new(0),
};
/// The first is the fault's.
static CAPTURES: [Capture; THREAD_COUNT_MAX] = [const { Capture::new() }; THREAD_COUNT_MAX];

/// What a handler was told.
struct Note {
    signal: AtomicI32,
    code: AtomicI32,
    address: AtomicUsize,
    instruction: AtomicUsize,
    sender: AtomicI32,
}

/// Where a thread is.
struct Capture {
    thread: AtomicI32,
    frame_count: AtomicUsize,
    frames: UnsafeCell<[usize; FRAME_COUNT_MAX]>,
    is_claimed: AtomicBool,
    is_done: AtomicBool,
}

// SAFETY: see the invariant about captures above.
unsafe impl Sync for Capture {}

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The signal's number.
    pub signal: i32,
    /// Why it was sent, `si_code`; zero or less: by a process.
    pub code: i32,
    /// The address that could not be reached, for those signals that have one.
    pub address: usize,
    /// The instruction.
    pub instruction: usize,
    /// The process that sent it, if one did.
    pub sender: i32,
    /// The thread, and where it was.
    pub stack: Stack,
}

/// Where a thread is.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The kernel's number of the thread.
    pub thread: i32,
    /// Return addresses, the innermost first.
    pub frames: Vec<usize>,
}

impl Capture {
    const fn new() -> Self {
        Self {
            thread: AtomicI32::new(0),
            frame_count: AtomicUsize::new(0),
            frames: UnsafeCell::new([0; FRAME_COUNT_MAX]),
            is_claimed: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
        }
    }

    /// Notes where the calling thread is.
    ///
    /// # Safety
    /// 1. The calling thread has claimed this capture, and not filled it since.
    unsafe fn fill(&self) {
        // SAFETY: takes no pointers.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        // SAFETY: (1) nobody else writes it, and nobody reads it before `is_done`.
        let frames = unsafe { &mut *self.frames.get() };
        let mut count = 0;
        let note = |frame: &backtrace::Frame| {
            frames[count] = frame.ip() as usize;
            count += 1;
            count < FRAME_COUNT_MAX
        };
        // SAFETY: what it must not be used with at the same time is symbolication, whose state it does not touch.
        unsafe { backtrace::trace_unsynchronized(note) };
        self.frame_count.store(count, Ordering::Relaxed);
        // Pairs with `read`.
        self.is_done.store(true, Ordering::Release);
    }

    fn claim(&self) -> bool {
        !self.is_claimed.load(Ordering::Relaxed) && !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// Lets another thread claim it, if the one that did is done.
    ///
    /// # Safety
    /// 1. Nobody calls [`Self::read`] meanwhile.
    unsafe fn set_free(&self) {
        if self.is_done.load(Ordering::Acquire) {
            self.is_done.store(false, Ordering::Relaxed);
            self.is_claimed.store(false, Ordering::Release);
        }
    }

    /// What was noted.
    ///
    /// # Safety
    /// 1. Nobody calls [`Self::set_free`] meanwhile.
    unsafe fn read(&self) -> Option<Stack> {
        if !self.is_done.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it is done, and (1) nobody can claim it anew, so nobody writes it.
        let frames = unsafe { &*self.frames.get() };
        let count = self.frame_count.load(Ordering::Relaxed);
        Some(Stack { thread: self.thread.load(Ordering::Relaxed), frames: frames[..count].to_vec() })
    }
}

/// Takes the signals over. Someone must then call [`wait`], again and again.
pub fn install() -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    READER.store(std::os::fd::OwnedFd::from(reader).into_raw_fd(), Ordering::Release);
    WAKE.store(std::os::fd::OwnedFd::from(writer).into_raw_fd(), Ordering::Release);
    for signal in FATAL {
        // Not blocked meanwhile: a fault of the handler's own is reported too.
        // SAFETY: (1) it does only what the file's header says.
        unsafe { handle(signal, on_fault, libc::SA_ONSTACK | libc::SA_NODEFER) }?;
    }
    // SAFETY: (1) likewise.
    unsafe { handle(ASK, on_ask, libc::SA_ONSTACK | libc::SA_RESTART) }
}

static READER: AtomicI32 = AtomicI32::new(-1);

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// # Safety
/// 1. The handler may run at any moment, on any thread.
unsafe fn handle(signal: libc::c_int, handler: Handler, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero is a valid action: the default one, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY: (1) the action is whole, and its handler has the form that SA_SIGINFO asks for.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }).map(drop)
}

/// A thread's stack for handlers, so that one can run when its own is used up. It stays in the thread.
#[must_use = "the stack is given up when this is dropped"]
pub struct HandlerStack {
    _memory: Mapping,
    /// The kernel knows the stack as the one of the thread that made it.
    _stays_in_thread: PhantomData<*mut u8>,
}

/// Gives the calling thread a stack for handlers; `None`: there is no memory for it.
pub fn prepare_thread() -> Option<HandlerStack> {
    let memory = Mapping::new(STACK_SIZE).ok()?;
    // SAFETY: (1) the mapping is of this size, and dropping the stack gives it up before it goes.
    unsafe { set_handler_stack(memory.start().as_ptr(), 0) };
    Some(HandlerStack { _memory: memory, _stays_in_thread: PhantomData })
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        // SAFETY: (1) there is no memory.
        unsafe { set_handler_stack(std::ptr::null_mut(), libc::SS_DISABLE) };
    }
}

/// # Safety
/// 1. Unless the stack is given up, [`STACK_SIZE`] bytes from `start` on are nobody else's until this thread gives it up.
unsafe fn set_handler_stack(start: *mut u8, flags: libc::c_int) {
    let stack = libc::stack_t { ss_sp: start.cast(), ss_flags: flags, ss_size: STACK_SIZE };
    // SAFETY: (1) the memory is of this size, and stays.
    let result = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    debug_assert_eq!(result, 0, "it can only fail for a small or bad stack");
}

/// Waits for a fault. The calling thread takes no signals from then on, so that none interrupts its report.
pub fn wait() -> Fault {
    // SAFETY: all-zero is a valid set.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is alive and writable.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the set is whole, and the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
    let fd: RawFd = READER.swap(-1, Ordering::AcqRel);
    assert!(fd >= 0, "installed before, and nobody else waits");
    // SAFETY: `install` left it here for one owner.
    let mut reader = unsafe { File::from_raw_fd(fd) };
    loop {
        let heard = reader.read(&mut [0]);
        if heard.is_ok_and(|size| size == 1) && STATE.load(Ordering::Acquire) == NOTED {
            return fault();
        }
    }
}

fn fault() -> Fault {
    let load = |number: &AtomicI32| number.load(Ordering::Relaxed);
    Fault {
        signal: load(&NOTE.signal),
        code: load(&NOTE.code),
        address: NOTE.address.load(Ordering::Relaxed),
        instruction: NOTE.instruction.load(Ordering::Relaxed),
        sender: load(&NOTE.sender),
        // SAFETY: (1) the first capture is never set free.
        stack: unsafe { CAPTURES[0].read() }.unwrap_or(Stack { thread: 0, frames: Vec::new() }),
    }
}

/// The fault is reported, here or otherwise: the process may die of it, and of any that follows.
pub fn done() {
    STATE.store(REPORTED, Ordering::Release);
}

/// Whether a thread is in [`stacks`].
static IS_ASKING: AtomicBool = AtomicBool::new(false);

/// Where the process's other threads are, those that say so in time. None if another thread goes on asking.
pub fn stacks() -> Vec<Stack> {
    let started = Instant::now();
    // No mutex: a fault may have stopped the thread that asks.
    while IS_ASKING.swap(true, Ordering::Acquire) {
        if started.elapsed() > 2 * ASK_TIME {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let stacks = ask_for_stacks();
    // Pairs with the swap above.
    IS_ASKING.store(false, Ordering::Release);
    stacks
}

/// The body of [`stacks`], which one thread at a time is in.
fn ask_for_stacks() -> Vec<Stack> {
    // SAFETY: takes no pointers.
    let own = unsafe { libc::gettid() };
    let faulty = CAPTURES[0].thread.load(Ordering::Relaxed);
    let threads: Vec<i32> = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|thread| *thread != own && *thread != faulty)
        .take(THREAD_COUNT_MAX - 1)
        .collect();
    // What came too late for whoever asked before.
    // SAFETY: (1) only this thread reads those captures.
    CAPTURES[1..].iter().for_each(|capture| unsafe { capture.set_free() });
    for thread in &threads {
        // SAFETY: takes no pointers; a thread that has ended meanwhile is an error that changes nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), *thread, ASK) };
    }
    let started = Instant::now();
    let done = || CAPTURES[1..].iter().filter(|capture| capture.is_done.load(Ordering::Acquire));
    while started.elapsed() < ASK_TIME && done().count() < threads.len() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: (1) only this thread sets those captures free.
    done().filter_map(|capture| unsafe { capture.read() }).collect()
}

/// Where the calling thread is.
#[must_use]
pub fn own_stack() -> Stack {
    let mut frames = Vec::new();
    backtrace::trace(|frame| {
        frames.push(frame.ip() as usize);
        frames.len() < FRAME_COUNT_MAX
    });
    // SAFETY: takes no pointers.
    Stack { thread: unsafe { libc::gettid() }, frames }
}

/// The function, file and line of a return address, as far as the executable tells; inlined functions first. Allocates.
#[must_use]
pub fn describe(address: usize) -> Vec<String> {
    let mut lines = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        let name = symbol.name().map_or_else(|| "?".to_owned(), |name| format!("{name:#}"));
        let place = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!(" ({}:{line})", file.display()),
            _ => String::new(),
        };
        lines.push(format!("{name}{place}"));
    });
    lines
}

/// Touches memory that is not there.
pub fn provoke() -> ! {
    // SAFETY: none. This is what is wanted: the kernel answers with SIGSEGV.
    unsafe { std::ptr::with_exposed_provenance::<u8>(8).read_volatile() };
    std::process::abort()
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if STATE.compare_exchange(CALM, NOTED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        NOTE.signal.store(signal, Ordering::Relaxed);
        // SAFETY: the kernel gives the handler a whole structure.
        let info = unsafe { &*info };
        NOTE.code.store(info.si_code, Ordering::Relaxed);
        if info.si_code > 0 {
            // SAFETY: of a signal that the kernel sent for a fault this is the member in use.
            NOTE.address.store(unsafe { info.si_addr() } as usize, Ordering::Relaxed);
        } else {
            // SAFETY: of a signal that a process sent this is the member in use.
            NOTE.sender.store(unsafe { info.si_pid() }, Ordering::Relaxed);
        }
        NOTE.instruction.store(instruction(context), Ordering::Relaxed);
        // SAFETY: (1) the first fault's handler comes here, and only once.
        unsafe { CAPTURES[0].fill() };
    }
    // Also where this interrupts the notes on the first fault: then the report has no stack.
    // SAFETY: one byte that is alive; the pipe is never closed.
    unsafe { libc::write(WAKE.load(Ordering::Acquire), [1_u8].as_ptr().cast(), 1) };
    let step = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    for _ in 0..REPORT_TIME.as_millis() / 10 {
        if STATE.load(Ordering::Acquire) == REPORTED {
            break;
        }
        // SAFETY: the time is alive, and no remainder is asked for.
        unsafe { libc::nanosleep(&raw const step, std::ptr::null_mut()) };
    }
    // SAFETY: takes no pointers.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: takes no pointers.
    unsafe { libc::raise(signal) };
}

extern "C" fn on_ask(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    if let Some(capture) = CAPTURES[1..].iter().find(|capture| capture.claim()) {
        // SAFETY: (1) just claimed.
        unsafe { capture.fill() };
    }
}

/// The instruction that was interrupted; 0 where the layout of the context is not known.
fn instruction(context: *mut c_void) -> usize {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel gives the handler a whole structure.
    #[cfg(target_arch = "x86_64")]
    return unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize;
    // SAFETY: likewise.
    #[cfg(target_arch = "aarch64")]
    return unsafe { (*context).uc_mcontext.pc } as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return context as usize & 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_say_where_they_are() {
        // SAFETY: (1) it does only what the file's header says.
        unsafe { handle(ASK, on_ask, libc::SA_ONSTACK | libc::SA_RESTART) }.unwrap();
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            let _stack = prepare_thread();
            // SAFETY: takes no pointers.
            ready.send(unsafe { libc::gettid() }).unwrap();
            // Ends when the sender is dropped.
            let _ = told.recv();
        });
        let thread = is_ready.recv().unwrap();
        let stacks = stacks();
        let stack = stacks.iter().find(|stack| stack.thread == thread).expect("it was asked");
        let lines: Vec<String> = stack.frames.iter().flat_map(|frame| describe(*frame)).collect();
        assert!(lines.iter().any(|line| line.contains("threads_say_where_they_are")), "{lines:?}");
        drop(tell);
        other.join().unwrap();
    }

    #[test]
    fn a_thread_gives_its_handlers_stack_up() {
        let has_stack = || {
            // SAFETY: all-zero is a valid stack.
            let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
            // SAFETY: asks only, and the place for the answer is whole.
            assert_eq!(unsafe { libc::sigaltstack(std::ptr::null(), &raw mut stack) }, 0);
            stack.ss_flags & libc::SS_DISABLE == 0
        };
        std::thread::spawn(move || {
            let stack = prepare_thread();
            assert!(has_stack());
            drop(stack);
            assert!(!has_stack());
        })
        .join()
        .unwrap();
    }
}
