//! A flow: connections with one kind of request and one pace; here one thread's share of it.
//!
//! Closed loop: a connection sends `pipeline` requests, awaits all replies, then sends the next batch.
//! Latency counts from the send time. Open loop: requests fall due by [`Schedule`] and are sent on any
//! connection with fewer than `pipeline` outstanding requests. Latency counts from the intended send time,
//! regardless of the actual one.
//!
//! Invariants:
//! 1. `outstanding` is the sum of all connections' awaited replies.
//! 2. Open loop: a connection is in `vacant` exactly when it awaits fewer than `pipeline` replies, and its `intended`
//!    has one entry for each awaited reply.

use std::collections::VecDeque;
use std::io;

use hdrhistogram::Histogram;

use crate::load::connection::Connection;
use crate::load::schedule::Schedule;
use crate::load::source::RequestSource;
use crate::load::window::{Clock, Window};
use crate::reply::Tally;

/// Upper bound of the latency histogram; longer latencies count as this value.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Results of a flow.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// Nanoseconds from the (intended) send time to the reply, of requests sent inside the measured window.
    pub latency: Histogram<u64>,
    /// Open loop: nanoseconds from the intended to the actual send time. This is the generator's own share
    /// of the latency plus the wait for a free connection.
    pub lag: Histogram<u64>,
    /// All replies, outside of the window too.
    pub tally: Tally,
    /// Requests of the window without a reply; `latency` includes them with the time waited so far.
    pub unanswered: u64,
}

impl Default for FlowOutcome {
    fn default() -> Self {
        Self { latency: new_histogram(), lag: new_histogram(), tally: Tally::default(), unanswered: 0 }
    }
}

impl FlowOutcome {
    /// Adds the results of another thread of this flow.
    pub fn merge(&mut self, other: &Self) {
        // Both histograms have equal bounds, so the addition can't fail.
        self.latency += &other.latency;
        self.lag += &other.lag;
        self.tally.merge(&other.tally);
        self.unanswered += other.unanswered;
    }
}

/// Creates a histogram of nanoseconds with three significant digits.
#[must_use]
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("1 < LATENCY_NS_MAX and 3 digits are allowed")
}

/// When requests are sent.
#[derive(Debug)]
pub enum Pacing {
    /// As soon as the replies to the previous batch have arrived.
    Closed {
        /// Send time of each connection's current batch.
        sent_ns: Vec<u64>,
    },
    /// Never: the connections only receive messages.
    Listening,
    /// At scheduled times.
    Open {
        /// The schedule.
        schedule: Schedule,
        /// Number of requests sent.
        issued: u64,
        /// Connections with fewer than `pipeline` outstanding requests.
        vacant: VecDeque<usize>,
        /// Intended send times of each connection's awaited requests.
        intended: Vec<VecDeque<u64>>,
    },
}

/// One thread's share of a flow. See the module description.
#[derive(Debug)]
pub struct Flow {
    /// The connections that this thread drives.
    pub connections: Vec<Connection>,
    source: RequestSource,
    pipeline: u64,
    pacing: Pacing,
    /// Requests that may still be sent inside the window.
    quota_left: Option<u64>,
    outstanding: u64,
    outcome: FlowOutcome,
}

impl Flow {
    /// Creates a flow that hasn't sent any request.
    #[must_use]
    pub fn new(
        connections: Vec<Connection>,
        source: RequestSource,
        pipeline: u64,
        schedule: Option<Schedule>,
        quota: Option<u64>,
    ) -> Self {
        let pacing = match schedule {
            None => Pacing::Closed { sent_ns: vec![0; connections.len()] },
            Some(schedule) => Pacing::Open {
                schedule,
                issued: 0,
                vacant: (0..connections.len()).collect(),
                intended: vec![VecDeque::new(); connections.len()],
            },
        };
        Self {
            connections,
            source,
            pipeline,
            pacing,
            quota_left: quota,
            outstanding: 0,
            outcome: FlowOutcome::default(),
        }
    }

    /// Creates a flow of subscribed connections.
    #[must_use]
    pub fn listening(connections: Vec<Connection>, source: RequestSource) -> Self {
        Self { pacing: Pacing::Listening, ..Self::new(connections, source, 0, None, None) }
    }

    /// Whether the flow only receives.
    #[must_use]
    pub const fn subscribes(&self) -> bool {
        matches!(self.pacing, Pacing::Listening)
    }

    /// Returns the number of requests sent and not yet answered.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Returns the results so far.
    #[must_use]
    pub const fn outcome(&self) -> &FlowOutcome {
        &self.outcome
    }

    /// Returns the final results.
    #[must_use]
    pub fn into_outcome(self) -> FlowOutcome {
        self.outcome
    }

    /// Whether the number of requests is limited.
    #[must_use]
    pub const fn has_quota(&self) -> bool {
        self.quota_left.is_some()
    }

    /// Whether the flow has a quota and all its requests are answered.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.quota_left == Some(0) && self.outstanding == 0
    }

    /// Closed loop: sends the first batch on every connection.
    pub fn start(&mut self, clock: &Clock, window: &Window) -> io::Result<()> {
        if matches!(self.pacing, Pacing::Closed { .. }) {
            for index in 0..self.connections.len() {
                self.send_batch(index, clock, window)?;
            }
        }
        Ok(())
    }

    /// Handles writability of a connection.
    pub fn on_writable(&mut self, index: usize) -> io::Result<()> {
        self.connections[index].flush()
    }

    /// Handles input on a connection.
    #[inline]
    pub fn on_readable(
        &mut self,
        index: usize,
        inbox: &mut [u8],
        clock: &Clock,
        window: &Window,
    ) -> io::Result<()> {
        loop {
            let received = self.connections[index].receive(inbox, &mut self.outcome.tally)?;
            if received.replies > 0 {
                self.record(index, received.replies, clock.now_ns(), window);
                let is_closed = matches!(self.pacing, Pacing::Closed { .. });
                if is_closed && self.connections[index].awaited() == 0 {
                    self.send_batch(index, clock, window)?;
                }
            }
            if received.drained {
                return Ok(());
            }
        }
    }

    /// Open loop: sends all due requests. Returns the time of the next request if a connection is free for
    /// it.
    pub fn send_due(&mut self, clock: &Clock, window: &Window) -> io::Result<Option<u64>> {
        let Pacing::Open { schedule, issued, vacant, intended } = &mut self.pacing else {
            return Ok(None);
        };
        let now_ns = clock.now_ns();
        let due = schedule.due_count(now_ns);
        while *issued < due && self.quota_left != Some(0) {
            let intended_ns = schedule.intended_ns(*issued);
            if intended_ns >= window.end_ns() {
                return Ok(None);
            }
            let Some(index) = vacant.pop_front() else {
                return Ok(None);
            };
            let connection = &mut self.connections[index];
            let count = connection.enqueue(|out| self.source.render_next(out));
            let sent_ns = clock.now_ns();
            connection.flush()?;
            intended[index].extend((0..count).map(|_| intended_ns));
            if connection.awaited() < self.pipeline {
                vacant.push_back(index);
            }
            *issued += 1;
            self.outstanding += count;
            if window.contains(intended_ns) {
                self.outcome.lag.saturating_record(sent_ns.saturating_sub(intended_ns));
                self.quota_left = self.quota_left.map(|left| left - 1);
            }
        }
        let has_next = !vacant.is_empty() && self.quota_left != Some(0);
        Ok(has_next.then(|| schedule.intended_ns(*issued)))
    }

    /// Ends the run. Outstanding requests of the window count with the time waited so far; so do unsent
    /// requests in the open loop.
    pub fn abort(&mut self, clock: &Clock, window: &Window) {
        let now_ns = clock.now_ns();
        let mut missed = |since_ns: u64, count: u64| {
            if count > 0 && window.contains(since_ns) {
                self.outcome.latency.saturating_record_n(now_ns.saturating_sub(since_ns), count);
                self.outcome.unanswered += count;
            }
        };
        match &self.pacing {
            Pacing::Listening => {}
            Pacing::Closed { sent_ns } => {
                for (connection, &sent_ns) in self.connections.iter().zip(sent_ns) {
                    missed(sent_ns, connection.awaited());
                }
            }
            Pacing::Open { schedule, issued, intended, .. } => {
                intended.iter().flatten().for_each(|&intended_ns| missed(intended_ns, 1));
                let due = schedule.due_count(window.end_ns().min(now_ns));
                let unsent = (*issued..due).take(self.quota_left.unwrap_or(u64::MAX) as usize);
                unsent.for_each(|index| missed(schedule.intended_ns(index), 1));
            }
        }
    }

    /// Open loop: whether requests intended before the end of the window are still unsent.
    #[must_use]
    pub fn has_backlog(&self, window: &Window) -> bool {
        match &self.pacing {
            Pacing::Closed { .. } | Pacing::Listening => false,
            Pacing::Open { schedule, issued, .. } => {
                self.quota_left != Some(0) && schedule.intended_ns(*issued) < window.end_ns()
            }
        }
    }

    #[inline]
    fn record(&mut self, index: usize, replies: u64, now_ns: u64, window: &Window) {
        if self.subscribes() {
            return;
        }
        self.outstanding -= replies;
        match &mut self.pacing {
            Pacing::Listening => {}
            Pacing::Closed { sent_ns } => {
                let sent_ns = sent_ns[index];
                if window.contains(sent_ns) {
                    self.outcome.latency.saturating_record_n(now_ns.saturating_sub(sent_ns), replies);
                }
            }
            Pacing::Open { vacant, intended, .. } => {
                let awaited = self.connections[index].awaited();
                if awaited < self.pipeline && awaited + replies >= self.pipeline {
                    vacant.push_back(index);
                }
                for intended_ns in intended[index].drain(..replies as usize) {
                    if window.contains(intended_ns) {
                        self.outcome.latency.saturating_record(now_ns.saturating_sub(intended_ns));
                    }
                }
            }
        }
    }

    /// Closed loop: sends as many requests as the pipeline and the quota allow, none after the end.
    #[inline]
    fn send_batch(&mut self, index: usize, clock: &Clock, window: &Window) -> io::Result<()> {
        let Pacing::Closed { sent_ns } = &mut self.pacing else {
            return Ok(());
        };
        let mut count = self.pipeline;
        let connection = &mut self.connections[index];
        let now_ns = clock.now_ns();
        if now_ns >= window.end_ns() {
            return Ok(());
        }
        if let Some(left) = &mut self.quota_left
            && window.contains(now_ns)
        {
            count = count.min(*left);
            *left -= count;
        }
        if count == 0 {
            return Ok(());
        }
        self.outstanding += connection.enqueue(|out| (0..count).map(|_| self.source.render_next(out)).sum());
        sent_ns[index] = clock.now_ns();
        connection.flush()
    }
}
