//! Time slices: how long a thread may run before others are scheduled.
//!
//! Touches the calling thread's scheduling, which Linux 6.12 and later expose in `sched_attr`.

use std::io;
use std::mem::MaybeUninit;

use crate::check;

/// Requests a longer time slice for the calling thread. Its share of time is unchanged, but a woken thread may
/// preempt it before the slice ends. No effect on kernels before 6.12.
pub fn lengthen_time_slice() -> io::Result<()> {
    /// Ordinary slices are about 3 ms.
    const SLICE_NS: u64 = 20_000_000;
    let mut attributes = scheduling_attributes()?;
    if ![libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attributes.sched_policy as libc::c_int)) {
        return Ok(());
    }
    attributes.sched_runtime = SLICE_NS;
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
    use super::{lengthen_time_slice, scheduling_attributes};

    #[test]
    fn time_slices_are_longer_on_supporting_kernels() {
        let worker = std::thread::spawn(|| {
            let before = scheduling_attributes().unwrap();
            lengthen_time_slice().unwrap();
            let after = scheduling_attributes().unwrap();
            // Older kernels report no slice.
            assert!(before.sched_runtime == 0 || after.sched_runtime > before.sched_runtime);
            assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, before.sched_nice));
        });
        worker.join().unwrap();
    }
}
