//! What a server asks the operating system about itself and its threads.
//!
//! Touches: process-wide state. [`daemonize`] and [`set_umask`] belong to start-up, before any thread is made.

mod time_slice;

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::sys::check;

pub use self::time_slice::lengthen_time_slice;

/// Number of processors that this process may use: its affinity mask and its cgroup's quota are respected. Found out by the
/// first call, which belongs to start-up: a thread that is bound to some processors would count only those.
#[must_use]
pub fn cpu_count() -> usize {
    if sync::simulation::is_simulated() {
        // The same on every machine.
        return 4;
    }
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Fills `bytes` with the kernel's random numbers, which are good enough for passwords.
pub fn fill_with_secrets(mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: `bytes` is alive and writable, and its length is given.
        let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if filled < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
            continue;
        }
        bytes = &mut bytes[filled.unsigned_abs()..];
    }
    Ok(())
}

/// Binds the calling thread to these processors. Fails if none of them may be used.
pub fn set_thread_affinity(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: all-zero is the empty processor set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: `cpu` is below the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is alive, and its size is given.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) }).map(drop)
}

/// The processors that the calling thread may run on, ascending.
pub fn thread_affinity() -> io::Result<Vec<usize>> {
    // SAFETY: all-zero is the empty processor set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is alive and writable, and its size is given.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    // SAFETY: `cpu` is below the size of the set.
    let is_set = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(is_set).collect())
}

/// What a thread that has just been woken may do to the one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// It may take the processor from it.
    Normal,
    /// It waits until that one sleeps, or its time slice is over: `SCHED_BATCH`.
    Batch,
}

impl Scheduling {
    const fn policy(self) -> libc::c_int {
        match self {
            Self::Normal => libc::SCHED_OTHER,
            Self::Batch => libc::SCHED_BATCH,
        }
    }
}

/// How the calling thread is scheduled; `None`: in another way than these, a real-time one for example.
#[must_use]
pub fn thread_scheduling() -> Option<Scheduling> {
    let mut policy = 0;
    let mut parameters = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: the thread lives, and both are writable.
    let error =
        unsafe { libc::pthread_getschedparam(this_thread(), &raw mut policy, parameters.as_mut_ptr()) };
    debug_assert_eq!(error, 0, "the calling thread lives");
    [Scheduling::Normal, Scheduling::Batch].into_iter().find(|scheduling| scheduling.policy() == policy)
}

/// Has the calling thread, and those that it starts from now on, scheduled so.
pub fn set_thread_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let parameters = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: the thread lives, and all-zero parameters are valid: neither policy has a priority.
    let error =
        unsafe { libc::pthread_setschedparam(this_thread(), scheduling.policy(), parameters.as_ptr()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: takes no pointers.
    unsafe { libc::pthread_self() }
}

/// Names the calling thread for `top` and `perf`; the kernel keeps 15 bytes.
pub fn set_thread_name(name: &str) {
    let mut bytes = [0_u8; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes().filter(|&byte| byte != 0)) {
        *to = from;
    }
    // SAFETY: PR_SET_NAME reads a C string of at most 16 bytes; the last byte is 0.
    let result = unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) };
    debug_assert_eq!(result, 0, "it can only fail for a bad address");
}

/// Makes memory resident that is a multiple of 2 MiB and so aligned, in huge pages if there are any: far fewer address
/// translations miss. The caller waits until the kernel has wiped them, and nobody else does. Later the kernel is not to make
/// huge pages there by itself, which would hold up those who use the memory.
pub fn populate_huge_pages(memory: &mut [MaybeUninit<u8>]) {
    const HUGE_PAGE_SIZE: usize = 2 << 20;
    let (start, size) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: the range is this slice's, and the advice changes no contents.
    let _ = unsafe { libc::madvise(start, size, libc::MADV_HUGEPAGE) };
    // The first touch of each. Without the process-wide lock, which a call that fills the range would hold.
    for page in memory.chunks_mut(HUGE_PAGE_SIZE) {
        page[0].write(0);
        std::hint::black_box(&page[0]);
    }
    // SAFETY: likewise.
    let _ = unsafe { libc::madvise(start, size, libc::MADV_NOHUGEPAGE) };
}

/// Gives the pages that lie in this memory as a whole back to the kernel; they read as zeros when they are next touched.
pub fn discard_pages(memory: &mut [MaybeUninit<u8>]) {
    let page_size = page_size() as usize;
    // The kernel would round the end up, into what others have.
    let before = memory.as_ptr().addr().next_multiple_of(page_size) - memory.as_ptr().addr();
    let size = memory.len().saturating_sub(before) / page_size * page_size;
    let Some(pages) = memory.get_mut(before..before + size).filter(|pages| !pages.is_empty()) else { return };
    // SAFETY: the pages are this slice's, which holds nothing: its bytes may be uninitialised, and so may change.
    let _ = unsafe { libc::madvise(pages.as_mut_ptr().cast(), size, libc::MADV_DONTNEED) };
}

/// Has the allocator give back what it keeps free: what the calling thread keeps, and what no thread does. Takes longer the
/// more is in use. Does nothing where `mimalloc` isn't the allocator.
pub fn release_free_memory() {
    // SAFETY: may be called at any time, by any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Turns transparent huge pages off for this process.
pub fn refuse_huge_pages() -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1 as libc::c_ulong, none, none, none) }).map(drop)
}

/// Turns transparent huge pages off for this process, but where they are asked for ([`populate_huge_pages`]). Fails on
/// kernels before 6.18.
pub fn refuse_unasked_huge_pages() -> io::Result<()> {
    const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;
    let none: libc::c_ulong = 0;
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1 as libc::c_ulong, EXCEPT_ADVISED, none, none) })
        .map(drop)
}

/// Stops this process until somebody lets it go on.
pub fn stop_itself() -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::raise(libc::SIGSTOP) }).map(drop)
}

/// The number of a group by its name, or by its number as text; `None`: there is none.
pub fn group_id(name: &str) -> Option<u32> {
    let c_name = std::ffi::CString::new(name).ok()?;
    let mut group = MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    let mut buffer = vec![0; 64 << 10];
    // SAFETY: the name ends with 0, `group` and `found` are writable, and the buffer's size is given.
    let result = unsafe {
        libc::getgrnam_r(
            c_name.as_ptr(),
            group.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    if result != 0 || found.is_null() {
        return name.parse().ok();
    }
    // SAFETY: it was found, so the group is filled in.
    Some(unsafe { group.assume_init() }.gr_gid)
}

/// Whose use of resources to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageOf {
    /// All threads of this process.
    Process,
    /// The calling thread.
    Thread,
    /// Children that have ended and were waited for.
    Children,
}

/// Resources used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time outside the kernel.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Largest resident set so far, in bytes.
    pub resident_size_max: u64,
    /// Page faults that needed no I/O.
    pub minor_fault_count: u64,
    /// Page faults that needed I/O.
    pub major_fault_count: u64,
    /// Times that the processor was given up, by waiting.
    pub voluntary_switch_count: u64,
    /// Times that the processor was taken away.
    pub involuntary_switch_count: u64,
}

impl Usage {
    /// User and system time together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system
    }
}

/// What was used so far; one system call.
#[must_use]
pub fn usage(of: UsageOf) -> Usage {
    let who = match of {
        UsageOf::Process => libc::RUSAGE_SELF,
        UsageOf::Thread => libc::RUSAGE_THREAD,
        UsageOf::Children => libc::RUSAGE_CHILDREN,
    };
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    debug_assert_eq!(result, 0, "it can only fail for a bad argument");
    // SAFETY: all-zero is a valid rusage, and the kernel writes plain numbers.
    let usage = unsafe { usage.assume_init() };
    Usage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        resident_size_max: unsigned(usage.ru_maxrss) * 1024,
        minor_fault_count: unsigned(usage.ru_minflt),
        major_fault_count: unsigned(usage.ru_majflt),
        voluntary_switch_count: unsigned(usage.ru_nvcsw),
        involuntary_switch_count: unsigned(usage.ru_nivcsw),
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(unsigned(time.tv_sec)) + Duration::from_micros(unsigned(time.tv_usec))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Bytes of the process's memory that are resident.
pub fn resident_size() -> io::Result<u64> {
    ResidentSize::default().size()
}

/// Tells again and again how many bytes of the process's memory are resident: the file stays open, as opening it costs more
/// than reading it.
#[derive(Debug)]
pub struct ResidentSize(io::Result<File>);

impl Default for ResidentSize {
    fn default() -> Self {
        Self(File::open("/proc/self/statm"))
    }
}

impl ResidentSize {
    /// The bytes.
    pub fn size(&self) -> io::Result<u64> {
        let file = self.0.as_ref().map_err(|error| io::Error::from(error.kind()))?;
        let mut text = [0; 128];
        let size = file.read_at(&mut text, 0)?;
        let text = std::str::from_utf8(&text[..size]).map_err(|_| io::ErrorKind::InvalidData)?;
        let pages: Option<u64> = text.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok());
        Ok(pages.ok_or(io::ErrorKind::InvalidData)? * page_size())
    }
}

/// The operating system, with its version and the kind of processor.
#[must_use]
pub fn system_name() -> String {
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", version.trim(), std::env::consts::ARCH)
}

/// Bytes of memory of the machine; 0: that can't be told.
#[must_use]
pub fn system_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Bytes in a page of memory.
#[must_use]
pub fn page_size() -> u64 {
    // SAFETY: takes no pointers.
    unsigned(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
}

/// The limit on open files: what holds now, and what it may be raised to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileLimit {
    /// What holds now.
    pub soft: u64,
    /// What an unprivileged process may raise it to.
    pub hard: u64,
}

/// Asks for the limit on open files.
pub fn open_file_limit() -> io::Result<OpenFileLimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(OpenFileLimit { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Raises the limit on open files to `wanted`, or as near to it as the process may, and returns what holds then.
/// Never lowers it.
pub fn raise_open_file_limit(wanted: u64) -> io::Result<OpenFileLimit> {
    let limit = open_file_limit()?;
    if limit.soft >= wanted {
        return Ok(limit);
    }
    let set = |soft, hard| {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: `limit` is readable.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })
    };
    if set(wanted, limit.hard.max(wanted)).is_err() {
        set(wanted.min(limit.hard), limit.hard)?;
    }
    open_file_limit()
}

/// Sets the permissions that new files are not to have, and returns what held before.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: takes no pointers, can't fail.
    unsafe { libc::umask(mask as libc::mode_t) }
}

/// Goes to the background: forks, lets the parent exit, starts a session, and points the three standard streams at
/// `/dev/null`. The working directory stays.
///
/// # Safety
///
/// 1. The process has one thread: only the caller would live on in the child.
pub unsafe fn daemonize() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: (1) with one thread no lock is held that the child would miss.
    match check(unsafe { libc::fork() })? {
        0 => {}
        // SAFETY: the parent has nothing to flush or run any more; exit handlers belong to the child.
        _ => unsafe { libc::_exit(0) },
    }
    // SAFETY: takes no pointers.
    check(unsafe { libc::setsid() })?;
    for stream in 0..=2 {
        // SAFETY: takes no pointers; the standard streams are meant to be replaced.
        check(unsafe { libc::dup2(null.as_raw_fd(), stream) })?;
    }
    Ok(())
}

/// A request from outside the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGTERM`: end in good order.
    Terminate,
    /// `SIGINT`: end; from the keyboard.
    Interrupt,
    /// `SIGHUP`: the terminal is gone.
    HangUp,
    /// `SIGUSR1`.
    User1,
}

impl Signal {
    const fn number(self) -> libc::c_int {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
            Self::HangUp => libc::SIGHUP,
            Self::User1 => libc::SIGUSR1,
        }
    }
}

/// Keeps these signals from interrupting the calling thread and those that it makes from now on: they wait for
/// [`wait_for_signal`]. Belongs to start-up, before any thread is made.
pub fn hold_signals(signals: &[Signal]) -> io::Result<()> {
    let set = signal_set(signals);
    // SAFETY: `set` is readable; the old mask is not asked for.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Blocks until one of these signals comes, all of which must be held: for a thread of its own.
pub fn wait_for_signal(signals: &[Signal]) -> io::Result<Signal> {
    let set = signal_set(signals);
    loop {
        let mut number = 0;
        // SAFETY: `set` is readable, `number` writable.
        let error = unsafe { libc::sigwait(&raw const set, &raw mut number) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        if let Some(&signal) = signals.iter().find(|signal| signal.number() == number) {
            return Ok(signal);
        }
    }
}

fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is writable.
    let result = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    debug_assert_eq!(result, 0, "it can only fail for a bad address");
    for signal in signals {
        // SAFETY: `set` is an initialised set.
        let result = unsafe { libc::sigaddset(set.as_mut_ptr(), signal.number()) };
        debug_assert_eq!(result, 0, "the number is a signal's");
    }
    // SAFETY: sigemptyset has initialised it.
    unsafe { set.assume_init() }
}

/// [`daemonize`] for a process that has one thread; an error if it has more.
pub fn daemonize_alone() -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads run already"));
    }
    // SAFETY: (1) just counted, and only the calling thread could have started another since.
    unsafe { daemonize() }
}

/// Whether standard output is a terminal.
#[must_use]
pub fn is_tty() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// Whether the system knows an order of texts by this name; empty is the environment's.
#[must_use]
pub fn is_locale(name: &str) -> bool {
    let Ok(name) = std::ffi::CString::new(name) else { return false };
    // SAFETY: the name is a C string, and without a base a new locale is made.
    let locale = unsafe { libc::newlocale(libc::LC_COLLATE_MASK, name.as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return false;
    }
    // SAFETY: it was made above, and nobody else has it.
    unsafe { libc::freelocale(locale) };
    true
}

/// The out-of-memory score adjustment of the process.
pub fn oom_score_adjustment() -> io::Result<i32> {
    let text = std::fs::read_to_string("/proc/self/oom_score_adj")?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Sets how ready the kernel is to kill this process when memory runs out, from -1000 (never) to 1000.
pub fn set_oom_score_adjustment(adjustment: i32) -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", adjustment.to_string())
}

/// The process id.
#[must_use]
pub fn id() -> u32 {
    std::process::id()
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::{
        Scheduling, Signal, UsageOf, cpu_count, discard_pages, fill_with_secrets, hold_signals,
        open_file_limit, page_size, raise_open_file_limit, resident_size, set_thread_affinity,
        set_thread_name, set_thread_scheduling, this_thread, thread_affinity, thread_scheduling, usage,
        wait_for_signal,
    };

    #[test]
    fn knows_its_resources() {
        assert!(cpu_count() >= 1);
        assert!(resident_size().unwrap() > 100_000);
        let (thread, process) = (usage(UsageOf::Thread), usage(UsageOf::Process));
        assert!(process.total() >= thread.total());
        assert!(process.resident_size_max > 100_000);
    }

    #[test]
    fn the_open_file_limit_is_never_lowered() {
        let before = open_file_limit().unwrap();
        assert_eq!(raise_open_file_limit(1).unwrap(), before);
        let after = raise_open_file_limit(before.soft + 1).unwrap();
        assert!(after.soft >= before.soft);
    }

    #[test]
    fn a_held_signal_waits() {
        let signals = [Signal::Terminate, Signal::User1];
        let worker = std::thread::spawn(move || {
            hold_signals(&signals).unwrap();
            // SAFETY: the signal goes to a live thread, this one, which holds it.
            let error = unsafe { libc::pthread_kill(this_thread(), libc::SIGUSR1) };
            assert_eq!(error, 0);
            assert_eq!(wait_for_signal(&signals).unwrap(), Signal::User1);
        });
        worker.join().unwrap();
    }

    #[test]
    fn only_whole_pages_are_discarded() {
        let page_size = page_size() as usize;
        let mut memory = vec![MaybeUninit::new(7_u8); 4 * page_size];
        let first = memory.as_ptr().addr().next_multiple_of(page_size) - memory.as_ptr().addr();
        discard_pages(&mut memory[first..first + page_size + 100]);
        // SAFETY: all of it was written, and the kernel writes zeros.
        let byte = |place: usize| unsafe { memory[place].assume_init() };
        assert_eq!([first, first + page_size - 1].map(byte), [0, 0]);
        assert_eq!([first + page_size, first + page_size + 99, first + page_size + 100].map(byte), [7, 7, 7]);
        discard_pages(&mut memory[first + 1..first + page_size]);
        discard_pages(&mut []);
    }

    #[test]
    fn secrets_fill_everything() {
        // More than the kernel promises to give at once.
        let mut bytes = [0_u8; 600];
        fill_with_secrets(&mut bytes).unwrap();
        assert!(bytes.chunks(100).all(|chunk| chunk.iter().any(|&byte| byte != 0)));
    }

    #[test]
    fn a_thread_can_be_scheduled_in_batches_and_back() {
        let worker = std::thread::spawn(|| {
            for scheduling in [Scheduling::Batch, Scheduling::Normal] {
                set_thread_scheduling(scheduling).unwrap();
                assert_eq!(thread_scheduling(), Some(scheduling));
            }
        });
        worker.join().unwrap();
    }

    #[test]
    fn a_thread_can_be_named_and_bound() {
        let worker = std::thread::spawn(|| {
            set_thread_name("a-name-that-is-too-long");
            assert_eq!(std::fs::read_to_string("/proc/thread-self/comm").unwrap(), "a-name-that-is-\n");
            let allowed = thread_affinity().unwrap();
            set_thread_affinity(&allowed[..1]).unwrap();
            assert_eq!(thread_affinity().unwrap(), allowed[..1]);
            set_thread_affinity(&[usize::MAX]).unwrap_err();
        });
        worker.join().unwrap();
    }
}
