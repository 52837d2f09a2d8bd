//! Models that loom runs through every interleaving (up to a bound on preemptions, where one is given):
//! `RUSTFLAGS="--cfg loom" cargo test -p sync --release --test loom`.
//!
//! Loom itself detects overlapping accesses to the data of a slot, unordered reads, and threads that wait for a
//! wake-up that never comes.
#![cfg(loom)]
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "loom/combining.rs"]
mod combining;
#[path = "loom/durable.rs"]
mod durable;
#[path = "loom/epochs.rs"]
mod epochs;
#[path = "loom/logs.rs"]
mod logs;
#[path = "loom/marks.rs"]
mod marks;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread::{self, JoinHandle};
use sync::{
    Claim, EndOrRequest, Guard, LatchTable, Mailbox, MemoryCharge, Mode, Parked, Passage, PutBack, TryServe,
    Wait,
};

fn explore(preemption_bound: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemption_bound;
    builder.check(model);
}

fn join(threads: [JoinHandle<()>; 2]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// One bell per token: the table rings it, and the model's thread that plays the session waits for it.
struct Bells {
    rung: Mutex<Vec<bool>>,
    changed: Condvar,
}

impl Bells {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Bells { rung: Mutex::new(vec![false; count]), changed: Condvar::new() })
    }

    fn ring(&self, token: usize) {
        let mut rung = self.rung.lock().unwrap();
        assert!(!rung[token], "token {token} is woken twice for one claim");
        rung[token] = true;
        self.changed.notify_all();
    }

    fn has_rung(&self, token: usize) -> bool {
        self.rung.lock().unwrap()[token]
    }

    /// Consumes one ring.
    fn wait(&self, token: usize) {
        let mut rung = self.rung.lock().unwrap();
        while !rung[token] {
            rung = self.changed.wait(rung).unwrap();
        }
        rung[token] = false;
    }
}

struct Model {
    table: LatchTable<(), usize>,
    bells: Arc<Bells>,
}

impl Model {
    fn new(slot_count: usize, token_count: usize) -> Arc<Self> {
        let bells = Bells::new(token_count);
        let ringer = bells.clone();
        let wake = move |token| ringer.ring(token as usize);
        Arc::new(Model { table: LatchTable::new(slot_count, |_| ((), 0), wake), bells })
    }

    /// Acquires a slot as a session does, on a thread without other work.
    fn latch(&self, slot: usize, mode: Mode, token: usize) -> Guard<'_, (), usize> {
        match self.table.park(slot, mode, token as u64) {
            Parked::Acquired(guard) => guard,
            Parked::Waiting => self.wait(slot, token),
        }
    }

    fn wait(&self, slot: usize, token: usize) -> Guard<'_, (), usize> {
        loop {
            self.bells.wait(token);
            match self.table.claim(slot, token as u64) {
                Claim::Acquired(guard) => return guard,
                Claim::Pending => {}
                Claim::NotWaiting => panic!("token {token} is no longer queued"),
            }
        }
    }

    fn increment(&self, slot: usize, token: usize) {
        let mut guard = self.latch(slot, Mode::Write, token);
        *guard.as_mut().unwrap() += 1;
    }

    /// Asserts that the queue is empty and that there was no needless wake-up.
    fn check_idle(&self, slot: usize) {
        let guard = self.table.try_write_now(slot).expect("all guards have been dropped");
        assert!(!guard.is_wanted());
        assert!(!self.bells.rung.lock().unwrap().contains(&true), "needless wake-up");
    }

    fn park(&self, slot: usize, mode: Mode, token: usize) {
        assert!(matches!(self.table.park(slot, mode, token as u64), Parked::Waiting));
    }
}

/// Newcomers only, without the lot: a holder is alone, or among readers.
#[test]
fn latch_excludes_newcomers() {
    explore(None, || {
        let model = Model::new(1, 0);
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || match model.table.try_write_now(0) {
                    Some(mut guard) => {
                        *guard += 1;
                        1
                    }
                    None => 0,
                })
            })
            .collect();
        if let Some(guard) = model.table.try_read_now(0) {
            assert!(*guard <= 2);
        }
        let written: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert_eq!(*model.table.try_read_now(0).unwrap(), written);
    });
}

#[test]
fn two_parked_writers_both_acquire() {
    explore(None, || {
        let model = Model::new(1, 2);
        let other = model.clone();
        let thread = thread::spawn(move || other.increment(0, 1));
        model.increment(0, 0);
        thread.join().unwrap();
        assert_eq!(*model.table.try_read_now(0).unwrap(), 2);
        model.check_idle(0);
    });
}

/// Three threads: a newcomer may overtake a waiter while another thread holds the latch.
#[test]
fn three_parked_writers_all_acquire() {
    explore(Some(4), || {
        let model = Model::new(1, 3);
        let others = [1, 2].map(|token| {
            let model = model.clone();
            thread::spawn(move || model.increment(0, token))
        });
        model.increment(0, 0);
        join(others);
        assert_eq!(*model.table.try_read_now(0).unwrap(), 3);
        model.check_idle(0);
    });
}

#[test]
fn parked_readers_and_writer_all_acquire() {
    explore(Some(4), || {
        let model = Model::new(1, 3);
        let (reader, writer) = (model.clone(), model.clone());
        let reader = thread::spawn(move || *reader.latch(0, Mode::Read, 1));
        let writer = thread::spawn(move || writer.increment(0, 2));
        assert!(*model.latch(0, Mode::Read, 0) <= 1);
        assert!(reader.join().unwrap() <= 1);
        writer.join().unwrap();
        assert_eq!(*model.table.try_read_now(0).unwrap(), 1);
        model.check_idle(0);
    });
}

/// Fast-path release against parking: the waiter is woken, or acquires, in any order.
#[test]
fn no_wake_up_is_lost_between_release_and_park() {
    for (held, wanted) in [(Mode::Write, Mode::Write), (Mode::Write, Mode::Read), (Mode::Read, Mode::Write)] {
        explore(None, move || {
            let model = Model::new(1, 1);
            let waiter = model.clone();
            let guard = model.table.try_latch(0, held).unwrap();
            let waiter = thread::spawn(move || drop(waiter.latch(0, wanted, 0)));
            drop(guard);
            waiter.join().unwrap();
            model.check_idle(0);
        });
    }
}

/// A waiter that failed a claim acquires the latch next, regardless of newcomers in the meantime.
#[test]
fn latch_is_handed_over_after_a_failed_claim() {
    explore(Some(3), || {
        let model = Model::new(1, 1);
        let guard = model.table.try_write_now(0).unwrap();
        model.park(0, Mode::Write, 0);
        assert!(matches!(model.table.claim(0, 0), Claim::Pending));
        let newcomers = [Mode::Read, Mode::Write].map(|mode| {
            let model = model.clone();
            thread::spawn(move || {
                if let Some(guard) = model.table.try_latch(0, mode) {
                    assert_eq!(*guard, 1, "a newcomer overtook a pending waiter");
                }
            })
        });
        drop(guard);
        model.bells.wait(0);
        let Claim::Acquired(mut guard) = model.table.claim(0, 0) else { panic!("not handed over") };
        *guard.as_mut().unwrap() += 1;
        drop(guard);
        join(newcomers);
    });
}

/// The first waiter cancels while it is being woken: the second waiter is woken instead.
#[test]
fn a_cancelled_waiter_wakes_the_next_one() {
    for second in [Mode::Write, Mode::Read] {
        explore(Some(5), move || {
            let model = Model::new(1, 2);
            let guard = model.table.try_write_now(0).unwrap();
            model.park(0, Mode::Write, 0);
            model.park(0, second, 1);
            let canceller = model.clone();
            let canceller = thread::spawn(move || canceller.table.cancel(0, 0));
            let waiter = model.clone();
            let waiter = thread::spawn(move || drop(waiter.wait(0, 1)));
            drop(guard);
            waiter.join().unwrap();
            canceller.join().unwrap();
            assert!(model.table.try_write_now(0).is_some());
        });
    }
}

/// As above, but the first waiter cancels while the latch is being granted to it.
#[test]
fn a_cancelled_waiter_releases_a_granted_latch() {
    explore(Some(5), || {
        let model = Model::new(1, 2);
        let guard = model.table.try_write_now(0).unwrap();
        model.park(0, Mode::Write, 0);
        assert!(matches!(model.table.claim(0, 0), Claim::Pending));
        model.park(0, Mode::Write, 1);
        let canceller = model.clone();
        let canceller = thread::spawn(move || canceller.table.cancel(0, 0));
        let waiter = model.clone();
        let waiter = thread::spawn(move || drop(waiter.wait(0, 1)));
        drop(guard);
        waiter.join().unwrap();
        canceller.join().unwrap();
        assert!(model.table.try_write_now(0).is_some());
    });
}

/// A grant is taken back while its waiter claims: the latch has one holder, and both waiters acquire it.
#[test]
fn a_grant_is_claimed_or_taken_back() {
    explore(Some(3), || {
        let model = Model::new(1, 2);
        let guard = model.table.try_write_now(0).unwrap();
        model.park(0, Mode::Write, 0);
        assert!(matches!(model.table.claim(0, 0), Claim::Pending));
        model.park(0, Mode::Write, 1);
        drop(guard);
        // Granted to token 0, and seen once.
        model.table.take_back(0, 0);
        let threads = [0, 1].map(|token| {
            let model = model.clone();
            thread::spawn(move || *model.wait(0, token).as_mut().unwrap() += 1)
        });
        model.table.take_back(0, 100);
        join(threads);
        assert_eq!(*model.table.try_write_now(0).expect("all guards have been dropped"), 2);
        model.check_idle(0);
    });
}

/// Two slots in ascending order; the first is held while waiting for the second.
#[test]
fn ascending_order_never_deadlocks() {
    explore(None, || {
        let model = Model::new(2, 2);
        let both = |model: &Model, token| {
            let mut first = model.latch(0, Mode::Write, token);
            let mut second = model.latch(1, Mode::Write, token);
            *first.as_mut().unwrap() += 1;
            *second.as_mut().unwrap() += 1;
        };
        let other = model.clone();
        let thread = thread::spawn(move || both(&other, 1));
        both(&model, 0);
        thread.join().unwrap();
        assert_eq!(*model.table.try_read_now(0).unwrap() + *model.table.try_read_now(1).unwrap(), 4);
        model.check_idle(0);
        model.check_idle(1);
    });
}

/// Two producers and one owner that sleeps whenever there is no mail. All messages arrive, those of each
/// producer in order, with all writes made before posting. An owner that is awake is not woken.
#[test]
fn mailbox_loses_no_wake_up_and_keeps_order() {
    const MESSAGE_COUNTS: [usize; 2] = [2, 1];
    explore(Some(2), || {
        let mailbox = Arc::new(Mailbox::new());
        let bell = Bells::new(1);
        let producers = [0, 1].map(|producer| {
            let (mailbox, bell) = (mailbox.clone(), bell.clone());
            thread::spawn(move || {
                for message in 0..MESSAGE_COUNTS[producer] {
                    let content = UnsafeCell::new(0);
                    // SAFETY: the content is not shared yet.
                    content.with_mut(|content| unsafe { *content = message });
                    if mailbox.post((producer, content)).expect("the mailbox is open") {
                        bell.ring(0);
                    }
                }
            })
        });
        let mut expected = [0; 2];
        let mut messages = Vec::new();
        while expected != MESSAGE_COUNTS {
            mailbox.drain(&mut messages);
            for (producer, content) in messages.drain(..) {
                // SAFETY: the thread that wrote it has posted it.
                let message = content.with(|content| unsafe { *content });
                assert_eq!(message, expected[producer]);
                expected[producer] += 1;
            }
            if expected != MESSAGE_COUNTS && mailbox.prepare_sleep() {
                bell.wait(0);
                mailbox.awake();
            }
        }
        join(producers);
        assert_eq!(mailbox.unread_count(), 0);
    });
}

/// The owner wakes for another reason while mail arrives: one surplus wake-up is possible, a lost one is not.
#[test]
fn mailbox_owner_may_wake_by_itself() {
    explore(None, || {
        let mailbox = Arc::new(Mailbox::new());
        let bell = Bells::new(1);
        let producer = {
            let (mailbox, bell) = (mailbox.clone(), bell.clone());
            thread::spawn(move || {
                if mailbox.post(()).expect("the mailbox is open") {
                    bell.ring(0);
                }
            })
        };
        if mailbox.prepare_sleep() {
            mailbox.awake();
        }
        let mut messages = Vec::new();
        mailbox.drain(&mut messages);
        if messages.is_empty() && mailbox.prepare_sleep() {
            bell.wait(0);
            mailbox.awake();
        }
        mailbox.drain(&mut messages);
        assert_eq!(messages.len(), 1);
        producer.join().unwrap();
    });
}

/// The owner ends while two producers post: a message is drained, or returned to its sender, which then sees
/// the owner's writes before it closed.
#[test]
fn a_closing_mailbox_loses_no_message() {
    explore(Some(3), || {
        let mailbox = Arc::new(Mailbox::new());
        let successor = Arc::new(AtomicUsize::new(0));
        let producers = [0, 1].map(|_| {
            let (mailbox, successor) = (mailbox.clone(), successor.clone());
            thread::spawn(move || match mailbox.post(()) {
                Ok(wakes) => {
                    assert!(!wakes, "the owner is awake");
                    0
                }
                Err(()) => {
                    assert_eq!(successor.load(Ordering::Relaxed), 7);
                    1
                }
            })
        });
        successor.store(7, Ordering::Relaxed);
        let mut messages = Vec::new();
        loop {
            mailbox.drain(&mut messages);
            if mailbox.close() {
                break;
            }
        }
        let returned: usize = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
        assert_eq!(messages.len() + returned, 2);
        mailbox.drain(&mut messages);
        assert_eq!(messages.len() + returned, 2, "a closed mailbox is empty");
    });
}
/// For any interleaving of an owner's steps and two releases of a memory charge, all changes add up to 0.
#[test]
fn steps_of_a_memory_charge_add_up() {
    explore(Some(3), || {
        let memory_charge = Arc::new(MemoryCharge::new());
        let take = || {
            let memory_charge = Arc::clone(&memory_charge);
            thread::spawn(move || 0u64.wrapping_sub(memory_charge.release()))
        };
        let takers = [take(), take()];
        let set = memory_charge.set(5).wrapping_add(memory_charge.set(3));
        let sum = takers.into_iter().fold(set, |sum, taker| sum.wrapping_add(taker.join().unwrap()));
        assert!(memory_charge.is_released());
        assert_eq!((memory_charge.value(), sum), (0, 0));
    });
}

/// A blocked client is served, times out and is killed at the same instant: exactly one of these ends the wait.
/// A request to end it during an unsuccessful serve is honoured and reported.
#[test]
fn a_wait_is_ended_exactly_once() {
    for satisfied in [false, true] {
        explore(None, move || {
            let wait = Arc::new(Wait::new());
            let ended = Arc::new(AtomicUsize::new(0));
            let end = {
                let (wait, ended) = (wait.clone(), ended.clone());
                thread::spawn(move || {
                    if wait.try_end() {
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                })
            };
            let owner = {
                let (wait, ended) = (wait.clone(), ended.clone());
                thread::spawn(move || {
                    if wait.end_or_request() == EndOrRequest::Ended {
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                })
            };
            if wait.try_serve() == TryServe::Claimed {
                if satisfied {
                    wait.served();
                    ended.fetch_add(1, Ordering::Relaxed);
                } else if wait.put_back() == PutBack::Ended {
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            }
            join([end, owner]);
            assert!(wait.is_over());
            assert_eq!(ended.load(Ordering::Relaxed), 1);
        });
    }
}

/// Two writers satisfy one waiter with different keys: the second serves the waiter that the first put back.
/// Two writers never serve it at once.
#[test]
fn a_wait_is_served_by_one_writer_at_a_time() {
    explore(None, || {
        let wait = Arc::new(Wait::new());
        let served = Arc::new(UnsafeCell::new(0));
        let serve = |satisfied: bool| {
            let (wait, served) = (wait.clone(), served.clone());
            move || {
                if wait.try_serve() != TryServe::Claimed {
                    return;
                }
                // SAFETY: the claim excludes all other threads, which loom checks.
                served.with_mut(|count| unsafe { *count += 1 });
                if satisfied {
                    wait.served();
                } else {
                    assert_eq!(wait.put_back(), PutBack::Waiting);
                }
            }
        };
        let threads = [thread::spawn(serve(true)), thread::spawn(serve(false))];
        join(threads);
    });
}

/// Two publishers post to the list they have read. After the wait, the thread that changes the list has all
/// mail posted by the old one.
#[test]
fn later_publishers_read_the_new_list() {
    explore(Some(3), || {
        let passage = Arc::new(Passage::new(2));
        let list = Arc::new(AtomicUsize::new(0));
        let old_mail = Arc::new(AtomicUsize::new(0));
        let publishers = [0, 1].map(|lane| {
            let (passage, list, old_mail) = (Arc::clone(&passage), Arc::clone(&list), Arc::clone(&old_mail));
            thread::spawn(move || {
                let _inside = passage.enter(lane);
                if list.load(Ordering::Relaxed) == 0 {
                    old_mail.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        list.store(1, Ordering::Relaxed);
        passage.await_inside();
        let seen = old_mail.load(Ordering::Relaxed);
        join(publishers);
        assert_eq!(old_mail.load(Ordering::Relaxed), seen, "mail for the old list arrived after the wait");
    });
}

/// While a passage is closed, no thread is inside.
#[test]
fn no_thread_is_inside_a_closed_passage() {
    explore(Some(3), || {
        let passage = Arc::new(Passage::new(1));
        let inside = Arc::new(UnsafeCell::new(0));
        let publisher = {
            let (passage, inside) = (Arc::clone(&passage), Arc::clone(&inside));
            thread::spawn(move || {
                let _inside = passage.enter(0);
                // SAFETY: loom checks that no other thread is inside.
                inside.with_mut(|value| unsafe { *value += 1 });
            })
        };
        {
            let _closed = passage.close();
            // SAFETY: as above.
            inside.with_mut(|value| unsafe { *value += 1 });
        }
        publisher.join().unwrap();
    });
}
