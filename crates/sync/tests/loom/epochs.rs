//! Models of epochs: one thread unlinks and frees memory that others read without a latch.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use sync::epoch::Domain;

use super::{explore, join};

/// A shared pointer to one of several pieces of memory. Freeing a piece is modelled as a write to it, so that
/// loom detects remaining readers.
struct Pieces {
    current: AtomicUsize,
    pieces: Vec<UnsafeCell<usize>>,
    domain: Domain<usize>,
}

impl Pieces {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Pieces {
            current: AtomicUsize::new(0),
            pieces: (0..count).map(UnsafeCell::new).collect(),
            domain: Domain::with_places(2),
        })
    }

    fn read(&self) {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: the property under test: the piece has not been freed.
        self.pieces[current].with(|piece| assert_eq!(unsafe { *piece }, current));
    }

    fn replace_by(&self, next: usize) {
        let old = self.current.swap(next, Ordering::AcqRel);
        self.domain.retire(old);
    }

    fn collect(&self) -> usize {
        let mut garbage = Vec::new();
        self.domain.collect(&mut garbage);
        for &piece in &garbage {
            // SAFETY: the property under test: no thread can read the piece any more.
            self.pieces[piece].with_mut(|piece| unsafe { *piece = usize::MAX });
        }
        garbage.len()
    }
}

#[test]
fn garbage_is_kept_until_a_participant_is_quiescent() {
    explore(None, || {
        let pieces = Pieces::new(2);
        let reader = pieces.clone();
        let reader = thread::spawn(move || {
            let participant = reader.domain.register().unwrap();
            reader.read();
            reader.read();
            participant.quiescent();
            reader.read();
        });
        pieces.replace_by(1);
        pieces.collect();
        pieces.collect();
        reader.join().unwrap();
        pieces.collect();
        assert_eq!(pieces.domain.garbage_count(), 0);
    });
}

/// A participant comes online: it must not still see the garbage if the collector does not see it.
#[test]
fn garbage_is_kept_for_a_participant_coming_online() {
    explore(None, || {
        let pieces = Pieces::new(2);
        let reader = pieces.clone();
        let reader = thread::spawn(move || {
            let participant = reader.domain.register().unwrap();
            participant.offline();
            participant.online();
            reader.read();
            participant.offline();
        });
        pieces.replace_by(1);
        pieces.collect();
        reader.join().unwrap();
        pieces.collect();
        assert_eq!(pieces.domain.garbage_count(), 0);
    });
}

/// A collector that did not unlink the garbage itself, and garbage that is retired during the collection.
#[test]
fn garbage_may_be_collected_by_another_thread() {
    explore(Some(3), || {
        let pieces = Pieces::new(3);
        let unlinker = pieces.clone();
        let unlinker = thread::spawn(move || {
            unlinker.replace_by(1);
            unlinker.replace_by(2);
        });
        let reader = pieces.clone();
        let reader = thread::spawn(move || {
            let participant = reader.domain.register().unwrap();
            reader.read();
            participant.quiescent();
            reader.read();
        });
        pieces.collect();
        pieces.collect();
        unlinker.join().unwrap();
        reader.join().unwrap();
        pieces.collect();
        pieces.collect();
        assert_eq!(pieces.domain.garbage_count(), 0);
    });
}

/// A place that passes to another participant preserves the order of its previous owner's reads.
#[test]
fn garbage_is_kept_for_the_previous_participant() {
    explore(Some(3), || {
        let pieces = Pieces::new(2);
        let readers = [0, 1].map(|_| {
            let reader = pieces.clone();
            thread::spawn(move || {
                if let Some(_participant) = reader.domain.register() {
                    reader.read();
                }
            })
        });
        pieces.replace_by(1);
        pieces.collect();
        pieces.collect();
        join(readers);
    });
}

/// The handling of a segment by tables and hints, as in the code. A writer replaces the segment, updates the
/// hint, and only then adds it to its heap's list. Another thread moves it from there to the domain, and
/// collects.
struct Hinted {
    hint: Pieces,
    /// The heap's retired segments.
    retired: Mutex<Vec<usize>>,
}

impl Hinted {
    fn new() -> Arc<Self> {
        let pieces = Pieces {
            current: AtomicUsize::new(0),
            pieces: (0..2).map(UnsafeCell::new).collect(),
            domain: Domain::with_places(2),
        };
        Arc::new(Hinted { hint: pieces, retired: Mutex::new(Vec::new()) })
    }

    /// A command, under the latch of its slot. `planted` selects the former, wrong order.
    fn replace_by(&self, next: usize, planted: bool) {
        let old = self.hint.current.load(Ordering::Relaxed);
        let publish = || self.hint.current.store(next, Ordering::Release);
        if !planted {
            publish();
        }
        self.retired.lock().unwrap().push(old);
        if planted {
            publish();
        }
    }

    /// A thread's work in each turn.
    fn reclaim(&self) {
        let retired = std::mem::take(&mut *self.retired.lock().unwrap());
        retired.into_iter().for_each(|piece| self.hint.domain.retire(piece));
        self.hint.collect();
    }
}

fn explore_hinted(planted: bool) {
    explore(Some(3), move || {
        let hinted = Hinted::new();
        let writer = hinted.clone();
        let writer = thread::spawn(move || {
            let participant = writer.hint.domain.register().unwrap();
            writer.replace_by(1, planted);
            participant.quiescent();
        });
        let reader = hinted.clone();
        let reader = thread::spawn(move || {
            let participant = reader.hint.domain.register().unwrap();
            participant.quiescent();
            reader.hint.read();
        });
        hinted.reclaim();
        hinted.reclaim();
        join([writer, reader]);
    });
}

#[test]
fn a_segment_is_unlinked_before_it_is_retired() {
    explore_hinted(false);
}

/// The former, wrong order, to prove that the model detects it.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_segment_that_is_retired_before_it_is_unlinked_is_noticed() {
    explore_hinted(true);
}
