//! The submission and completion queues, and the one system call that serves both.
//!
//! The queues are the kernel's. In a simulation they belong to a simulated kernel, and are small if the seed
//! decides so. Independent of connections.

use std::io;
use std::time::Duration;

use io_uring::types::BufRingEntry;
use sync::simulation::planted;

use super::kernel::KernelQueues;
use super::request::{Completion, Request};
use crate::descriptor::Descriptor;
use crate::faults;
use crate::sys;

pub(super) struct Ring {
    queues: Queues,
    /// Completions taken from the kernel and not passed on yet.
    reaped: Vec<Completion>,
}

enum Queues {
    Kernel(KernelQueues),
    #[cfg(feature = "simulation")]
    Simulated(super::simulated::SimulatedQueues),
}

/// Calls the method on the current queues.
macro_rules! dispatch {
    ($queues:expr, $one:ident => $call:expr) => {
        match $queues {
            Queues::Kernel($one) => $call,
            #[cfg(feature = "simulation")]
            Queues::Simulated($one) => $call,
        }
    };
}

impl Ring {
    pub(super) fn new(entries: u32) -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        if let Some(network) = crate::simulated::Network::current() {
            let queues = Queues::Simulated(super::simulated::SimulatedQueues::new(network)?);
            return Ok(Self { queues, reaped: Vec::new() });
        }
        let queues = Queues::Kernel(KernelQueues::new(entries.max(8))?);
        Ok(Self { queues, reaped: Vec::new() })
    }

    /// Whether the kernel keeps completions that overflow the queue, supports timeouts for waits, copies
    /// referenced data on submission, and can suppress completions of successful requests.
    pub(super) fn has_features(&self) -> bool {
        dispatch!(&self.queues, queues => queues.has_features())
    }

    /// Whether the queues are the kernel's.
    pub(super) fn is_real(&self) -> bool {
        matches!(self.queues, Queues::Kernel(_))
    }

    /// Registers `entries` at `start` as buffer group `group`.
    ///
    /// # Safety
    ///
    /// 1. `start` points to a page-aligned array of `entry_count` zeroed entries that lives until
    ///    [`Self::unregister_buffers`] returns or the ring is dropped.
    pub(super) unsafe fn register_buffers(
        &mut self,
        start: *mut BufRingEntry,
        entry_count: u16,
        group: u16,
    ) -> io::Result<()> {
        // SAFETY: (1) is the callee's condition.
        dispatch!(&mut self.queues, queues => unsafe { queues.register_buffers(start, entry_count, group) })
    }

    /// Unregisters a buffer group. Afterwards the kernel takes no buffer of the group.
    pub(super) fn unregister_buffers(&mut self, group: u16) -> io::Result<()> {
        dispatch!(&mut self.queues, queues => queues.unregister_buffers(group))
    }

    /// Queues a request. If the queue is full, submits it first and reaps completions.
    ///
    /// # Safety
    ///
    /// 1. Data referenced by the request stays valid until it is submitted, and memory that it reads or writes
    ///    until its last completion. If it posts none on success and can't block, this also ends with the
    ///    submission.
    #[inline]
    pub(super) unsafe fn push(&mut self, request: &Request) -> io::Result<()> {
        // SAFETY: (1) is the callee's condition.
        while !dispatch!(&mut self.queues, queues => unsafe { queues.try_push(request) }) {
            self.enter(0, None)?;
            if !planted(faults::EARLY_SETTLE) {
                self.reap()?;
            }
        }
        Ok(())
    }

    /// Submits all queued requests, lets pending completions be posted, and waits until there are
    /// `wanted_count` or `timeout` has passed. This is one system call unless the kernel takes the requests in
    /// parts. Does not wait while there are completions that [`Self::take_completions`] has not passed on.
    #[inline]
    pub(super) fn enter(&mut self, wanted_count: u32, timeout: Option<Duration>) -> io::Result<()> {
        let wanted_count = if self.reaped.is_empty() { wanted_count } else { 0 };
        let mut refusal_count = 0;
        loop {
            let taken = dispatch!(&mut self.queues, queues => {
                let to_submit = queues.queued_count();
                queues.call(to_submit, wanted_count, timeout)
            });
            if let Err(error) = &taken {
                match error.raw_os_error() {
                    Some(libc::EINTR | libc::ETIME) => {}
                    // Completions overflowed, or memory is short: existing completions must be consumed first. The
                    // next call submits the requests that are left.
                    Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS) => return Ok(()),
                    _ => return taken.map(drop),
                }
            }
            if self.is_submitted() {
                return Ok(());
            }
            refusal_count = if taken.is_ok_and(|count| count > 0) { 0 } else { refusal_count + 1 };
            if refusal_count > 100 {
                return Err(io::Error::other("io_uring accepts no requests"));
            }
        }
    }

    /// Whether the kernel has all queued requests.
    #[inline]
    pub(super) fn is_submitted(&mut self) -> bool {
        dispatch!(&mut self.queues, queues => queues.queued_count()) == 0
    }

    /// Takes ownership of the descriptor in an accept's completion; negative numbers are errors.
    ///
    /// # Safety
    ///
    /// 1. It is the result of a completed accept of this ring, and the descriptor has no other owner.
    pub(super) unsafe fn own_result(&self, result: i32) -> io::Result<Descriptor> {
        match &self.queues {
            // SAFETY: (1) is also the callee's condition.
            Queues::Kernel(_) => unsafe { sys::own_result(result) }.map(Descriptor::Kernel),
            #[cfg(feature = "simulation")]
            Queues::Simulated(queues) => queues.own_result(result).map(Descriptor::Simulated),
        }
    }

    /// Appends all completions posted so far to `to`, including those that overflowed the queue. Afterwards a
    /// submitted quiet send without a completion among them is completely sent.
    #[inline]
    pub(super) fn take_completions(&mut self, to: &mut Vec<Completion>) -> io::Result<()> {
        self.reap()?;
        to.append(&mut self.reaped);
        Ok(())
    }

    /// Takes the posted completions. Overflowed completions wait in the kernel's list. A call that requests
    /// events moves them to the queue, as far as there is room.
    #[inline]
    fn reap(&mut self) -> io::Result<()> {
        dispatch!(&mut self.queues, queues => queues.take(&mut self.reaped));
        while dispatch!(&mut self.queues, queues => queues.has_overflowed()) && !planted(faults::EARLY_SETTLE)
        {
            self.flush_overflow()?;
            dispatch!(&mut self.queues, queues => queues.take(&mut self.reaped));
        }
        Ok(())
    }

    #[cold]
    fn flush_overflow(&mut self) -> io::Result<()> {
        let flushed = dispatch!(&mut self.queues, queues => queues.call(0, 0, None));
        match flushed.as_ref().map_err(io::Error::raw_os_error) {
            Ok(_) | Err(Some(libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS)) => {
                Ok(())
            }
            Err(_) => flushed.map(drop),
        }
    }
}
