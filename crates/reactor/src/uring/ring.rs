//! The submission and completion queues, and the one system call that serves both.
//!
//! Owns the io_uring instance. Knows no connections.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{BufRingEntry, Timespec};
use io_uring::{Builder, EnterFlags, IoUring, cqueue, types};

use crate::sys;

/// Completion queue entries for each submission queue entry: multishot requests complete often.
const COMPLETION_FACTOR: u32 = 4;

/// From linux/io_uring.h: registers the ring's descriptor with its thread.
const IORING_REGISTER_RING_FDS: libc::c_uint = 20;

/// Ways to set a ring up, best first; older kernels refuse the first ones.
const SETUPS: [fn(&mut Builder); 4] = [
    |builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_no_sqarray();
    },
    |builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
    },
    |builder| {
        builder.setup_coop_taskrun().setup_submit_all();
    },
    |_| {},
];

pub(super) struct Ring {
    ring: IoUring,
    /// The ring's index among the thread's registered rings, which spares a look-up a call; else its descriptor.
    enter_fd: RawFd,
    enter_flags: EnterFlags,
}

impl Ring {
    pub(super) fn new(entries: u32) -> io::Result<Self> {
        let entries = entries.max(8);
        let mut result = Err(io::ErrorKind::Unsupported.into());
        for setup in SETUPS {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_clamp().setup_cqsize(entries.saturating_mul(COMPLETION_FACTOR));
            setup(&mut builder);
            result = builder.build(entries);
            match &result {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                _ => break,
            }
        }
        let ring = result?;
        let mut enter_fd = ring.as_raw_fd();
        let mut enter_flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if ring.params().is_feature_no_iowait() {
            enter_flags |= EnterFlags::NO_IOWAIT;
        }
        if let Some(index) = register_ring(enter_fd) {
            enter_fd = index;
            enter_flags |= EnterFlags::REGISTERED_RING;
        }
        Ok(Self { ring, enter_fd, enter_flags })
    }

    /// Whether the kernel keeps completions that find the queue full, lets waits end by time, copies what requests point
    /// to when they are submitted, and can leave out completions of successes.
    pub(super) fn has_features(&self) -> bool {
        let params = self.ring.params();
        params.is_feature_nodrop()
            && params.is_feature_ext_arg()
            && params.is_feature_submit_stable()
            && params.is_feature_skip_cqe_on_success()
    }

    /// Registers `entries` at `start` as buffer group `group`.
    ///
    /// # Safety
    ///
    /// 1. `start` begins a page-aligned array of `entry_count` entries, zeroed, that lives until
    ///    [`Self::unregister_buffers`] returns or the ring is gone.
    pub(super) unsafe fn register_buffers(
        &self,
        start: *mut BufRingEntry,
        entry_count: u16,
        group: u16,
    ) -> io::Result<()> {
        let submitter = self.ring.submitter();
        // SAFETY: (1) is the callee's condition.
        unsafe { submitter.register_buf_ring_with_flags(start as u64, entry_count, group, 0) }
    }

    /// Afterwards the kernel takes no buffer of the group any more.
    pub(super) fn unregister_buffers(&self, group: u16) -> io::Result<()> {
        self.ring.submitter().unregister_buf_ring(group)
    }

    /// Queues a request; a full queue is submitted first.
    ///
    /// # Safety
    ///
    /// 1. What the request points to stays valid until it is submitted, and memory that it reads or writes until its
    ///    last completion. Where it posts none on success and can't wait, that is when it is submitted.
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: (1) is the callee's condition.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(0, None)?;
        }
        Ok(())
    }

    /// Submits everything queued, lets pending completions be posted, and waits until there are `wanted_count` or
    /// `timeout` has passed; all in one system call unless the kernel takes the requests in portions.
    #[inline]
    pub(super) fn enter(&mut self, wanted_count: u32, timeout: Option<Duration>) -> io::Result<()> {
        let timespec = timeout.map(timespec);
        let mut arguments = types::SubmitArgs::new();
        if let Some(timespec) = &timespec {
            arguments = arguments.timespec(timespec);
        }
        let mut refusal_count = 0;
        loop {
            let to_submit = self.ring.submission().len() as u32;
            // SAFETY: io_uring_enter with EXT_ARG reads a `SubmitArgs`, alive and of the size given; requests in the queue
            // are valid by `push` (1).
            let result = unsafe {
                libc::syscall(
                    libc::SYS_io_uring_enter,
                    self.enter_fd,
                    to_submit,
                    wanted_count,
                    self.enter_flags.bits(),
                    &raw const arguments,
                    size_of::<types::SubmitArgs<'_, '_>>(),
                )
            };
            if let Err(error) = sys::check(result as libc::c_int) {
                match error.raw_os_error() {
                    Some(libc::EINTR | libc::ETIME) => {}
                    // Completions overflowed, or memory is short: what there is must be consumed first.
                    Some(libc::EBUSY | libc::EAGAIN) => return Ok(()),
                    _ => return Err(error),
                }
            }
            if self.ring.submission().is_empty() {
                return Ok(());
            }
            refusal_count = if result > 0 { 0 } else { refusal_count + 1 };
            if refusal_count > 100 {
                return Err(io::Error::other("io_uring takes no requests"));
            }
        }
    }

    /// Whether all requests queued are with the kernel.
    pub(super) fn is_submitted(&mut self) -> bool {
        self.ring.submission().is_empty()
    }

    /// Moves the completions posted so far to the end of `to`.
    #[inline]
    pub(super) fn take_completions(&mut self, to: &mut Vec<cqueue::Entry>) {
        to.extend(self.ring.completion());
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::from(duration)
}

fn register_ring(fd: RawFd) -> Option<RawFd> {
    #[repr(C)]
    struct Update {
        offset: u32,
        reserved: u32,
        data: u64,
    }
    let mut update = Update { offset: u32::MAX, reserved: 0, data: fd as u64 };
    // SAFETY: the kernel reads and writes one `Update`, laid out as its struct io_uring_rsrc_update.
    let registered = unsafe {
        libc::syscall(libc::SYS_io_uring_register, fd, IORING_REGISTER_RING_FDS, &raw mut update, 1_u32)
    };
    if registered == 1 { RawFd::try_from(update.offset).ok() } else { None }
}
