//! Operating system services for the process and its threads.
//!
//! Touches: process-wide state. [`daemonize`] and [`set_umask`] are for start-up, before any other thread
//! exists.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::check;
use crate::pages::page_size;

/// Number of processors available to this process, limited by its affinity mask and its cgroup's quota.
/// Determined by the first call, which must come at start-up: a thread bound to some processors would count
/// only those.
#[must_use]
pub fn cpu_count() -> usize {
    if sync::simulation::is_simulated() {
        // Simulations use a fixed number on every machine.
        return 4;
    }
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Fills `bytes` with the kernel's random numbers, which are suitable for passwords.
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

/// Stops this process until it is continued by a signal.
pub fn stop_itself() -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::raise(libc::SIGSTOP) }).map(drop)
}

/// Looks up a group by its name, or by its number as text; `None` if it does not exist.
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
    // SAFETY: the group was found, so the structure is filled in.
    Some(unsafe { group.assume_init() }.gr_gid)
}

/// The scope of resource usage.
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
    /// Context switches caused by waiting.
    pub voluntary_switch_count: u64,
    /// Context switches caused by preemption.
    pub involuntary_switch_count: u64,
}

impl Usage {
    /// User and system time together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system
    }
}

/// Resources used so far; one system call.
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

/// Resident memory of the process, in bytes.
pub fn resident_size() -> io::Result<u64> {
    ResidentSize::default().size()
}

/// Repeated readings of the process's resident memory. The file stays open, as opening it costs more than
/// reading it.
#[derive(Debug)]
pub struct ResidentSize(io::Result<File>);

impl Default for ResidentSize {
    fn default() -> Self {
        Self(File::open("/proc/self/statm"))
    }
}

impl ResidentSize {
    /// Resident memory in bytes.
    pub fn size(&self) -> io::Result<u64> {
        let file = self.0.as_ref().map_err(|error| io::Error::from(error.kind()))?;
        let mut text = [0; 128];
        let size = file.read_at(&mut text, 0)?;
        let text = std::str::from_utf8(&text[..size]).map_err(|_| io::ErrorKind::InvalidData)?;
        let pages: Option<u64> = text.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok());
        Ok(pages.ok_or(io::ErrorKind::InvalidData)? * page_size())
    }
}

/// The operating system, its version and the processor architecture.
#[must_use]
pub fn system_name() -> String {
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", version.trim(), std::env::consts::ARCH)
}

/// Total memory of the machine in bytes; 0 if unknown.
#[must_use]
pub fn system_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The limit on open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileLimit {
    /// The current limit.
    pub soft: u64,
    /// The maximum to which an unprivileged process may raise it.
    pub hard: u64,
}

/// Returns the limit on open files.
pub fn open_file_limit() -> io::Result<OpenFileLimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(OpenFileLimit { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Raises the limit on open files to `wanted`, or as close as permitted, and returns the new limit. Never
/// lowers it.
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

/// Sets the permissions withheld from new files, and returns the previous mask.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: takes no pointers, can't fail.
    unsafe { libc::umask(mask as libc::mode_t) }
}

/// Moves the process to the background: forks, ends the parent, starts a session, and redirects the three
/// standard streams to `/dev/null`. The working directory is unchanged.
///
/// # Safety
///
/// 1. The process has one thread: only the caller would survive in the child.
pub unsafe fn daemonize() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: (1) with one thread, the child inherits no lock held by a missing thread.
    match check(unsafe { libc::fork() })? {
        0 => {}
        // SAFETY: the parent has nothing left to flush or run; exit handlers belong to the child.
        _ => unsafe { libc::_exit(0) },
    }
    // SAFETY: takes no pointers.
    check(unsafe { libc::setsid() })?;
    for stream in 0..=2 {
        // SAFETY: takes no pointers; the standard streams are replaced intentionally.
        check(unsafe { libc::dup2(null.as_raw_fd(), stream) })?;
    }
    Ok(())
}

/// Calls [`daemonize`] if the process has one thread; otherwise returns an error.
pub fn daemonize_alone() -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads are already running"));
    }
    // SAFETY: (1) just counted, and only the calling thread could have started another since.
    unsafe { daemonize() }
}

/// Whether standard output is a terminal.
#[must_use]
pub fn is_tty() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// Whether the system has a collation of this name; an empty name is the environment's.
#[must_use]
pub fn is_locale(name: &str) -> bool {
    let Ok(name) = std::ffi::CString::new(name) else { return false };
    // SAFETY: the name is a C string, and a null base creates a new locale.
    let locale = unsafe { libc::newlocale(libc::LC_COLLATE_MASK, name.as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return false;
    }
    // SAFETY: it was created above and is not shared.
    unsafe { libc::freelocale(locale) };
    true
}

/// The out-of-memory score adjustment of the process.
pub fn oom_score_adjustment() -> io::Result<i32> {
    let text = std::fs::read_to_string("/proc/self/oom_score_adj")?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Sets the kernel's preference for killing this process when memory runs out, from -1000 (never) to 1000.
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
    use super::{
        UsageOf, cpu_count, fill_with_secrets, open_file_limit, raise_open_file_limit, resident_size, usage,
    };

    #[test]
    fn resource_usage_is_plausible() {
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
    fn random_bytes_fill_the_whole_buffer() {
        // More than the kernel guarantees to return at once.
        let mut bytes = [0_u8; 600];
        fill_with_secrets(&mut bytes).unwrap();
        assert!(bytes.chunks(100).all(|chunk| chunk.iter().any(|&byte| byte != 0)));
    }
}
