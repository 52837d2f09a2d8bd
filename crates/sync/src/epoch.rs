//! Epoch-based reclamation: frees memory that other threads read without a latch once all of them have been
//! quiescent.
//!
//! A [`Participant`] is a thread that may hold pointers to shared memory between two calls of
//! [`Participant::quiescent`]. It makes that call once each turn of its loop, where it holds no pointers. A
//! thread that unlinks memory passes it to [`Domain::retire`]; [`Domain::collect`] returns it once all
//! participants have been quiescent since, or are offline.
//!
//! Owns the retired garbage. Invariants:
//! 1. The epoch only grows, and is at least `FIRST_EPOCH`.
//! 2. A batch's epoch is not before the epoch in which its garbage was unlinked, and the epoch was advanced
//!    after that.
//! 3. A place holds an epoch that the participant has seen while it held no pointers. A participant that has
//!    seen a later epoch than a batch's can't reach its garbage: advancing the epoch (Release) came after
//!    unlinking, and seeing it is an Acquire.
//! 4. A participant that comes online either is seen by the collector, or sees the memory as it is after the
//!    unlinking of the collector's garbage. This takes a fence on each side: between announcing and reading,
//!    and between unlinking and reading the places.
//!
//! Cost: `quiescent` is a load, and a store if the epoch has advanced. `collect` is a load if there is no garbage.

use crate::counter::Padded;
use crate::shim::{AtomicU64, AtomicUsize, Mutex, Ordering, fence, lock};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;

/// A place without a participant.
const VACANT: u64 = 0;
/// A place whose participant holds no pointers until it is online again.
const OFFLINE: u64 = 1;
const FIRST_EPOCH: u64 = 2;

/// A group of memory that is reclaimed together. `G` describes a piece of garbage.
pub struct Domain<G> {
    epoch: Padded<AtomicU64>,
    /// [`VACANT`], [`OFFLINE`], or the last epoch that the participant has seen.
    places: Box<[Padded<AtomicU64>]>,
    /// One more than the highest index of a place that was ever taken.
    place_used_count: AtomicUsize,
    /// The number of retired pieces, readable without the lock.
    garbage_count: AtomicUsize,
    retired: Mutex<Retired<G>>,
}

struct Retired<G> {
    /// Retired since the last collection.
    fresh: Vec<G>,
    /// In ascending order of epochs.
    batches: VecDeque<Batch<G>>,
}

struct Batch<G> {
    epoch: u64,
    garbage: Vec<G>,
}

impl<G: Send> Domain<G> {
    /// Creates a domain without garbage, for at most [`WRITER_COUNT_MAX`](base::limits::WRITER_COUNT_MAX)
    /// participants.
    #[must_use]
    pub fn new() -> Self {
        Self::with_places(base::limits::WRITER_COUNT_MAX)
    }

    /// Creates a domain without garbage, for at most `place_count` participants.
    #[must_use]
    pub fn with_places(place_count: usize) -> Self {
        Domain {
            epoch: Padded(AtomicU64::new(FIRST_EPOCH)),
            places: (0..place_count).map(|_| Padded(AtomicU64::new(VACANT))).collect(),
            place_used_count: AtomicUsize::new(0),
            garbage_count: AtomicUsize::new(0),
            retired: Mutex::new(Retired { fresh: Vec::new(), batches: VecDeque::new() }),
        }
    }

    /// Registers a participant, which is online; `None` if all places are taken.
    #[must_use]
    pub fn register(&self) -> Option<Participant<'_, G>> {
        for (index, place) in self.places.iter().enumerate() {
            // Acquire pairs with the Release in `drop`: the place's previous owner finished its reads before.
            if place.compare_exchange(VACANT, OFFLINE, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                // Precedes the fence in `online`, so that the collector sees it if it must see the place.
                self.place_used_count.fetch_max(index + 1, Ordering::Relaxed);
                let participant = Participant { domain: self, place, announced: Cell::new(OFFLINE) };
                participant.online();
                return Some(participant);
            }
        }
        None
    }

    /// Keeps `garbage` until no participant can reach it. It must already be unlinked: no new reader can find
    /// it.
    pub fn retire(&self, garbage: G) {
        let mut retired = lock(&self.retired);
        retired.fresh.push(garbage);
        self.garbage_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Retires several pieces at once.
    pub fn retire_all(&self, garbage: Vec<G>) {
        self.garbage_count.fetch_add(garbage.len(), Ordering::Relaxed);
        lock(&self.retired).fresh.extend(garbage);
    }

    /// The number of pieces of garbage kept.
    #[must_use]
    pub fn garbage_count(&self) -> usize {
        self.garbage_count.load(Ordering::Relaxed)
    }

    /// Moves the garbage that no participant can reach any more to `out`, oldest first.
    ///
    /// Garbage is returned by the second collection after it was retired at the earliest, if all participants
    /// were quiescent in between. Does nothing while another thread collects. O(places ever used).
    pub fn collect(&self, out: &mut Vec<G>) {
        if self.garbage_count() == 0 {
            return;
        }
        let Ok(mut retired) = self.retired.try_lock() else { return };
        let retired = &mut *retired;
        if !retired.fresh.is_empty() {
            // Release pairs with the Acquire in `quiescent`: the lock orders the unlinking of all of this
            // garbage before.
            let epoch = self.epoch.fetch_add(1, Ordering::AcqRel);
            retired.batches.push_back(Batch { epoch, garbage: std::mem::take(&mut retired.fresh) });
        }
        let oldest_seen = self.oldest_seen_epoch();
        let already = out.len();
        while let Some(batch) = retired.batches.pop_front_if(|batch| batch.epoch < oldest_seen) {
            out.extend(batch.garbage);
        }
        self.garbage_count.fetch_sub(out.len() - already, Ordering::Relaxed);
    }

    /// Ends the current epoch and returns its number. Once [`Self::has_passed`] returns true for it, memory
    /// that was unlinked before can't be reached any more.
    #[must_use]
    pub fn end_epoch(&self) -> u64 {
        // Release pairs with the Acquire in `quiescent`, as in `collect`: the caller's unlinking comes before.
        self.epoch.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether all online participants have been quiescent since this epoch ended. O(places ever used).
    #[must_use]
    pub fn has_passed(&self, epoch: u64) -> bool {
        epoch < self.oldest_seen_epoch()
    }

    /// The oldest among the latest epochs seen by online participants.
    fn oldest_seen_epoch(&self) -> u64 {
        // Pairs with the fence in `online`.
        fence(Ordering::SeqCst);
        let used_count = self.place_used_count.load(Ordering::Relaxed);
        self.places[..used_count]
            .iter()
            // Acquire pairs with the Release of the place's store: the participant's reads precede the freeing.
            .map(|place| place.load(Ordering::Acquire))
            .filter(|&seen| seen >= FIRST_EPOCH)
            .min()
            .unwrap_or(u64::MAX)
    }
}

/// A thread that may read the domain's memory. Dropping it vacates the place.
pub struct Participant<'d, G> {
    domain: &'d Domain<G>,
    place: &'d AtomicU64,
    /// The value of the place. A `Cell`, so that two threads can't share a participant.
    announced: Cell<u64>,
}

impl<'d, G> Participant<'d, G> {
    /// The participant's domain.
    #[must_use]
    pub fn domain(&self) -> &'d Domain<G> {
        self.domain
    }

    /// Declares that this thread holds no pointers now. No effect while it is offline.
    #[inline]
    pub fn quiescent(&self) {
        // Acquire pairs with the Release in `collect`: from here on this thread can't find memory unlinked
        // before.
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        if self.announced.get() != epoch && self.announced.get() != OFFLINE {
            self.announce(epoch);
        }
    }

    /// Declares that this thread holds no pointers until it calls [`Participant::online`].
    pub fn offline(&self) {
        self.announce(OFFLINE);
    }

    /// Declares that this thread may hold pointers from here on.
    pub fn online(&self) {
        self.announce(self.domain.epoch.load(Ordering::Relaxed));
        // Pairs with the fence in `oldest_seen_epoch`: this thread's next reads come after the announcement. It
        // also makes the load an Acquire, as in `quiescent`.
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn announce(&self, state: u64) {
        // Release pairs with the Acquire in `oldest_seen_epoch`: all earlier reads of this thread precede it.
        self.place.store(state, Ordering::Release);
        self.announced.set(state);
    }
}

impl<G> Drop for Participant<'_, G> {
    fn drop(&mut self) {
        self.announce(VACANT);
    }
}

impl<G: Send> Default for Domain<G> {
    fn default() -> Self {
        Self::new()
    }
}

impl<G> fmt::Debug for Domain<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain(epoch {})", self.epoch.load(Ordering::Relaxed))
    }
}

impl<G> fmt::Debug for Participant<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Participant(at epoch {})", self.announced.get())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Domain;

    fn collected(domain: &Domain<u32>) -> Vec<u32> {
        let mut out = Vec::new();
        domain.collect(&mut out);
        out
    }

    #[test]
    fn garbage_without_participants_is_collected_immediately() {
        let domain = Domain::with_places(2);
        domain.retire(1);
        domain.retire(2);
        assert_eq!(domain.garbage_count(), 2);
        assert_eq!(collected(&domain), [1, 2]);
        assert_eq!(domain.garbage_count(), 0);
        assert_eq!(collected(&domain), []);
    }

    #[test]
    fn garbage_waits_for_every_participant() {
        let domain = Domain::new();
        let (first, second) = (domain.register().unwrap(), domain.register().unwrap());
        domain.retire(1);
        assert_eq!(collected(&domain), []);
        first.quiescent();
        domain.retire(2);
        assert_eq!(collected(&domain), []);
        second.quiescent();
        assert_eq!(collected(&domain), [1]);
        first.quiescent();
        assert_eq!(collected(&domain), [2]);
    }

    #[test]
    fn being_quiescent_before_the_collection_is_too_early() {
        let domain = Domain::new();
        let participant = domain.register().unwrap();
        domain.retire(1);
        participant.quiescent();
        assert_eq!(collected(&domain), []);
        participant.quiescent();
        assert_eq!(collected(&domain), [1]);
    }

    #[test]
    fn offline_participants_delay_no_garbage() {
        let domain = Domain::new();
        let participant = domain.register().unwrap();
        participant.offline();
        participant.quiescent();
        domain.retire(1);
        assert_eq!(collected(&domain), [1]);
        participant.online();
        domain.retire(2);
        assert_eq!(collected(&domain), []);
        drop(participant);
        assert_eq!(collected(&domain), [2]);
    }

    #[test]
    fn an_epoch_passes_when_every_participant_was_quiescent_after_its_end() {
        let domain = Domain::<u32>::new();
        let (first, second) = (domain.register().unwrap(), domain.register().unwrap());
        first.quiescent();
        let epoch = domain.end_epoch();
        assert!(!domain.has_passed(epoch));
        second.quiescent();
        assert!(!domain.has_passed(epoch));
        first.offline();
        assert!(domain.has_passed(epoch));
        first.online();
        assert!(domain.has_passed(epoch) && !domain.has_passed(domain.end_epoch()));
    }

    #[test]
    fn participant_places_are_limited_and_reused() {
        let domain = Domain::<u32>::with_places(1);
        let participant = domain.register().unwrap();
        assert!(domain.register().is_none());
        drop(participant);
        assert!(domain.register().is_some());
    }
}
