//! One load thread: an epoll loop over the connections of its flows, until the window ends.
//!
//! Touches sockets and the clock; never a lock. Sleeps while no request is due, except for the last
//! microseconds.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::load::flow::{Flow, FlowOutcome};
use crate::load::window::{Clock, Progress, Window};

/// Size of a thread's receive buffer: a batch of large replies. Lines are far shorter.
const INBOX_SIZE: usize = 256 * 1024;

/// Maximum number of events per epoll wait.
const EVENT_COUNT_MAX: usize = 256;

/// Longest sleep: bounds the delay until a thread reads that a run was closed or aborted.
const SLEEP_NS_MAX: u64 = 20_000_000;

/// Time before a due request at which a thread stops sleeping and polls. Longer polling is more punctual on
/// a dedicated CPU; on a shared one the scheduler takes whole time slices from the thread for it.
const SPIN_NS: u64 = 15_000;

/// Timer slack in nanoseconds: the delay that the kernel may add to coalesce timers. 1 is the minimum.
const TIMER_SLACK_NS: u64 = 1;

/// Maximum wait for replies after the window.
const DRAIN: Duration = Duration::from_secs(10);

/// Drives `flows` until the window ends and their replies have arrived.
pub fn drive(
    mut flows: Vec<Flow>,
    clock: &Clock,
    window: &Window,
    progress: &Progress,
) -> io::Result<Vec<FlowOutcome>> {
    let queue = epoll::create(CreateFlags::CLOEXEC)?;
    for (flow_index, flow) in flows.iter().enumerate() {
        for (index, connection) in flow.connections.iter().enumerate() {
            let token = (flow_index as u64) << 32 | index as u64;
            // Edge-triggered, so that the interest set never changes.
            let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&queue, connection.stream(), EventData::new_u64(token), interest)?;
        }
    }
    let mut inbox = vec![0; INBOX_SIZE];
    let mut events = Vec::with_capacity(EVENT_COUNT_MAX);
    let mut is_finished = false;

    rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS))?;
    std::thread::sleep(clock.until_start());
    for flow in &mut flows {
        flow.start(clock, window)?;
    }
    loop {
        let mut next_due_ns = u64::MAX;
        for flow in &mut flows {
            next_due_ns = next_due_ns.min(flow.send_due(clock, window)?.unwrap_or(u64::MAX));
        }
        if !is_finished && has_used_up_quotas(&flows) {
            is_finished = true;
            progress.finish(clock.now_ns());
        }
        let now_ns = clock.now_ns();
        if window.is_aborted() || is_over(&flows, now_ns, window) {
            break;
        }
        events.clear();
        let timeout = sleep_until(next_due_ns, now_ns, window);
        match epoll::wait(&queue, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let (flags, token) = (event.flags, event.data.u64());
            let (flow, index) = (&mut flows[(token >> 32) as usize], (token & u64::from(u32::MAX)) as usize);
            if flags.contains(EventFlags::OUT) {
                flow.on_writable(index)?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                flow.on_readable(index, &mut inbox, clock, window)?;
            }
        }
        let has_subscribers = flows.iter().any(Flow::subscribes);
        let counted = || flows.iter().filter(|flow| flow.subscribes() || !has_subscribers);
        let sum = |count: fn(&FlowOutcome) -> u64| counted().map(|flow| count(flow.outcome())).sum();
        progress.publish(sum(|outcome| outcome.tally.replies), sum(|outcome| outcome.tally.errors));
    }
    for flow in &mut flows {
        flow.abort(clock, window);
    }
    Ok(flows.into_iter().map(Flow::into_outcome).collect())
}

/// Whether every flow with a quota has used it up; false if no flow has one.
fn has_used_up_quotas(flows: &[Flow]) -> bool {
    let mut limited = flows.iter().filter(|flow| flow.has_quota()).peekable();
    limited.peek().is_some() && limited.all(Flow::is_finished)
}

fn is_over(flows: &[Flow], now_ns: u64, window: &Window) -> bool {
    let end_ns = window.end_ns();
    if now_ns < end_ns {
        return false;
    }
    let is_drained = flows.iter().all(|flow| flow.outstanding() == 0 && !flow.has_backlog(window));
    is_drained || now_ns - end_ns > DRAIN.as_nanos() as u64
}

/// Returns a sleep time slightly shorter than the wait for the next due request or the end of the window;
/// zero to poll.
fn sleep_until(next_due_ns: u64, now_ns: u64, window: &Window) -> Timespec {
    let end_ns = window.end_ns();
    let until_end_ns = if now_ns < end_ns { end_ns - now_ns } else { u64::MAX };
    let until_due_ns = next_due_ns.saturating_sub(now_ns);
    let sleep_ns = until_due_ns.min(until_end_ns).min(SLEEP_NS_MAX).saturating_sub(SPIN_NS);
    Timespec { tv_sec: 0, tv_nsec: sleep_ns as i64 }
}
