//! Audiences, and the patterns with theirs: read without a lock, changed under one. Channels: `channels.rs`.
//!
//! Published lists of patterns are never changed, but replaced. A reader may therefore see an earlier version; the stamp of
//! an audience identifies it.
//! Invariants:
//! 1. A pattern is in the list exactly as long as it has subscribers.
//! 2. Stamps of a pattern grow with each change of its audience.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use commands::subscriptions::Name;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{HashMap, Mutex, MutexGuard};

/// Patterns in a block, which a change copies.
const BLOCK_LEN: usize = 8;

/// Blocks of the smallest table.
const BLOCK_COUNT_MIN: usize = 8;

/// The workers with subscribers of a name, each with its number of connections.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    /// The hub's count of changes when this version was made.
    pub stamp: u64,
    /// The workers besides the first, in no order. Most names have none.
    #[allow(clippy::box_collection, reason = "an entry of a table has one word for it")]
    others: Option<Box<Vec<(u8, u32)>>>,
    /// The number of connections of one of the workers; 0: there is none.
    first_count: u32,
    first_thread: u8,
}

/// A name with its audience.
#[derive(Clone)]
pub struct NamedAudience {
    /// The name, shared by all users.
    pub name: Name,
    /// The workers with its subscribers.
    pub audience: Audience,
}

// One for each name: the tables must be small.
const _: () = assert!(size_of::<NamedAudience>() == 32);

impl Audience {
    /// Whether no worker has subscribers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first_count == 0
    }

    fn all(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        let first = (self.first_count > 0).then_some((self.first_thread, self.first_count));
        first.into_iter().chain(self.others.iter().flat_map(|others| others.iter().copied()))
    }

    /// Number of connections.
    pub fn count(&self) -> u64 {
        self.all().map(|(_, count)| u64::from(count)).sum()
    }

    /// The indexes of the workers.
    pub fn threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.all().map(|(thread, _)| usize::from(thread))
    }

    fn count_of(&mut self, thread: usize) -> Option<&mut u32> {
        if self.first_count > 0 && usize::from(self.first_thread) == thread {
            return Some(&mut self.first_count);
        }
        let mut others = self.others.iter_mut().flat_map(|others| others.iter_mut());
        others.find(|(known, _)| usize::from(*known) == thread).map(|(_, count)| count)
    }

    /// Counts one more connection of a worker.
    pub fn add(&mut self, thread: usize) {
        if let Some(count) = self.count_of(thread) {
            *count += 1;
        } else if self.first_count == 0 {
            (self.first_thread, self.first_count) = (thread as u8, 1);
        } else {
            self.others.get_or_insert_default().push((thread as u8, 1));
        }
    }

    /// Counts one connection less.
    pub fn remove(&mut self, thread: usize) {
        let Some(count) = self.count_of(thread) else {
            panic!("thread {thread} has no subscription that could end")
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        let Some(others) = &mut self.others else { return };
        others.retain(|(_, count)| *count > 0);
        if self.first_count == 0
            && let Some(other) = others.pop()
        {
            (self.first_thread, self.first_count) = other;
        }
        if others.is_empty() {
            self.others = None;
        }
    }
}

/// Changes an audience and sets its new stamp; an audience without workers is removed.
pub type Change<'a> = &'a mut dyn FnMut(&mut Audience);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Patterns, in a list that is read as a whole.
#[derive(Default)]
pub struct Patterns {
    blocks: ArcSwap<Blocks>,
    changing: Mutex<Places>,
    count: AtomicUsize,
}

/// All patterns by index.
struct Blocks(Box<[ArcSwapOption<Block>]>);

type Block = [Option<Arc<NamedAudience>>; BLOCK_LEN];

impl Default for Blocks {
    fn default() -> Self {
        Self((0..BLOCK_COUNT_MIN).map(|_| ArcSwapOption::empty()).collect())
    }
}

impl Blocks {
    /// Returns twice as many blocks, with the same patterns.
    fn grown(&self) -> Self {
        let more = self.0.iter().map(|_| ArcSwapOption::empty());
        Self(self.0.iter().map(|block| ArcSwapOption::new(block.load_full())).chain(more).collect())
    }

    /// Replaces the block that contains an index.
    fn put(&self, place: usize, pattern: Option<Arc<NamedAudience>>) {
        let block = &self.0[place / BLOCK_LEN];
        let mut patterns = block.load_full().map_or_else(Block::default, |patterns| (*patterns).clone());
        patterns[place % BLOCK_LEN] = pattern;
        let is_empty = patterns.iter().all(Option::is_none);
        block.store((!is_empty).then(|| Arc::new(patterns)));
    }

    fn at(&self, place: usize) -> Option<Arc<NamedAudience>> {
        self.0[place / BLOCK_LEN].load().as_ref()?[place % BLOCK_LEN].clone()
    }
}

/// The indexes of the patterns, for changes.
#[derive(Default)]
struct Places {
    place_of: HashMap<Name, usize>,
    /// Free indexes below the highest one that was ever used.
    free: Vec<usize>,
}

impl Patterns {
    /// Number of patterns.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Passes each pattern to `visit`.
    pub fn for_each(&self, mut visit: impl FnMut(&NamedAudience)) {
        for block in &self.blocks.load().0 {
            block.load().iter().flat_map(|block| block.iter().flatten()).for_each(|found| visit(found));
        }
    }

    /// Passes a pattern's audience to `visit`, if it has one.
    pub fn with_audience<T>(&self, pattern: &[u8], visit: impl FnOnce(&Audience) -> T) -> Option<T> {
        let places = lock(&self.changing);
        let place = *places.place_of.get(pattern)?;
        self.blocks.load().at(place).map(|found| visit(&found.audience))
    }

    /// Changes a pattern's audience. Returns the shared pattern.
    pub fn change(&self, hash: u64, pattern: &[u8], change: Change<'_>) -> Name {
        let mut places = lock(&self.changing);
        let blocks = self.blocks.load();
        let known = places.place_of.get(pattern).copied();
        let (name, mut audience) = match known.and_then(|place| blocks.at(place)) {
            Some(found) => (found.name.clone(), found.audience.clone()),
            None => (Name::new(hash, pattern), Audience::default()),
        };
        change(&mut audience);
        let is_left = !audience.is_empty();
        let place = match known {
            None if !is_left => return name,
            None => {
                let taken = places.place_of.len();
                let place = places.free.pop().unwrap_or(taken);
                places.place_of.insert(name.clone(), place);
                self.count.fetch_add(1, Ordering::SeqCst);
                place
            }
            Some(place) if !is_left => {
                places.place_of.remove(pattern);
                places.free.push(place);
                self.count.fetch_sub(1, Ordering::SeqCst);
                place
            }
            Some(place) => place,
        };
        if places.place_of.is_empty() {
            *places = Places::default();
            self.blocks.store(Arc::default());
        } else {
            if place == blocks.0.len() * BLOCK_LEN {
                self.blocks.store(Arc::new(blocks.grown()));
            }
            let changed = is_left.then(|| Arc::new(NamedAudience { name: name.clone(), audience }));
            self.blocks.load().put(place, changed);
        }
        name
    }

    /// All patterns.
    pub fn names(&self) -> Vec<Name> {
        let mut names = Vec::new();
        self.for_each(|found| names.push(found.name.clone()));
        names
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NAME_COUNT: usize = 1000;

    fn name(number: usize) -> Vec<u8> {
        format!("name-{number}").into_bytes()
    }

    #[test]
    fn an_audience_counts_the_connections_of_each_worker() {
        let mut audience = Audience::default();
        for thread in [7, 2, 7, 255, 2] {
            audience.add(thread);
        }
        let all = |audience: &Audience| audience.all().collect::<BTreeSet<_>>();
        assert_eq!((audience.count(), all(&audience)), (5, BTreeSet::from([(7, 2), (2, 2), (255, 1)])));
        for thread in [7, 7, 2] {
            audience.remove(thread);
        }
        assert_eq!((audience.count(), all(&audience)), (2, BTreeSet::from([(2, 1), (255, 1)])));
        audience.remove(255);
        assert!(!audience.is_empty() && audience.others.is_none());
        audience.remove(2);
        assert!(audience.is_empty() && audience.count() == 0);
    }

    #[test]
    fn patterns_change_during_lookups() {
        let patterns: Arc<Patterns> = Arc::default();
        patterns.change(0, &name(0), &mut |audience| audience.add(7));
        patterns.for_each(|_| {
            let (patterns, (done, is_done)) = (Arc::clone(&patterns), std::sync::mpsc::channel());
            std::thread::spawn(move || {
                patterns.change(0, &name(1), &mut |audience| audience.add(7));
                done.send(())
            });
            is_done.recv_timeout(std::time::Duration::from_secs(10)).expect("a lookup holds no lock");
        });
    }

    #[test]
    fn all_patterns_are_visited_during_changes() {
        let patterns = Patterns::default();
        let mut model = BTreeSet::new();
        // Every third one is removed again, out of order.
        for number in 0..NAME_COUNT {
            patterns.change(0, &name(number), &mut |audience| audience.add(7));
            model.insert(name(number));
            if number % 3 == 2 {
                patterns.change(0, &name(number / 2), &mut |audience| {
                    if audience.count() > 0 {
                        audience.remove(7);
                    }
                });
                model.remove(&name(number / 2));
            }
        }
        let seen: BTreeSet<Vec<u8>> = patterns.names().iter().map(|name| name.to_vec()).collect();
        assert_eq!((patterns.len(), &seen), (model.len(), &model));
        assert!(model.iter().all(|name| patterns.with_audience(name, Audience::count) == Some(1)));
        for name in &model {
            patterns.change(0, name, &mut |audience| audience.remove(7));
        }
        assert!(
            patterns.len() == 0
                && patterns.blocks.load().0.iter().all(|block| block.load().is_none())
                && lock(&patterns.changing).free.is_empty()
        );
    }
}
