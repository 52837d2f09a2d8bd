//! Time slices: how long a thread may run before others are scheduled.
//!
//! Touches the calling thread's scheduling, which Linux 6.12 and later expose in `sched_attr`.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::check;

/// Requests a time slice for the calling thread; ordinary ones are about 3 ms. Its share of time is unchanged. With a longer
/// slice, other threads preempt it sooner, and it waits longer until it runs again; with a shorter slice it waits less. No
/// effect on kernels before 6.12.
pub fn set_time_slice(slice: Duration) -> io::Result<()> {
    let mut attributes = scheduling_attributes()?;
    if ![libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attributes.sched_policy as libc::c_int)) {
        return Ok(());
    }
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the attributes are alive, and have their size in them.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, SELF, &raw mut attributes, NO_FLAGS) };
    check(result as libc::c_int).map(drop)
}

/// The calling thread, and no flags, as arguments for the calls on [`libc::sched_attr`].
const SELF: libc::c_long = 0;
const NO_FLAGS: libc::c_ulong = 0;

/// The calling thread's scheduling attributes.
fn scheduling_attributes() -> io::Result<libc::sched_attr> {
    let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed();
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the attributes are writable, and their size is given.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, SELF, attributes.as_mut_ptr(), size, NO_FLAGS) };
    check(result as libc::c_int)?;
    // SAFETY: all-zero is valid, and the kernel has filled it in.
    Ok(unsafe { attributes.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{scheduling_attributes, set_time_slice};

    #[test]
    fn time_slices_are_set_on_supporting_kernels() {
        let worker = std::thread::spawn(|| {
            let before = scheduling_attributes().unwrap();
            for slice in [Duration::from_millis(20), Duration::from_micros(400)] {
                set_time_slice(slice).unwrap();
                let after = scheduling_attributes().unwrap();
                // Older kernels report no slice.
                assert!(before.sched_runtime == 0 || u128::from(after.sched_runtime) == slice.as_nanos());
                assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, before.sched_nice));
            }
        });
        worker.join().unwrap();
    }
}
