//! The load generator: threads, connections, pacing, and the coordinator that measures one run.
//!
//! Start reading at [`run`]; then `thread` (the event loop), `flow` (closed and open loop) and `connection`.

pub mod connection;
pub mod flow;
pub mod schedule;
pub mod source;
pub mod thread;
pub mod window;

use std::io;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use tool::interrupt;

use crate::accounting::{CpuMeter, CpuSample, machine_cpu_time};
use crate::control::{Answer, Target, send_command};
use crate::distribution::{Distribution, KeyPicker, Share};
use crate::error::BenchError;
use crate::load::connection::Connection;
use crate::load::flow::{Flow, FlowOutcome};
use crate::load::schedule::Schedule;
use crate::load::source::RequestSource;
use crate::load::window::{Clock, Progress, Window};
use crate::pinning::{CpuList, pin_this_thread};
use crate::template::{Draw, Template};
use crate::values::ValueSource;

/// Interval at which the coordinator reads the counters.
const TICK: Duration = Duration::from_millis(20);

/// A server without any reply for this time counts as hung.
const STALL_MAX: Duration = Duration::from_secs(60);

/// Time for the threads to start before the clock starts.
const START_DELAY: Duration = Duration::from_millis(5);

/// One load run against one server.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Load threads.
    pub thread_count: usize,
    /// The flows, run concurrently; each thread drives its share of each.
    pub flows: Vec<FlowPlan>,
    /// Load before the measured window. Zero with a quota, so that exactly the quota is counted.
    pub warmup: Duration,
    /// Length of the window. If absent, the window ends when every flow with a quota is done.
    pub length: Option<Duration>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// CPUs that load threads are bound to; any if empty.
    pub client_cpus: CpuList,
}

/// Plan of one flow.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Connections over all threads.
    pub connection_count: usize,
    /// Outstanding requests per connection.
    pub pipeline: u64,
    /// Requests per second over all threads in the open loop; closed loop if absent.
    pub rate: Option<f64>,
    /// Requests over all threads; unlimited if absent.
    pub quota: Option<u64>,
    /// Templates, with relative frequencies.
    pub templates: Vec<(u32, Template)>,
    /// Key distribution.
    pub distribution: Distribution,
    /// Number of distinct keys.
    pub key_count: u64,
    /// Source of the values.
    pub values: ValueSource,
    /// Whether the flow only subscribes to [`CHANNEL`]. If a plan has such a flow, its received messages
    /// are counted instead of replies.
    pub subscribes: bool,
}

/// Channel of subscribing flows.
const CHANNEL: &str = "news";

impl FlowPlan {
    /// Returns a flow of `connection_count` subscribers to the messages that this flow publishes.
    #[must_use]
    pub fn to_listeners(&self, connection_count: usize) -> Self {
        Self { connection_count, subscribes: true, rate: None, quota: None, ..self.clone() }
    }

    /// Returns a flow of `connection_count` connections that block on the data of this flow, one request
    /// each.
    #[must_use]
    pub fn to_waiting(&self, connection_count: usize, request: Template) -> Self {
        let templates = vec![(1, request)];
        Self { connection_count, templates, pipeline: 1, rate: None, quota: None, ..self.clone() }
    }
}

/// Measurements of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Length of the window.
    pub window: Duration,
    /// Replies received inside the window.
    pub replies: u64,
    /// CPU time of the server inside the window; absent for remote servers.
    pub server_cpu: Option<Duration>,
    /// CPU time of this process inside the window.
    pub client_cpu: Option<Duration>,
    /// CPU time of the whole machine inside the window.
    pub machine_cpu: Option<Duration>,
    /// Results of each flow of the plan.
    pub flows: Vec<FlowOutcome>,
}

/// Progress of a running measurement.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Replies since the start.
    pub replies: u64,
    /// Error replies since the start.
    pub errors: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// Completed share of the run, 0 to 1.
    pub done: f64,
}

/// Runs `plan` against `target`. Calls `watch` periodically with the progress.
pub fn run(plan: &Plan, target: &Target, watch: &mut dyn FnMut(Live)) -> Result<Outcome, BenchError> {
    let mut thread_flows = Vec::new();
    for index in 0..plan.thread_count {
        let flows = plan.flows.iter().enumerate();
        let flows: Result<Vec<Flow>, BenchError> =
            flows.map(|(flow_index, flow)| build_flow(plan, flow_index, flow, index, target)).collect();
        thread_flows.push(flows?);
    }
    let window = Window::new(plan.warmup, plan.length);
    let progress: Vec<Progress> = (0..plan.thread_count).map(|_| Progress::default()).collect();
    let before = Snapshot::take(0, 0, target);
    let clock = Clock::starting_at(Instant::now() + START_DELAY);

    std::thread::scope(|scope| {
        let threads: Vec<_> = thread_flows
            .into_iter()
            .zip(&progress)
            .map(|(flows, progress)| {
                let (clock, window) = (&clock, &window);
                scope.spawn(move || -> io::Result<Vec<FlowOutcome>> {
                    pin_this_thread(&plan.client_cpus)?;
                    thread::drive(flows, clock, window, progress)
                })
            })
            .collect();
        let has_died = || threads.iter().any(std::thread::ScopedJoinHandle::is_finished);
        let mut coordinator =
            Coordinator { plan, target, clock, window: &window, progress: &progress, watch };
        let measured = coordinator.measure(before, &has_died);
        if measured.is_err() {
            window.abort();
        }

        let mut flows = vec![FlowOutcome::default(); plan.flows.len()];
        for thread in threads {
            let outcomes = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let outcomes = outcomes.map_err(|error| BenchError::server(&target.name, error.to_string()))?;
            flows.iter_mut().zip(&outcomes).for_each(|(flow, outcome)| flow.merge(outcome));
        }
        Ok(Outcome { flows, ..measured? })
    })
}

fn build_flow(
    plan: &Plan,
    flow_index: usize,
    flow: &FlowPlan,
    thread_index: usize,
    target: &Target,
) -> Result<Flow, BenchError> {
    let share = Share { index: thread_index as u64, count: plan.thread_count as u64 };
    let connection_count = share.of(flow.connection_count as u64);
    let connections = (0..connection_count)
        .map(|_| connect(flow, target))
        .collect::<io::Result<Vec<Connection>>>()
        .map_err(|error| BenchError::server(&target.name, format!("connecting: {error}")))?;
    let stream = (flow_index * plan.thread_count + thread_index) as u64;
    let rng = SmallRng::seed_from_u64(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(stream));
    let keys = KeyPicker::new(flow.distribution, flow.key_count, share)?;
    let source = RequestSource::new(&flow.templates, Draw::new(rng, keys, flow.values.clone()));
    let schedule = flow.rate.map(|rate| Schedule::new(rate, thread_index, plan.thread_count));
    let quota = flow.quota.map(|quota| share.of(quota));
    if flow.subscribes {
        return Ok(Flow::listening(connections, source));
    }
    Ok(Flow::new(connections, source, flow.pipeline, schedule, quota))
}

fn connect(flow: &FlowPlan, target: &Target) -> io::Result<Connection> {
    let mut socket = target.connect()?;
    if !flow.subscribes {
        return Connection::new(socket);
    }
    match send_command(&mut socket, &["SUBSCRIBE", CHANNEL])? {
        Answer::Error(text) => Err(io::Error::other(text)),
        Answer::Text(_) | Answer::Other => Connection::listening(socket),
    }
}

struct Coordinator<'a> {
    plan: &'a Plan,
    target: &'a Target,
    clock: Clock,
    window: &'a Window,
    progress: &'a [Progress],
    watch: &'a mut dyn FnMut(Live),
}

/// The counters at one point in time.
struct Snapshot {
    at_ns: u64,
    replies: u64,
    server: Option<CpuSample>,
    client: Option<CpuSample>,
    machine: Option<Duration>,
}

impl Snapshot {
    fn take(at_ns: u64, replies: u64, target: &Target) -> Self {
        let sample = |pid: Option<u32>| pid.and_then(|pid| CpuMeter::new(pid).sample().ok());
        Self {
            at_ns,
            replies,
            server: sample(target.pid),
            client: sample(Some(std::process::id())),
            machine: machine_cpu_time().ok(),
        }
    }
}

impl Coordinator<'_> {
    /// Waits for the start and the end of the window and returns the difference of the counters. All
    /// counters are read together, so a late wake-up shifts the window without distorting it. The result
    /// lacks the flows, which the threads own.
    fn measure(&mut self, before: Snapshot, has_died: &dyn Fn() -> bool) -> Result<Outcome, BenchError> {
        let start = if self.window.start_ns() > 0 {
            self.wait(has_died, |at| at.clock.now_ns() >= at.window.start_ns())?;
            self.snapshot()
        } else {
            // Without a warm-up, the counters read before the first request apply, so that every request is
            // included.
            before
        };
        match self.plan.length {
            Some(_) => self.wait(has_died, |at| at.clock.now_ns() >= at.window.end_ns())?,
            None => {
                self.wait(has_died, |at| at.progress.iter().all(|thread| thread.finished_ns().is_some()))?
            }
        }
        let mut end = self.snapshot();
        if self.plan.length.is_none() {
            self.window.close(end.at_ns);
            // The server does next to nothing after the last reply, but the extra time would distort the
            // rate.
            let finished = self.progress.iter().filter_map(Progress::finished_ns).max();
            end.at_ns = finished.map_or(end.at_ns, |finished_ns| finished_ns.max(start.at_ns + 1));
        }
        let difference = |end: &Option<CpuSample>, start: &Option<CpuSample>| {
            end.as_ref().zip(start.as_ref()).map(|(end, start)| end.since(start))
        };
        Ok(Outcome {
            window: Duration::from_nanos(end.at_ns - start.at_ns),
            replies: end.replies - start.replies,
            server_cpu: difference(&end.server, &start.server),
            client_cpu: difference(&end.client, &start.client),
            machine_cpu: end.machine.zip(start.machine).map(|(end, start)| end.saturating_sub(start)),
            flows: Vec::new(),
        })
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.clock.now_ns(), self.replies(), self.target)
    }

    fn wait(
        &mut self,
        has_died: &dyn Fn() -> bool,
        is_over: impl Fn(&Self) -> bool,
    ) -> Result<(), BenchError> {
        let (mut replies_seen, mut seen_at) = (self.replies(), Instant::now());
        while !is_over(self) {
            std::thread::sleep(self.time_to_next_tick());
            interrupt::check()?;
            let replies = self.replies();
            if replies != replies_seen {
                (replies_seen, seen_at) = (replies, Instant::now());
            } else if seen_at.elapsed() > STALL_MAX {
                return Err(BenchError::server(&self.target.name, "no reply for a minute"));
            }
            if has_died() && !is_over(self) {
                return Err(BenchError::server(&self.target.name, "a connection failed"));
            }
            self.show(replies);
        }
        Ok(())
    }

    /// Returns the time until the next tick, shortened to the exact start or end of the window.
    fn time_to_next_tick(&self) -> Duration {
        let now_ns = self.clock.now_ns();
        let edges = [self.window.start_ns(), self.window.end_ns()];
        let next = edges.into_iter().filter(|&edge_ns| edge_ns > now_ns).min();
        next.map_or(TICK, |edge_ns| Duration::from_nanos(edge_ns - now_ns).min(TICK))
    }

    fn replies(&self) -> u64 {
        self.progress.iter().map(Progress::replies).sum()
    }

    fn show(&mut self, replies: u64) {
        let now_ns = self.clock.now_ns();
        let errors = self.progress.iter().map(Progress::errors).sum();
        let quota: u64 = self.plan.flows.iter().filter_map(|flow| flow.quota).sum();
        let done = match self.plan.length {
            Some(_) => now_ns as f64 / self.window.end_ns() as f64,
            None => replies as f64 / quota.max(1) as f64,
        };
        let elapsed = Duration::from_nanos(now_ns);
        (self.watch)(Live { replies, errors, elapsed, done: done.min(1.0) });
    }
}
