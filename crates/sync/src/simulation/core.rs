//! The scheduler's state: threads, virtual time, the digest, and the choice of the next thread.
//!
//! Invariants: (1) at most one thread is `Running`; (2) a thread in `Waiting` stays in the call that owns its
//! closure; (3) decisions depend only on the seed and on the program's behaviour.

use super::Gap;
use super::policy::{GapStalls, Random, Schedule};
use super::scheduler::TraceSink;

/// Virtual time of a scheduling point, in nanoseconds.
pub const POINT_NS: u64 = 20;
/// Virtual time of a switch.
const SWITCH_NS: u64 = 1000;
/// With priorities, a runnable thread waits at most this long before the running thread is demoted.
const STARVATION_NS: u64 = 20_000_000;
/// On average, one of this many decisions stalls a thread.
const DECISIONS_PER_STALL: u64 = 300;

/// Why a simulation ended before all of its threads did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// All threads are blocked, and none has a deadline.
    Deadlock,
    /// The number of points exceeded the limit in the options.
    StepLimit,
    /// A thread panicked.
    Panic {
        /// The thread's name.
        thread: String,
        /// The message and the location.
        message: String,
    },
    /// The running thread has reached no scheduling point for a minute of real time: it blocks its operating
    /// system thread, or loops.
    Stuck,
}

/// The state of a thread at the end of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadReport {
    /// The thread's name.
    pub name: String,
    /// `running`, `ready`, `blocked`, `waiting` or `ended`, with the deadline if there is one.
    pub state: String,
}

/// How a simulation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationOutcome {
    /// The simulation's seed.
    pub seed: u64,
    /// The schedule, chosen by the seed or the options.
    pub schedule: Schedule,
    /// `None` if all threads have ended.
    pub failure: Option<Failure>,
    /// The hash of all switches and traced events.
    pub digest: u64,
    /// The number of points passed.
    pub steps: u64,
    /// The number of switches to another thread.
    pub switches: u64,
    /// Elapsed virtual time, in microseconds.
    pub virtual_us: u64,
    /// All threads, in start order.
    pub threads: Vec<ThreadReport>,
}

/// A closure owned by the blocked thread.
pub(super) struct Ready(pub(super) *mut (dyn FnMut() -> bool + Send));

// SAFETY: the closure is `Send`, and is only called under the scheduler's lock, while its owner is blocked.
unsafe impl Send for Ready {}

pub(super) enum ThreadState {
    /// Runnable.
    Ready,
    Running,
    /// Blocked until the key is woken, or until the deadline.
    Blocked {
        key: usize,
        deadline_ns: Option<u64>,
    },
    /// Blocked until the closure returns true, or until the deadline.
    Waiting {
        ready: Ready,
        deadline_ns: Option<u64>,
    },
    Ended,
}

pub(super) struct Thread {
    pub(super) name: String,
    pub(super) state: ThreadState,
    /// Whether the last block ended by a wake-up or a true closure rather than by its deadline.
    pub(super) was_woken: bool,
    stalled_until_ns: u64,
    priority: u64,
    ready_since_ns: u64,
}

pub(super) struct Core {
    pub(super) threads: Vec<Thread>,
    pub(super) running_count: usize,
    pub(super) now_ns: u64,
    /// The sum of the lengths of all stalls, and of what counts as one.
    stalls_ns: u64,
    pub(super) steps: u64,
    pub(super) steps_max: u64,
    pub(super) switches: u64,
    pub(super) digest: u64,
    pub(super) failure: Option<Failure>,
    pub(super) is_over: bool,
    pub(super) schedule: Schedule,
    pub(super) numbers: Random,
    pub(super) trace: Option<TraceSink>,
    pub(super) traces_switches: bool,
    random: Random,
    yields_in_row: u32,
    lowest_priority: u64,
}

impl Core {
    pub(super) fn new(seed: u64, schedule: Option<Schedule>, steps_max: u64, start_ns: u64) -> Self {
        let mut random = Random::new(seed);
        let numbers = Random::new(random.next());
        let drawn = Schedule::draw(&mut random);
        Core {
            threads: Vec::new(),
            running_count: 0,
            now_ns: start_ns,
            stalls_ns: 0,
            steps: 0,
            steps_max,
            switches: 0,
            digest: 0x6A09_E667_F3BC_C908 ^ seed,
            failure: None,
            is_over: false,
            schedule: schedule.unwrap_or(drawn),
            numbers,
            trace: None,
            traces_switches: false,
            random,
            yields_in_row: 0,
            lowest_priority: u64::MAX / 2,
        }
    }

    /// Adds a runnable thread. Returns its number.
    pub(super) fn add(&mut self, name: String) -> usize {
        let priority = u64::MAX / 2 + self.random.below(u64::MAX / 4);
        self.threads.push(Thread {
            name,
            state: ThreadState::Ready,
            was_woken: false,
            stalled_until_ns: 0,
            priority,
            ready_since_ns: self.now_ns,
        });
        self.running_count += 1;
        self.threads.len() - 1
    }

    /// Marks a thread as ended because the operating system could not start it.
    pub(super) fn withdraw(&mut self, thread: usize) {
        self.threads[thread].state = ThreadState::Ended;
        self.running_count -= 1;
    }

    pub(super) fn mix(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.digest ^= self.digest >> 29;
    }

    pub(super) fn mix_text(&mut self, text: &str) {
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(text.len() as u64);
    }

    /// Adds the time and steps of the points that the running thread has passed.
    pub(super) fn account(&mut self, points: u32) {
        self.steps += u64::from(points);
        self.now_ns += u64::from(points) * POINT_NS;
    }

    /// Excludes the thread from scheduling for `ns` nanoseconds.
    pub(super) fn stall(&mut self, thread: usize, ns: u64) {
        let left_ns = self.threads[thread].stalled_until_ns.saturating_sub(self.now_ns);
        self.stalls_ns = self.stalls_ns + ns - left_ns;
        self.threads[thread].stalled_until_ns = self.now_ns + ns;
    }

    /// For how long threads were stalled so far: the sum of all threads, and by how much time ran faster while none was stalled
    /// and all only yielded; in nanoseconds.
    pub(super) fn stalled_ns(&self) -> u64 {
        let left = |thread: &Thread| thread.stalled_until_ns.saturating_sub(self.now_ns);
        self.stalls_ns - self.threads.iter().map(left).sum::<u64>()
    }

    /// Stalls the running thread in a gap, if the seed decides so.
    pub(super) fn pass(&mut self, thread: usize, stalls: &GapStalls, gap: Gap) -> bool {
        let us = stalls.draw(gap, &mut self.random);
        if let Some(us) = us {
            self.stall(thread, us * 1000);
            if self.traces_switches {
                self.trace_at(self.now_ns, thread, &format!("is stalled for {us} us at {gap:?}"));
            }
        }
        us.is_some()
    }

    /// Draws the number of points that the chosen thread may pass before the next decision.
    pub(super) fn draw_points(&mut self) -> u32 {
        1 + self.random.below(2 * u64::from(self.schedule.points_mean())) as u32
    }

    /// Suspends the running thread. Returns the next thread to run, or `None` if no thread can run any more.
    pub(super) fn choose(&mut self, from: usize, yields: bool) -> Option<usize> {
        if self.steps > self.steps_max {
            self.failure = Some(Failure::StepLimit);
            return None;
        }
        self.pass_time(from, yields);
        if let Schedule::Stalls { stall_us_max, .. } = self.schedule
            && self.random.below(DECISIONS_PER_STALL) == 0
        {
            let (thread, us) =
                (self.random.below(self.threads.len() as u64), self.random.below(stall_us_max) + 1);
            self.stall(thread as usize, us * 1000);
        }
        let next = loop {
            if let Some(next) = self.pick(from, yields) {
                break next;
            }
            let Some(at) = self.next_moment() else {
                if self.running_count > 0 {
                    self.failure = Some(Failure::Deadlock);
                }
                return None;
            };
            self.now_ns = self.now_ns.max(at);
        };
        self.threads[next].state = ThreadState::Running;
        self.switches += u64::from(next != from);
        self.mix((from as u64) << 32 | next as u64);
        self.mix(self.steps);
        self.mix(self.now_ns);
        if self.traces_switches && next != from {
            let text = format!("switch to {}", self.threads[next].name);
            self.trace_at(self.now_ns, from, &text);
        }
        Some(next)
    }

    pub(super) fn trace_at(&mut self, now_ns: u64, thread: usize, text: &str) {
        if let Some(sink) = &mut self.trace {
            sink(now_ns / 1000, &self.threads[thread].name, text);
        }
    }

    fn pass_time(&mut self, from: usize, yields: bool) {
        // Threads that only spin wait for a stalled thread: time runs faster for them.
        self.yields_in_row = if yields { self.yields_in_row + 1 } else { 0 };
        let passed_ns = SWITCH_NS << (self.yields_in_row / 8).min(12);
        if passed_ns > SWITCH_NS && self.threads.iter().all(|thread| thread.stalled_until_ns <= self.now_ns) {
            // None is stalled: so the faster time is no work of theirs.
            self.stalls_ns += passed_ns - SWITCH_NS;
        }
        self.now_ns += passed_ns;
        let starved = self
            .threads
            .iter()
            .any(|thread| self.is_runnable(thread) && thread.ready_since_ns + STARVATION_NS < self.now_ns);
        let falls = yields || starved || matches!(self.threads[from].state, ThreadState::Ready);
        if matches!(self.schedule, Schedule::Priorities { .. }) && falls {
            self.lowest_priority -= 1;
            self.threads[from].priority = self.lowest_priority;
        }
    }

    fn is_runnable(&self, thread: &Thread) -> bool {
        matches!(thread.state, ThreadState::Ready) && thread.stalled_until_ns <= self.now_ns
    }

    /// Picks a runnable thread.
    fn pick(&mut self, from: usize, yields: bool) -> Option<usize> {
        self.end_waits();
        let mut able: Vec<usize> =
            (0..self.threads.len()).filter(|index| self.is_runnable(&self.threads[*index])).collect();
        if yields && able.len() > 1 {
            able.retain(|index| *index != from);
        }
        if able.is_empty() {
            return None;
        }
        if matches!(self.schedule, Schedule::Priorities { .. }) {
            return able.into_iter().max_by_key(|index| self.threads[*index].priority);
        }
        let place = self.random.below(able.len() as u64) as usize;
        Some(able[place])
    }

    /// Makes the threads ready whose condition is true or whose deadline has passed.
    fn end_waits(&mut self) {
        let now_ns = self.now_ns;
        for thread in &mut self.threads {
            let is_due = |deadline_ns: Option<u64>| deadline_ns.is_some_and(|at| at <= now_ns);
            let woken = match &mut thread.state {
                ThreadState::Blocked { deadline_ns, .. } if is_due(*deadline_ns) => false,
                ThreadState::Waiting { ready, deadline_ns } => {
                    // SAFETY: the owner of the closure is blocked in the call that owns it (2), and only this
                    // thread holds the scheduler's lock.
                    let is_ready = (unsafe { &mut *ready.0 })();
                    if !is_ready && !is_due(*deadline_ns) {
                        continue;
                    }
                    is_ready
                }
                _ => continue,
            };
            thread.wake(now_ns, woken);
        }
    }

    /// The next moment at which a thread becomes runnable by time alone.
    fn next_moment(&self) -> Option<u64> {
        let moments = self.threads.iter().filter_map(|thread| match thread.state {
            ThreadState::Ready => Some(thread.stalled_until_ns),
            ThreadState::Blocked { deadline_ns, .. } | ThreadState::Waiting { deadline_ns, .. } => {
                deadline_ns.map(|at| at.max(thread.stalled_until_ns))
            }
            ThreadState::Running | ThreadState::Ended => None,
        });
        moments.min()
    }

    /// Makes the threads blocked on `key` ready: all, or one that the seed chooses.
    pub(super) fn wake(&mut self, key: usize, all: bool) {
        let mut blocked: Vec<usize> = (0..self.threads.len())
            .filter(|index| matches!(self.threads[*index].state, ThreadState::Blocked { key: on, .. } if on == key))
            .collect();
        if !all && blocked.len() > 1 {
            let place = self.random.below(blocked.len() as u64) as usize;
            blocked = vec![blocked[place]];
        }
        let now_ns = self.now_ns;
        for index in blocked {
            self.threads[index].wake(now_ns, true);
        }
    }

    pub(super) fn reports(&self) -> Vec<ThreadReport> {
        let report = |thread: &Thread| {
            let until =
                |at: Option<u64>| at.map_or("no deadline".to_owned(), |at| format!("until {} us", at / 1000));
            let state = match &thread.state {
                ThreadState::Ready => "ready".to_owned(),
                ThreadState::Running => "running".to_owned(),
                ThreadState::Blocked { deadline_ns, .. } => format!("blocked, {}", until(*deadline_ns)),
                ThreadState::Waiting { deadline_ns, .. } => format!("waiting, {}", until(*deadline_ns)),
                ThreadState::Ended => "ended".to_owned(),
            };
            ThreadReport { name: thread.name.clone(), state }
        };
        self.threads.iter().map(report).collect()
    }
}

impl Thread {
    fn wake(&mut self, now_ns: u64, was_woken: bool) {
        self.state = ThreadState::Ready;
        self.was_woken = was_woken;
        self.ready_since_ns = now_ns;
    }

    /// Suspends the running thread and keeps it runnable.
    pub(super) fn make_ready(&mut self, now_ns: u64) {
        self.wake(now_ns, false);
    }
}
