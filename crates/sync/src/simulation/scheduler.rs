//! The scheduler's interface for threads: operating system threads that pass one baton around.
//!
//! A point decrements a thread-local countdown. At zero, the thread takes the scheduler's lock, lets [`Core`]
//! choose the next thread, passes the baton and waits for it.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use super::core::{Core, Failure, POINT_NS, Ready, SimulationOutcome, ThreadState};
use super::policy::{GapStalls, Schedule};
use super::{Fault, Gap};

/// Receives virtual microseconds, the thread's name and the text of each event.
pub type TraceSink = Box<dyn FnMut(u64, &str, &str) + Send>;

/// Virtual monotonic time at the start.
const START_NS: u64 = 1_000_000_000;
/// Real time after which a thread without points counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Settings of a simulation.
pub struct SchedulerOptions {
    /// `None`: chosen by the seed.
    pub schedule: Option<Schedule>,
    /// Additional stalls in selected gaps.
    pub gap_stalls: GapStalls,
    /// The maximum number of points; more are a failure.
    pub steps_max: u64,
    /// Unix time at the start, in microseconds.
    pub start_unix_us: i64,
    /// Defects to enable.
    pub faults: Vec<Fault>,
    /// Receives a readable trace.
    pub trace: Option<TraceSink>,
    /// Whether the trace includes switches.
    pub traces_switches: bool,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            schedule: None,
            gap_stalls: GapStalls::default(),
            steps_max: 2_000_000_000,
            start_unix_us: 1_750_000_000_000_000,
            faults: Vec::new(),
            trace: None,
            traces_switches: false,
        }
    }
}

/// One simulation.
pub struct Scheduler {
    seed: u64,
    core: Mutex<Core>,
    over: Condvar,
    batons: Mutex<Vec<Arc<Baton>>>,
    /// Virtual time when the running thread got the baton.
    granted_ns: AtomicU64,
    /// Unix time minus monotonic time, in microseconds.
    wall_offset_us: AtomicI64,
    faults: Vec<Fault>,
    gap_stalls: GapStalls,
    /// The first panic. While it unwinds, destructors pass points, and its consequences may end other threads.
    first_panic: Mutex<Option<Failure>>,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// A thread's wait for the baton, while another thread runs.
#[derive(Default)]
struct Baton {
    is_here: AtomicBool,
    points: AtomicU32,
    thread: OnceLock<std::thread::Thread>,
}

struct Local {
    scheduler: Arc<Scheduler>,
    id: usize,
    baton: Arc<Baton>,
}

thread_local! {
    /// Points left before the next decision; 0 disables points.
    static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
    /// Points that the thread may pass with this baton.
    static GRANTED: Cell<u32> = const { Cell::new(0) };
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_local<R>(f: impl FnOnce(&Local) -> R) -> Option<R> {
    LOCAL.try_with(|local| local.borrow().as_ref().map(f)).ok().flatten()
}

fn local() -> Option<(Arc<Scheduler>, usize)> {
    with_local(|local| (Arc::clone(&local.scheduler), local.id))
}

impl Scheduler {
    /// Creates a simulation that is not running yet.
    #[must_use]
    pub fn new(seed: u64, options: SchedulerOptions) -> Arc<Self> {
        let mut core = Core::new(seed, options.schedule, options.steps_max, START_NS);
        core.trace = options.trace;
        core.traces_switches = options.traces_switches;
        Arc::new(Scheduler {
            seed,
            core: Mutex::new(core),
            over: Condvar::new(),
            batons: Mutex::default(),
            granted_ns: AtomicU64::new(START_NS),
            wall_offset_us: AtomicI64::new(options.start_unix_us - (START_NS / 1000) as i64),
            faults: options.faults,
            gap_stalls: options.gap_stalls,
            first_panic: Mutex::default(),
            extensions: Mutex::default(),
        })
    }

    /// Sets the object that [`extension`] returns for its type.
    pub fn set_extension<T: Any + Send + Sync>(&self, object: Arc<T>) {
        lock(&self.extensions).insert(TypeId::of::<T>(), object);
    }

    /// Runs `main` as the first simulated thread. Returns when it and all threads it started have ended, or at
    /// the first failure. Call it once, from a thread outside the simulation.
    pub fn run(self: &Arc<Self>, main: impl FnOnce() + Send + 'static) -> SimulationOutcome {
        assert!(!is_simulated(), "a simulation can't run inside another one");
        hook_panics();
        if let Err(error) = self.start("main".to_owned(), main) {
            panic!("no thread for the simulation: {error}");
        }
        let mut core = lock(&self.core);
        if let Some(next) = core.choose(0, false) {
            self.grant(&mut core, next);
        }
        let mut steps = core.switches;
        while !core.is_over {
            let (guard, wait) =
                self.over.wait_timeout(core, STUCK_AFTER).unwrap_or_else(PoisonError::into_inner);
            core = guard;
            if wait.timed_out() && !core.is_over && steps == core.switches {
                core.failure = Some(Failure::Stuck);
                core.is_over = true;
            }
            steps = core.switches;
        }
        SimulationOutcome {
            seed: self.seed,
            schedule: core.schedule,
            failure: core.failure.clone(),
            digest: core.digest,
            steps: core.steps,
            switches: core.switches,
            virtual_us: (core.now_ns - START_NS) / 1000,
            threads: core.reports(),
        }
    }

    fn start(self: &Arc<Self>, name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<usize> {
        let id = lock(&self.core).add(name.clone());
        let baton = Arc::new(Baton::default());
        lock(&self.batons).push(Arc::clone(&baton));
        let (scheduler, own) = (Arc::clone(self), Arc::clone(&baton));
        let run = move || {
            own.wait();
            LOCAL.set(Some(Local { scheduler: Arc::clone(&scheduler), id, baton: own }));
            let ended = std::panic::catch_unwind(AssertUnwindSafe(body));
            scheduler.end(id, ended.err());
        };
        let thread = match std::thread::Builder::new().name(name).spawn(run) {
            Ok(thread) => thread,
            Err(error) => {
                lock(&self.core).withdraw(id);
                return Err(error);
            }
        };
        baton.thread.get_or_init(|| thread.thread().clone());
        Ok(id)
    }

    fn end(&self, id: usize, panic: Option<Box<dyn Any + Send>>) {
        let points = GRANTED.get().saturating_sub(COUNTDOWN.replace(0));
        let mut core = lock(&self.core);
        core.account(points);
        core.threads[id].state = ThreadState::Ended;
        core.running_count -= 1;
        core.wake(self.key_of_end(id), true);
        if let Some(payload) = panic {
            let thread = core.threads[id].name.clone();
            core.failure = Some(Failure::Panic { thread, message: text_of(&*payload) });
        }
        if core.failure.is_none()
            && let Some(next) = core.choose(id, false)
        {
            self.grant(&mut core, next);
        } else {
            self.finish(&mut core);
        }
        drop(core);
        LOCAL.take();
    }

    fn finish(&self, core: &mut Core) {
        if let Some(cause) = lock(&self.first_panic).take() {
            core.failure = Some(cause);
        }
        core.is_over = true;
        self.over.notify_all();
    }

    /// The key that blocks threads waiting for the end of a thread. It is not the address of a lock.
    fn key_of_end(&self, id: usize) -> usize {
        usize::MAX - id
    }

    fn grant(&self, core: &mut Core, next: usize) {
        let baton = Arc::clone(&lock(&self.batons)[next]);
        baton.points.store(core.draw_points(), Ordering::Relaxed);
        self.granted_ns.store(core.now_ns, Ordering::Relaxed);
        baton.pass();
    }

    /// Passes the baton from the calling thread to another one. Returns when the caller has it again.
    fn switch(&self, id: usize, state: ThreadState, yields: bool) -> bool {
        let points = GRANTED.get().saturating_sub(COUNTDOWN.replace(0));
        let mut core = lock(&self.core);
        core.account(points);
        let now_ns = core.now_ns;
        match state {
            ThreadState::Ready => core.threads[id].make_ready(now_ns),
            state => core.threads[id].state = state,
        }
        match core.choose(id, yields) {
            Some(next) if next == id => {
                self.granted_ns.store(core.now_ns, Ordering::Relaxed);
                let points = core.draw_points();
                GRANTED.set(points);
                COUNTDOWN.set(points);
                return core.threads[id].was_woken;
            }
            Some(next) => self.grant(&mut core, next),
            None => self.finish(&mut core),
        }
        drop(core);
        let baton = with_local(|local| Arc::clone(&local.baton)).expect("the thread is simulated");
        baton.wait();
        lock(&self.core).threads[id].was_woken
    }

    fn now_ns(&self) -> u64 {
        let points = GRANTED.get().saturating_sub(COUNTDOWN.get());
        self.granted_ns.load(Ordering::Relaxed) + u64::from(points) * POINT_NS
    }
}

impl Baton {
    fn pass(&self) {
        self.is_here.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Waits for the baton; for ever, if the simulation has ended.
    fn wait(&self) {
        while !self.is_here.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
        let points = self.points.load(Ordering::Relaxed);
        GRANTED.set(points);
        COUNTDOWN.set(points);
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Redirects panics of simulated threads, with their location, to the outcome instead of the standard error.
fn hook_panics() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some((scheduler, _)) = local() {
                let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
                let message = format!("{}{place}", text_of(panic.payload()));
                let thread = std::thread::current().name().unwrap_or_default().to_owned();
                lock(&scheduler.first_panic).get_or_insert(Failure::Panic { thread, message });
            } else {
                others(panic);
            }
        }));
    });
}

/// A started thread.
pub struct Task {
    scheduler: Arc<Scheduler>,
    id: usize,
}

impl Task {
    /// Blocks until the thread has ended.
    pub fn join(&self) {
        let key = self.scheduler.key_of_end(self.id);
        while !self.has_ended() {
            block_on(key, None);
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(lock(&self.scheduler.core).threads[self.id].state, ThreadState::Ended)
    }

    /// The thread's number, for [`stall`].
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }
}

/// The simulation that the calling thread belongs to.
#[must_use]
pub fn current() -> Option<Arc<Scheduler>> {
    local().map(|(scheduler, _)| scheduler)
}

/// Whether the calling thread belongs to a simulation.
#[must_use]
pub fn is_simulated() -> bool {
    with_local(|_| ()).is_some()
}

/// The simulation's extension of this type, if it was set.
#[must_use]
pub fn extension<T: Any + Send + Sync>() -> Option<Arc<T>> {
    let object = with_local(|local| lock(&local.scheduler.extensions).get(&TypeId::of::<T>()).cloned());
    object.flatten()?.downcast().ok()
}

/// Starts another thread in the caller's simulation.
///
/// # Errors
/// The operating system can't start a thread, or the caller belongs to no simulation.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<Task> {
    let Some((scheduler, _)) = local() else {
        return Err(std::io::Error::other("the thread belongs to no simulation"));
    };
    let id = scheduler.start(name.to_owned(), body)?;
    point();
    Ok(Task { scheduler, id })
}

/// A scheduling point: another thread may run here.
#[inline]
pub fn point() {
    let left = COUNTDOWN.get();
    if left > 1 {
        COUNTDOWN.set(left - 1);
    } else if left == 1 {
        decide(false);
    }
}

#[cold]
fn decide(yields: bool) {
    if let Some((scheduler, id)) = local() {
        scheduler.switch(id, ThreadState::Ready, yields);
    }
}

/// For how long threads were stalled so far, in microseconds: the sum of all threads, and by how much time ran faster while they
/// only yielded; 0 outside a simulation.
#[must_use]
pub fn stalled_us() -> u64 {
    local().map_or(0, |(scheduler, _)| lock(&scheduler.core).stalled_ns() / 1000)
}

/// A named scheduling point. If the options select the gap, the thread may be stalled here for long.
pub fn pass(gap: Gap) {
    point();
    // A thread without points can't release the processor.
    if COUNTDOWN.get() == 0 {
        return;
    }
    let Some((scheduler, id)) = local() else { return };
    let stalls = &scheduler.gap_stalls;
    if stalls.percents.iter().any(|(chosen, _)| *chosen == gap) && lock(&scheduler.core).pass(id, stalls, gap)
    {
        scheduler.switch(id, ThreadState::Ready, false);
    }
}

/// Runs another thread, if any is runnable. Outside a simulation, and where points are disabled, yields to the
/// operating system.
pub fn yield_now() {
    if COUNTDOWN.get() == 0 {
        std::thread::yield_now();
    } else {
        decide(true);
    }
}

/// Runs `f` without scheduling points, e.g. an initialisation during which other threads would block their
/// operating system threads.
pub fn without_points<R>(f: impl FnOnce() -> R) -> R {
    let (countdown, granted) = (COUNTDOWN.replace(0), GRANTED.get());
    // The clock uses the difference between the two.
    GRANTED.set(granted - countdown);
    let result = f();
    COUNTDOWN.set(countdown);
    GRANTED.set(granted);
    result
}

/// Blocks until `ready()` is true, or until `deadline_us` of the monotonic clock. Returns whether it is ready.
/// `ready` may not block or reach points; see the module's rules.
///
/// # Panics
/// The caller belongs to no simulation.
pub fn wait_until(deadline_us: Option<u64>, mut ready: impl FnMut() -> bool + Send) -> bool {
    point();
    let (scheduler, id) = local().expect("the thread is simulated");
    if without_points(&mut ready) {
        return true;
    }
    let ready: *mut (dyn FnMut() -> bool + Send + '_) = &raw mut ready;
    // SAFETY: the types differ only in the closure's lifetime. The closure is called only while this thread is
    // blocked in `switch`, which returns after the thread's state has changed; then no copy of the pointer is
    // left.
    let ready: *mut (dyn FnMut() -> bool + Send + 'static) = unsafe { std::mem::transmute(ready) };
    let deadline_ns = deadline_us.map(|at| at.saturating_mul(1000));
    scheduler.switch(id, ThreadState::Waiting { ready: Ready(ready), deadline_ns }, false)
}

/// Blocks until [`wake_all`] or [`wake_one`] of the key, or until `deadline_us` of the monotonic clock. Returns
/// whether it was woken.
///
/// # Panics
/// The caller belongs to no simulation.
pub fn block_on(key: usize, deadline_us: Option<u64>) -> bool {
    let (scheduler, id) = local().expect("the thread is simulated");
    let deadline_ns = deadline_us.map(|at| at.saturating_mul(1000));
    scheduler.switch(id, ThreadState::Blocked { key, deadline_ns }, false)
}

/// Wakes all threads of the simulation that are blocked on the key.
pub fn wake_all(key: usize) {
    with_local(|local| lock(&local.scheduler.core).wake(key, true));
}

/// Wakes one thread that is blocked on the key.
pub fn wake_one(key: usize) {
    with_local(|local| lock(&local.scheduler.core).wake(key, false));
}

/// Blocks for a span of virtual time.
///
/// # Panics
/// The caller belongs to no simulation.
pub fn sleep_us(us: u64) {
    let now_ns = monotonic_ns().expect("the thread is simulated");
    // No lock has address 0.
    block_on(0, Some(now_ns.div_ceil(1000).saturating_add(us)));
}

/// Excludes a thread, given by its number in start order, from scheduling for a span of virtual time.
pub fn stall(thread: usize, us: u64) {
    with_local(|local| lock(&local.scheduler.core).stall(thread, us.saturating_mul(1000)));
    point();
}

/// Nanoseconds of the virtual monotonic clock; `None` outside a simulation. A scheduling point.
#[must_use]
pub fn monotonic_ns() -> Option<u64> {
    point();
    with_local(|local| local.scheduler.now_ns())
}

/// Microseconds of the virtual wall clock since the Unix epoch; `None` outside a simulation. A scheduling point.
#[must_use]
pub fn unix_micros() -> Option<i64> {
    point();
    with_local(|local| {
        let scheduler = &local.scheduler;
        (scheduler.now_ns() / 1000) as i64 + scheduler.wall_offset_us.load(Ordering::Relaxed)
    })
}

/// Steps the wall clock.
pub fn step_wall_clock(delta_us: i64) {
    with_local(|local| local.scheduler.wall_offset_us.fetch_add(delta_us, Ordering::Relaxed));
    trace(|| format!("wall clock steps by {delta_us} us"));
}

/// The next random number of the seed; `None` outside a simulation.
#[must_use]
pub fn random_u64() -> Option<u64> {
    with_local(|local| lock(&local.scheduler.core).numbers.next())
}

/// Adds an event to the digest and the readable trace.
pub fn trace(text: impl FnOnce() -> String) {
    let Some((scheduler, id)) = local() else { return };
    let text = without_points(text);
    let now_ns = scheduler.now_ns();
    let mut core = lock(&scheduler.core);
    core.mix(id as u64);
    core.mix(now_ns);
    core.mix_text(&text);
    core.trace_at(now_ns, id, &text);
}

/// Whether a defect is enabled in the caller's simulation.
#[must_use]
pub fn planted(fault: Fault) -> bool {
    with_local(|local| local.scheduler.faults.contains(&fault)).unwrap_or(false)
}
