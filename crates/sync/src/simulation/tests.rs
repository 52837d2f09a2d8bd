//! Programs with known faults, and the scheduler's findings.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::*;

/// Non-atomic additions by three threads.
fn lost_update(seed: u64) -> SimulationOutcome {
    let scheduler = Scheduler::new(seed, SchedulerOptions::default());
    scheduler.run(|| {
        let sum = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..3)
            .map(|index| {
                let sum = Arc::clone(&sum);
                let add = move || {
                    for _ in 0..10 {
                        point();
                        let before = sum.load(Relaxed);
                        point();
                        sum.store(before + 1, Relaxed);
                    }
                };
                spawn(&format!("adder {index}"), add).expect("a thread")
            })
            .collect();
        tasks.iter().for_each(Task::join);
        trace(|| format!("sum {}", sum.load(Relaxed)));
        assert_eq!(sum.load(Relaxed), 30, "an update is lost");
    })
}

#[test]
fn a_seed_repeats() {
    let digests: Vec<u64> = (0..20).map(|seed| lost_update(seed).digest).collect();
    let again: Vec<u64> = (0..20).map(|seed| lost_update(seed).digest).collect();
    assert_eq!(digests, again);
    assert!(digests.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn a_lost_update_is_found() {
    let found: Vec<SimulationOutcome> =
        (0..20).map(lost_update).filter(|outcome| outcome.failure.is_some()).collect();
    assert!(!found.is_empty());
    let Some(Failure::Panic { thread, message }) = &found[0].failure else { panic!("{found:?}") };
    assert_eq!(thread, "main");
    assert!(message.contains("an update is lost") && message.contains("tests.rs"), "{message}");
}

/// A thread panics; its destructor lets another thread run, which panics because of it.
#[test]
fn the_first_panic_is_reported() {
    struct Connection(Arc<AtomicBool>);
    impl Drop for Connection {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
            yield_now();
            sleep_us(1000);
        }
    }
    for seed in 0..20 {
        let outcome = Scheduler::new(seed, SchedulerOptions::default()).run(|| {
            let is_closed = Arc::new(AtomicBool::new(false));
            let connection = Connection(Arc::clone(&is_closed));
            let server = spawn("server", move || {
                let _held = connection;
                panic!("the cause");
            });
            while !is_closed.load(Relaxed) {
                sleep_us(10);
            }
            server.expect("a thread");
            panic!("a consequence");
        });
        let Some(Failure::Panic { thread, message }) = &outcome.failure else { panic!("{outcome:?}") };
        assert_eq!(thread, "server");
        assert!(message.contains("the cause") && message.contains("tests.rs"), "{message}");
    }
}

/// The flag is checked before the sleep is announced: a wake-up in between is lost.
fn lost_wake_up(seed: u64) -> SimulationOutcome {
    // The program has few points.
    let schedule = Some(Schedule::RandomWalk { points_mean: 2 });
    Scheduler::new(seed, SchedulerOptions { schedule, ..SchedulerOptions::default() }).run(|| {
        for key in 1..30 {
            let flag = Arc::new(AtomicBool::new(false));
            let shared = Arc::clone(&flag);
            let sleeper = spawn("sleeper", move || {
                if !shared.load(Relaxed) {
                    point();
                    block_on(key, None);
                }
            });
            let sleeper = sleeper.expect("a thread");
            flag.store(true, Relaxed);
            wake_all(key);
            sleeper.join();
        }
    })
}

#[test]
fn a_lost_wake_up_is_a_deadlock() {
    let found = (0..100).map(lost_wake_up).find(|outcome| outcome.failure.is_some());
    let outcome = found.expect("one seed in a hundred");
    assert_eq!(outcome.failure, Some(Failure::Deadlock));
    let states: Vec<_> =
        outcome.threads.iter().map(|thread| (thread.name.as_str(), thread.state.as_str())).collect();
    assert_eq!(states.first(), Some(&("main", "blocked, no deadline")));
    assert_eq!(states.last(), Some(&("sleeper", "blocked, no deadline")));
}

#[test]
fn time_passes_when_all_wait() {
    let outcome = Scheduler::new(7, SchedulerOptions::default()).run(|| {
        let before = monotonic_ns().expect("simulated");
        let is_set = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_set);
        let task = spawn("setter", move || {
            sleep_us(3_600_000_000);
            shared.store(true, Relaxed);
        });
        let deadline_us = before / 1000 + 1_000_000;
        assert!(!wait_until(Some(deadline_us), || is_set.load(Relaxed)));
        assert!(monotonic_ns().expect("simulated") / 1000 >= deadline_us);
        assert!(wait_until(None, || is_set.load(Relaxed)));
        assert!(monotonic_ns().expect("simulated") - before >= 3_600_000_000_000);
        task.expect("a thread").join();
        let wall = unix_micros().expect("simulated");
        step_wall_clock(-3_600_000_000);
        assert!((wall - unix_micros().expect("simulated")).abs_diff(3_600_000_000) < 1_000_000);
    });
    assert_eq!(outcome.failure, None);
}

#[test]
fn loops_end_at_the_step_limit() {
    let options = SchedulerOptions { steps_max: 10_000, ..SchedulerOptions::default() };
    let outcome = Scheduler::new(1, options).run(|| {
        loop {
            point();
        }
    });
    assert_eq!(outcome.failure, Some(Failure::StepLimit));
}

#[test]
fn yielding_lets_a_stalled_thread_resume() {
    let stalls = Schedule::Stalls { points_mean: 20, stall_us_max: 1_000_000 };
    for schedule in [stalls, Schedule::Priorities { points_mean: 100 }] {
        let options = SchedulerOptions {
            schedule: Some(schedule),
            steps_max: 1_000_000,
            ..SchedulerOptions::default()
        };
        let outcome = Scheduler::new(3, options).run(|| {
            let is_set = Arc::new(AtomicBool::new(false));
            let shared = Arc::clone(&is_set);
            let task = spawn("setter", move || shared.store(true, Relaxed)).expect("a thread");
            stall(task.id(), 1_000_000);
            while !is_set.load(Relaxed) {
                yield_now();
            }
        });
        assert_eq!(outcome.failure, None);
    }
}

/// Two non-atomic additions with a named gap inside, and a schedule that hardly ever switches there.
fn add_with_gap(percents: Vec<(Gap, u64)>) -> SimulationOutcome {
    let options = SchedulerOptions {
        schedule: Some(Schedule::RandomWalk { points_mean: 1_000_000 }),
        gap_stalls: GapStalls { percents, stall_us_max: 1000 },
        ..SchedulerOptions::default()
    };
    Scheduler::new(3, options).run(|| {
        let sum = Arc::new(AtomicU64::new(0));
        let tasks = [0, 1].map(|_| {
            let sum = Arc::clone(&sum);
            let add = move || {
                let before = sum.load(Relaxed);
                pass(Gap::ReceiverChosen);
                sum.store(before + 1, Relaxed);
            };
            spawn("adder", add).expect("a thread")
        });
        tasks.iter().for_each(Task::join);
        assert_eq!(sum.load(Relaxed), 2, "an update is lost");
    })
}

#[test]
fn threads_are_stalled_in_the_gaps_that_were_chosen() {
    assert_eq!(add_with_gap(Vec::new()).failure, None);
    assert_eq!(add_with_gap(vec![(Gap::LastCheck, 100), (Gap::ReceiverChosen, 0)]).failure, None);
    let stalled = add_with_gap(vec![(Gap::ReceiverChosen, 100)]);
    assert!(matches!(stalled.failure, Some(Failure::Panic { .. })));
    assert_eq!(stalled.digest, add_with_gap(vec![(Gap::ReceiverChosen, 100)]).digest);
}

const TORN_ADD: Fault = Fault::new("torn-add", "A lock-free addition is a load and a store.");

#[test]
fn extensions_and_traces_are_the_simulations() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let options = SchedulerOptions {
        trace: Some(Box::new(move |_, thread, text| {
            sink.lock().expect("not poisoned").push(format!("{thread}: {text}"));
        })),
        faults: vec![TORN_ADD],
        ..SchedulerOptions::default()
    };
    let scheduler = Scheduler::new(5, options);
    scheduler.set_extension(Arc::new(42_u32));
    let outcome = scheduler.run(|| {
        assert_eq!(extension::<u32>().as_deref(), Some(&42));
        assert!(extension::<u64>().is_none());
        assert!(planted(TORN_ADD) && !planted(crate::faults::KEPT_CHARGE));
        trace(|| "hello".to_owned());
    });
    assert_eq!(outcome.failure, None);
    assert_eq!(*lines.lock().expect("not poisoned"), ["main: hello"]);
    assert!(!planted(TORN_ADD) && random_u64().is_none() && !is_simulated());
}

/// A program with three threads and each lock, channel and clock of the shim: its runs are reproducible.
fn with_locks(seed: u64) -> SimulationOutcome {
    use crate::mpsc;
    Scheduler::new(seed, SchedulerOptions::default()).run(|| {
        let sum = Arc::new(crate::Mutex::new(0_u64));
        let names = Arc::new(crate::RwLock::new(Vec::new()));
        let gate = Arc::new((crate::Mutex::new(false), crate::Condvar::new()));
        let (sender, receiver) = mpsc::sync_channel(2);
        let workers: Vec<_> = (0..3_u64)
            .map(|index| {
                let (sum, names, gate) = (Arc::clone(&sum), Arc::clone(&names), Arc::clone(&gate));
                let sender = sender.clone();
                crate::thread::spawn(move || {
                    let mut is_open = gate.0.lock().expect("not poisoned");
                    while !*is_open {
                        is_open = gate.1.wait(is_open).expect("not poisoned");
                    }
                    drop(is_open);
                    for number in 0..20 {
                        let mut sum = sum.lock().expect("not poisoned");
                        let before = *sum;
                        point();
                        *sum = before + number;
                        drop(sum);
                        sender.send(number).expect("is received");
                    }
                    names.write().expect("not poisoned").push(index);
                    index
                })
            })
            .collect();
        drop(sender);
        *gate.0.lock().expect("not poisoned") = true;
        gate.1.notify_all();
        assert_eq!(receiver.iter().count(), 60);
        let ended: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
        assert_eq!((ended, names.read().expect("not poisoned").len()), (3, 3));
        assert_eq!(*sum.lock().expect("not poisoned"), 570);
        trace(|| format!("{:?}", names.read().expect("not poisoned")));
    })
}

#[test]
fn locks_hold_and_their_schedules_repeat() {
    for seed in 0..40 {
        let outcome = with_locks(seed);
        assert_eq!(outcome.failure, None, "seed {seed}");
        assert_eq!(outcome, with_locks(seed));
    }
}

#[test]
fn the_shim_works_outside_of_a_simulation() {
    let (sender, receiver) = crate::mpsc::channel();
    let gate = Arc::new((crate::Mutex::new(false), crate::Condvar::new()));
    let other = Arc::clone(&gate);
    let opener = crate::thread::spawn(move || {
        *other.0.lock().expect("not poisoned") = true;
        other.1.notify_all();
        sender.send(7).expect("is received");
    });
    let mut is_open = gate.0.lock().expect("not poisoned");
    while !*is_open {
        is_open = gate.1.wait(is_open).expect("not poisoned");
    }
    drop(is_open);
    assert_eq!(receiver.recv(), Ok(7));
    opener.join().expect("no panic");
    assert!(receiver.recv().is_err());
}
