//! Names, processors and scheduling of the calling thread.

use std::io;
use std::mem::MaybeUninit;

use crate::check;

pub use crate::time_slice::set_time_slice;

/// Binds the calling thread to these processors. Fails if none of them is available.
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

/// How a woken thread may preempt the running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// It may preempt the running thread.
    Normal,
    /// It waits until the running thread sleeps or ends its time slice: `SCHED_BATCH`.
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

/// The calling thread's scheduling; `None` for another policy, e.g. a real-time one.
#[must_use]
pub fn thread_scheduling() -> Option<Scheduling> {
    let mut policy = 0;
    let mut parameters = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: the thread is alive, and both results are writable.
    let error =
        unsafe { libc::pthread_getschedparam(this_thread(), &raw mut policy, parameters.as_mut_ptr()) };
    debug_assert_eq!(error, 0, "the calling thread lives");
    [Scheduling::Normal, Scheduling::Batch].into_iter().find(|scheduling| scheduling.policy() == policy)
}

/// Sets the scheduling of the calling thread and of the threads it starts from now on.
pub fn set_thread_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let parameters = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: the thread is alive, and all-zero parameters are valid: neither policy has a priority.
    let error =
        unsafe { libc::pthread_setschedparam(this_thread(), scheduling.policy(), parameters.as_ptr()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// What [`lower_priority`] adds to the nice value: such a thread gets a third of the time of an ordinary one beside it.
const NICE_STEP: libc::c_int = 5;
const NICE_MAX: libc::c_int = 19;

/// Gives the calling thread, and the threads it starts from now on, a lower priority than that of the first thread. Where a CPU is
/// free, they run as before. Calling it again has no effect.
pub fn lower_priority() -> io::Result<()> {
    let first = std::process::id();
    // SAFETY: takes no pointers. -1 is a priority, too, and no error is possible: the process lives.
    let ordinary = unsafe { libc::getpriority(libc::PRIO_PROCESS, first) };
    let nice = (ordinary + NICE_STEP).min(NICE_MAX);
    // SAFETY: takes no pointers. 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }).map(drop)
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

#[cfg(test)]
mod tests {
    use super::{
        NICE_STEP, Scheduling, lower_priority, set_thread_affinity, set_thread_name, set_thread_scheduling,
        thread_affinity, thread_scheduling,
    };

    #[test]
    fn the_priority_of_one_thread_is_lowered_once() {
        let nice = |thread: u32| {
            // SAFETY: takes no pointers.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, thread) }
        };
        let before = nice(0);
        let worker = std::thread::spawn(move || {
            for _ in 0..2 {
                lower_priority().unwrap();
                assert_eq!(nice(0), (before + NICE_STEP).min(19));
            }
        });
        worker.join().unwrap();
        assert_eq!(nice(0), before);
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
