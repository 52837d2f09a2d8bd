//! The kernel's queues: the memory shared with it, and the system call.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::types::{BufRingEntry, Timespec};
use io_uring::{Builder, EnterFlags, IoUring, types};

use super::request::{Completion, Request};

/// Completion queue entries per submission queue entry: multishot requests complete often.
const COMPLETION_FACTOR: u32 = 4;

/// From linux/io_uring.h: registers the ring's descriptor with its thread.
const IORING_REGISTER_RING_FDS: libc::c_uint = 20;

/// Ring configurations, best first; older kernels reject the first ones.
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

pub(super) struct KernelQueues {
    ring: IoUring,
    /// The ring's index among the thread's registered rings, which saves a look-up per call; otherwise its
    /// descriptor.
    enter_fd: RawFd,
    enter_flags: EnterFlags,
}

impl KernelQueues {
    pub(super) fn new(entries: u32) -> io::Result<Self> {
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

    /// Whether the kernel keeps completions that overflow the queue, supports timeouts for waits, copies
    /// referenced data on submission, and can suppress completions of successful requests.
    pub(super) fn has_features(&self) -> bool {
        let params = self.ring.params();
        params.is_feature_nodrop()
            && params.is_feature_ext_arg()
            && params.is_feature_submit_stable()
            && params.is_feature_skip_cqe_on_success()
    }

    /// # Safety
    ///
    /// 1. See [`Ring::register_buffers`](super::ring::Ring::register_buffers).
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

    pub(super) fn unregister_buffers(&self, group: u16) -> io::Result<()> {
        self.ring.submitter().unregister_buf_ring(group)
    }

    /// Puts a request into the submission queue. Returns `false` if the queue is full.
    ///
    /// # Safety
    ///
    /// 1. See [`Ring::push`](super::ring::Ring::push).
    #[inline]
    pub(super) unsafe fn try_push(&mut self, request: &Request) -> bool {
        let entry = request.to_entry();
        // SAFETY: (1) is the callee's condition.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// Number of requests in the submission queue.
    #[inline]
    pub(super) fn queued_count(&mut self) -> u32 {
        self.ring.submission().len() as u32
    }

    /// Whether completions have overflowed the queue and wait in the kernel's list.
    #[inline]
    pub(super) fn has_overflowed(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Appends the completions in the queue to `to`.
    #[inline]
    pub(super) fn take(&mut self, to: &mut Vec<Completion>) {
        to.extend(self.ring.completion().map(Completion::from));
    }

    /// The system call: submits requests, moves completions from the kernel's list into the queue as far as
    /// there is room, and waits until `wanted_count` are in the queue or `timeout` has passed. Returns the
    /// number of requests taken.
    #[inline]
    pub(super) fn call(
        &mut self,
        to_submit: u32,
        wanted_count: u32,
        timeout: Option<Duration>,
    ) -> io::Result<u32> {
        let timespec = timeout.map(Timespec::from);
        let mut arguments = types::SubmitArgs::new();
        if let Some(timespec) = &timespec {
            arguments = arguments.timespec(timespec);
        }
        // SAFETY: io_uring_enter with EXT_ARG reads a `SubmitArgs`, which is alive and has the size given;
        // requests in the queue are valid by `try_push` (1).
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
        os::check(result as libc::c_int).map(|count| count as u32)
    }
}

fn register_ring(fd: RawFd) -> Option<RawFd> {
    #[repr(C)]
    struct Update {
        offset: u32,
        reserved: u32,
        data: u64,
    }
    let mut update = Update { offset: u32::MAX, reserved: 0, data: fd as u64 };
    // SAFETY: the kernel reads and writes one `Update`, with the layout of its struct io_uring_rsrc_update.
    let registered = unsafe {
        libc::syscall(libc::SYS_io_uring_register, fd, IORING_REGISTER_RING_FDS, &raw mut update, 1_u32)
    };
    if registered == 1 { RawFd::try_from(update.offset).ok() } else { None }
}
