//! Process faults: fatal signals, and stack captures of all threads when one arrives.
//!
//! Owns the handlers of `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGABRT`, and of `SIGUSR2`, which requests a
//! thread's stack. A handler allocates nothing and takes no lock of this project. It records the signal and its
//! return addresses, wakes the thread in [`wait`], and lets the process die of the signal after [`done`] or a
//! timeout.
//! (Unwinding may take the loader's lock; if the fault occurred under that lock, the process hangs until the
//! timeout.)
//!
//! | state | to | by |
//! |---|---|---|
//! | `NO_FAULT` | `RECORDED` | the first fault's handler |
//! | `NO_FAULT`, `RECORDED` | `REPORTED` | [`done`] |
//!
//! Invariants: only the first fault is recorded. A capture is written by the thread that claimed it, and read
//! after its `is_done` was seen.

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

/// Fatal signals that produce a report.
const FATAL: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
/// The signal that requests a thread's stack.
const CAPTURE_SIGNAL: libc::c_int = libc::SIGUSR2;

/// Maximum number of return addresses per thread.
const FRAME_COUNT_MAX: usize = 64;
/// Maximum number of captured threads.
const THREAD_COUNT_MAX: usize = base::limits::THREAD_COUNT_MAX + 8;
/// Size of a handler's stack in bytes, large enough for unwinding.
const STACK_SIZE: usize = 256 << 10;
/// Timeout for a fault's report, and for threads to report their stacks.
const REPORT_TIME: Duration = Duration::from_secs(60);
const CAPTURE_TIME: Duration = Duration::from_millis(500);

const NO_FAULT: u32 = 0;
const RECORDED: u32 = 1;
const REPORTED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(NO_FAULT);
static WAKE: AtomicI32 = AtomicI32::new(-1);
static RECORD: FaultRecord = FaultRecord {
    signal: AtomicI32::new(0),
    code: AtomicI32::new(0),
    address: AtomicUsize::new(0),
    instruction: AtomicUsize::new(0),
    sender: AtomicI32::new(0),
};
/// The first capture is the fault's.
static CAPTURES: [Capture; THREAD_COUNT_MAX] = [const { Capture::new() }; THREAD_COUNT_MAX];

/// The signal information of the first fault.
struct FaultRecord {
    signal: AtomicI32,
    code: AtomicI32,
    address: AtomicUsize,
    instruction: AtomicUsize,
    sender: AtomicI32,
}

/// The captured stack of a thread.
struct Capture {
    thread: AtomicI32,
    frame_count: AtomicUsize,
    frames: UnsafeCell<[usize; FRAME_COUNT_MAX]>,
    is_claimed: AtomicBool,
    is_done: AtomicBool,
}

// SAFETY: see the invariant about captures above.
unsafe impl Sync for Capture {}

/// A fault of the process.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The signal's number.
    pub signal: i32,
    /// The reason, `si_code`; zero or less if a process sent the signal.
    pub code: i32,
    /// The inaccessible address, for signals that have one.
    pub address: usize,
    /// The address of the interrupted instruction.
    pub instruction: usize,
    /// The sending process, if any.
    pub sender: i32,
    /// The thread and its stack.
    pub stack: Stack,
}

/// The stack of a thread.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The kernel's thread id.
    pub thread: i32,
    /// Return addresses, innermost first.
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

    /// Captures the stack of the calling thread.
    ///
    /// # Safety
    /// 1. The calling thread has claimed this capture, and not filled it since.
    unsafe fn fill(&self) {
        // SAFETY: takes no pointers.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        // SAFETY: (1) this thread is the only writer, and there are no readers before `is_done`.
        let frames = unsafe { &mut *self.frames.get() };
        let mut count = 0;
        let record_frame = |frame: &backtrace::Frame| {
            frames[count] = frame.ip() as usize;
            count += 1;
            count < FRAME_COUNT_MAX
        };
        // SAFETY: it must not run concurrently with symbolication, whose state it does not touch.
        unsafe { backtrace::trace_unsynchronized(record_frame) };
        self.frame_count.store(count, Ordering::Relaxed);
        // Pairs with `read`.
        self.is_done.store(true, Ordering::Release);
    }

    fn claim(&self) -> bool {
        !self.is_claimed.load(Ordering::Relaxed) && !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// Releases the capture if it is filled.
    ///
    /// # Safety
    /// 1. No thread calls [`Self::read`] at the same time.
    unsafe fn set_free(&self) {
        if self.is_done.load(Ordering::Acquire) {
            self.is_done.store(false, Ordering::Relaxed);
            self.is_claimed.store(false, Ordering::Release);
        }
    }

    /// Returns the captured stack.
    ///
    /// # Safety
    /// 1. No thread calls [`Self::set_free`] at the same time.
    unsafe fn read(&self) -> Option<Stack> {
        if !self.is_done.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it is filled, and (1) can't be claimed again, so there is no writer.
        let frames = unsafe { &*self.frames.get() };
        let count = self.frame_count.load(Ordering::Relaxed);
        Some(Stack { thread: self.thread.load(Ordering::Relaxed), frames: frames[..count].to_vec() })
    }
}

/// Installs the signal handlers. Afterwards a thread must call [`wait`] repeatedly.
pub fn install() -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    READER.store(std::os::fd::OwnedFd::from(reader).into_raw_fd(), Ordering::Release);
    WAKE.store(std::os::fd::OwnedFd::from(writer).into_raw_fd(), Ordering::Release);
    for signal in FATAL {
        // Not blocked during the handler: a fault of the handler itself is reported too.
        // SAFETY: (1) the handler does only what the file's header says.
        unsafe { handle(signal, on_fault, libc::SA_ONSTACK | libc::SA_NODEFER) }?;
    }
    // SAFETY: (1) as above.
    unsafe { handle(CAPTURE_SIGNAL, on_capture_signal, libc::SA_ONSTACK | libc::SA_RESTART) }
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
    // SAFETY: (1) the action is complete, and its handler has the signature for SA_SIGINFO.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }).map(drop)
}

/// A thread's alternate signal stack, so that a handler can run after a stack overflow. It stays in its thread.
#[must_use = "the stack is released when this is dropped"]
pub struct HandlerStack {
    _memory: Mapping,
    /// Not `Send`: the kernel associates the stack with the thread that made it.
    _stays_in_thread: PhantomData<*mut u8>,
}

/// Installs an alternate signal stack for the calling thread; `None` if out of memory.
pub fn prepare_thread() -> Option<HandlerStack> {
    let memory = Mapping::new(STACK_SIZE).ok()?;
    // SAFETY: (1) the mapping has this size, and dropping the `HandlerStack` disables the stack before
    // unmapping it.
    unsafe { set_handler_stack(memory.start().as_ptr(), 0) };
    Some(HandlerStack { _memory: memory, _stays_in_thread: PhantomData })
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        // SAFETY: (1) the stack is disabled, so no memory is needed.
        unsafe { set_handler_stack(std::ptr::null_mut(), libc::SS_DISABLE) };
    }
}

/// # Safety
/// 1. Unless the stack is disabled, the [`STACK_SIZE`] bytes from `start` are reserved until this thread
///    disables it.
unsafe fn set_handler_stack(start: *mut u8, flags: libc::c_int) {
    let stack = libc::stack_t { ss_sp: start.cast(), ss_flags: flags, ss_size: STACK_SIZE };
    // SAFETY: (1) the memory has this size and stays reserved.
    let result = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    debug_assert_eq!(result, 0, "it can only fail for a small or invalid stack");
}

/// Waits for a fault. Blocks all signals for the calling thread, so that none interrupts its report.
pub fn wait() -> Fault {
    // SAFETY: all-zero is a valid set.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is alive and writable.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the set is complete, and the old set is not requested.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
    let fd: RawFd = READER.swap(-1, Ordering::AcqRel);
    assert!(fd >= 0, "installed before, and no other thread waits");
    // SAFETY: `install` left it here for a single owner.
    let mut reader = unsafe { File::from_raw_fd(fd) };
    loop {
        let received = reader.read(&mut [0]);
        if received.is_ok_and(|size| size == 1) && STATE.load(Ordering::Acquire) == RECORDED {
            return fault();
        }
    }
}

fn fault() -> Fault {
    let load = |number: &AtomicI32| number.load(Ordering::Relaxed);
    Fault {
        signal: load(&RECORD.signal),
        code: load(&RECORD.code),
        address: RECORD.address.load(Ordering::Relaxed),
        instruction: RECORD.instruction.load(Ordering::Relaxed),
        sender: load(&RECORD.sender),
        // SAFETY: (1) the first capture is never released.
        stack: unsafe { CAPTURES[0].read() }.unwrap_or(Stack { thread: 0, frames: Vec::new() }),
    }
}

/// Marks the fault as reported: the process may now die of it, and of any later fault.
pub fn done() {
    STATE.store(REPORTED, Ordering::Release);
}

/// Whether a thread is in [`stacks`].
static IS_CAPTURING: AtomicBool = AtomicBool::new(false);

/// Stacks of the process's other threads that report in time. Empty if another thread's request does not end.
pub fn stacks() -> Vec<Stack> {
    let started = Instant::now();
    // Not a mutex: the requesting thread may have been stopped by a fault.
    while IS_CAPTURING.swap(true, Ordering::Acquire) {
        if started.elapsed() > 2 * CAPTURE_TIME {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let stacks = capture_stacks();
    // Pairs with the swap above.
    IS_CAPTURING.store(false, Ordering::Release);
    stacks
}

/// The body of [`stacks`], which one thread at a time executes.
fn capture_stacks() -> Vec<Stack> {
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
    // Release captures that arrived after an earlier request had ended.
    // SAFETY: (1) only this thread reads those captures.
    CAPTURES[1..].iter().for_each(|capture| unsafe { capture.set_free() });
    for thread in &threads {
        // SAFETY: takes no pointers; the call fails without effect if the thread has ended.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), *thread, CAPTURE_SIGNAL) };
    }
    let started = Instant::now();
    let done = || CAPTURES[1..].iter().filter(|capture| capture.is_done.load(Ordering::Acquire));
    while started.elapsed() < CAPTURE_TIME && done().count() < threads.len() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: (1) only this thread releases those captures.
    done().filter_map(|capture| unsafe { capture.read() }).collect()
}

/// The stack of the calling thread.
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

/// Function, file and line of a return address, as far as the executable has them; inlined functions first.
/// Allocates.
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

/// Reads an unmapped address.
pub fn provoke() -> ! {
    // SAFETY: none. The fault is intended: the kernel sends SIGSEGV.
    unsafe { std::ptr::with_exposed_provenance::<u8>(8).read_volatile() };
    std::process::abort()
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if STATE.compare_exchange(NO_FAULT, RECORDED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        RECORD.signal.store(signal, Ordering::Relaxed);
        // SAFETY: the kernel passes the handler a complete structure.
        let info = unsafe { &*info };
        RECORD.code.store(info.si_code, Ordering::Relaxed);
        if info.si_code > 0 {
            // SAFETY: this member is valid for a fault signal sent by the kernel.
            RECORD.address.store(unsafe { info.si_addr() } as usize, Ordering::Relaxed);
        } else {
            // SAFETY: this member is valid for a signal sent by a process.
            RECORD.sender.store(unsafe { info.si_pid() }, Ordering::Relaxed);
        }
        RECORD.instruction.store(instruction(context), Ordering::Relaxed);
        // SAFETY: (1) only the first fault's handler reaches this, once.
        unsafe { CAPTURES[0].fill() };
    }
    // Also where this interrupts the recording of the first fault: then the report has no stack.
    // SAFETY: one live byte; the pipe is never closed.
    unsafe { libc::write(WAKE.load(Ordering::Acquire), [1_u8].as_ptr().cast(), 1) };
    let step = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    for _ in 0..REPORT_TIME.as_millis() / 10 {
        if STATE.load(Ordering::Acquire) == REPORTED {
            break;
        }
        // SAFETY: the time is alive, and the remainder is not requested.
        unsafe { libc::nanosleep(&raw const step, std::ptr::null_mut()) };
    }
    // SAFETY: takes no pointers.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: takes no pointers.
    unsafe { libc::raise(signal) };
}

extern "C" fn on_capture_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    if let Some(capture) = CAPTURES[1..].iter().find(|capture| capture.claim()) {
        // SAFETY: (1) just claimed.
        unsafe { capture.fill() };
    }
}

/// The interrupted instruction; 0 if the context's layout is unknown.
fn instruction(context: *mut c_void) -> usize {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes the handler a complete structure.
    #[cfg(target_arch = "x86_64")]
    return unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize;
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    return unsafe { (*context).uc_mcontext.pc } as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return context as usize & 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_other_threads_are_captured() {
        // SAFETY: (1) the handler does only what the file's header says.
        unsafe { handle(CAPTURE_SIGNAL, on_capture_signal, libc::SA_ONSTACK | libc::SA_RESTART) }.unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            let _stack = prepare_thread();
            // SAFETY: takes no pointers.
            ready.send(unsafe { libc::gettid() }).unwrap();
            // Ends when the sender is dropped.
            let _ = released.recv();
        });
        let thread = is_ready.recv().unwrap();
        let stacks = stacks();
        let stack = stacks.iter().find(|stack| stack.thread == thread).expect("its stack was requested");
        let lines: Vec<String> = stack.frames.iter().flat_map(|frame| describe(*frame)).collect();
        assert!(lines.iter().any(|line| line.contains("stacks_of_other_threads_are_captured")), "{lines:?}");
        drop(release);
        other.join().unwrap();
    }

    #[test]
    fn an_ended_thread_frees_its_signal_stack() {
        let has_stack = || {
            // SAFETY: all-zero is a valid stack.
            let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
            // SAFETY: only queries, and the result buffer is complete.
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
