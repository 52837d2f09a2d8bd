//! The names of a kind with their audiences: read without a lock, changed under one.
//!
//! Published data is never changed, but replaced. A reader may therefore see an earlier version; the stamp of
//! an audience identifies it.
//! Invariants:
//! 1. A name is in its table exactly as long as it has subscribers.
//! 2. Stamps of a name grow with each change of its audience.

use std::hash::BuildHasher;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use sync::atomic::{AtomicUsize, Ordering};
use sync::{HashMap, Mutex, MutexGuard, RandomState};

/// Buckets of the smallest table, and names per bucket from which on it grows.
const BUCKET_COUNT_MIN: usize = 64;
const NAMES_A_BUCKET_MAX: usize = 1;

/// Patterns in a block, which a change copies.
const BLOCK_LEN: usize = 8;

/// Blocks of the smallest table.
const BLOCK_COUNT_MIN: usize = 8;

/// The workers with subscribers of a name, each with its number of connections.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    /// The hub's count of changes when this version was made.
    pub stamp: u64,
    /// One of the workers; `None`: there is none. Most names have no other, and need no memory for a list.
    first: Option<(u8, u32)>,
    /// The other workers, in no order.
    others: Vec<(u8, u32)>,
}

/// A name with its audience.
#[derive(Clone)]
pub struct NamedAudience {
    /// The name, shared by all users.
    pub name: Arc<[u8]>,
    /// The workers with its subscribers.
    pub audience: Audience,
}

impl Audience {
    /// Whether no worker has subscribers.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn all(&self) -> impl Iterator<Item = &(u8, u32)> + '_ {
        self.first.iter().chain(&self.others)
    }

    /// Number of connections.
    pub fn count(&self) -> u64 {
        self.all().map(|(_, count)| u64::from(*count)).sum()
    }

    /// The indexes of the workers.
    pub fn threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.all().map(|(thread, _)| usize::from(*thread))
    }

    fn count_of(&mut self, thread: usize) -> Option<&mut u32> {
        let mut all = self.first.iter_mut().chain(&mut self.others);
        all.find(|(known, _)| usize::from(*known) == thread).map(|(_, count)| count)
    }

    /// Counts one more connection of a worker.
    pub fn add(&mut self, thread: usize) {
        if let Some(count) = self.count_of(thread) {
            *count += 1;
        } else if self.first.is_none() {
            self.first = Some((thread as u8, 1));
        } else {
            self.others.push((thread as u8, 1));
        }
    }

    /// Counts one connection less.
    pub fn remove(&mut self, thread: usize) {
        let Some(count) = self.count_of(thread) else {
            panic!("thread {thread} has no subscription that could end")
        };
        *count -= 1;
        if *count == 0 {
            self.others.retain(|(_, count)| *count > 0);
            self.first = self.first.filter(|(_, count)| *count > 0).or_else(|| self.others.pop());
        }
    }
}

/// Changes an audience and sets its new stamp; an audience without workers is removed.
pub type Change<'a> = &'a mut dyn FnMut(&mut Audience);

/// Channels, found by name.
pub struct Channels {
    hasher: RandomState,
    table: ArcSwap<Table>,
    changing: Mutex<()>,
    count: AtomicUsize,
}

/// A name in its bucket.
struct Link {
    hash: u64,
    entry: NamedAudience,
    next: Option<Arc<Link>>,
}

struct Table(Box<[ArcSwapOption<Link>]>);

impl Table {
    fn new(bucket_count: usize) -> Self {
        Self((0..bucket_count).map(|_| ArcSwapOption::empty()).collect())
    }

    fn index(&self, hash: u64) -> usize {
        hash as usize & (self.0.len() - 1)
    }

    fn bucket(&self, hash: u64) -> &ArcSwapOption<Link> {
        &self.0[self.index(hash)]
    }
}

/// Iterates over the links of a bucket.
fn links(bucket: &Option<Arc<Link>>) -> impl Iterator<Item = &Arc<Link>> {
    std::iter::successors(bucket.as_ref(), |link| link.next.as_ref())
}

/// Returns the name and its audience, if the bucket has them.
fn find<'a>(bucket: &'a Option<Arc<Link>>, hash: u64, name: &[u8]) -> Option<&'a NamedAudience> {
    links(bucket).find(|link| link.hash == hash && *link.entry.name == *name).map(|link| &link.entry)
}

/// Returns the bucket without one of its names: the links after it are shared, those before it are copied.
fn without(bucket: Option<&Arc<Link>>, name: &Arc<[u8]>) -> Option<Arc<Link>> {
    let link = bucket?;
    if Arc::ptr_eq(&link.entry.name, name) {
        return link.next.clone();
    }
    let next = without(link.next.as_ref(), name);
    Some(Arc::new(Link { hash: link.hash, entry: link.entry.clone(), next }))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            table: ArcSwap::from_pointee(Table::new(BUCKET_COUNT_MIN)),
            changing: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }
}

impl Channels {
    /// Number of names.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Passes a name's audience to `visit`, if it has one.
    pub fn with_audience<T>(&self, name: &[u8], visit: impl FnOnce(&Audience) -> T) -> Option<T> {
        let table = self.table.load();
        let hash = self.hasher.hash_one(name);
        let bucket = table.bucket(hash).load();
        Some(visit(&find(&bucket, hash, name)?.audience))
    }

    /// Changes a name's audience. Returns the shared name.
    pub fn change(&self, name: &[u8], change: Change<'_>) -> Arc<[u8]> {
        let _changing = lock(&self.changing);
        let table = self.table.load();
        let hash = self.hasher.hash_one(name);
        let bucket = table.bucket(hash);
        // A full load: replacing a pointer that is only borrowed costs more at the store.
        let before = bucket.load_full();
        let found = find(&before, hash, name).cloned();
        let was_there = found.is_some();
        let mut entry =
            found.unwrap_or_else(|| NamedAudience { name: Arc::from(name), audience: Audience::default() });
        change(&mut entry.audience);
        let shared = Arc::clone(&entry.name);
        let is_left = !entry.audience.is_empty();
        let others = if was_there { without(before.as_ref(), &shared) } else { before };
        bucket.store(if is_left { Some(Arc::new(Link { hash, entry, next: others })) } else { others });
        match (was_there, is_left) {
            (false, true) => {
                let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
                if count > NAMES_A_BUCKET_MAX * table.0.len() {
                    self.grow(&table);
                }
            }
            (true, false) => _ = self.count.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }
        shared
    }

    /// Doubles the table: the names of each bucket go to two.
    fn grow(&self, old: &Table) {
        let table = Table::new(2 * old.0.len());
        for (index, bucket) in old.0.iter().enumerate() {
            let mut halves = [None, None];
            for link in links(&bucket.load()) {
                let half: &mut Option<Arc<Link>> = &mut halves[usize::from(table.index(link.hash) != index)];
                let moved = match half.take() {
                    None if link.next.is_none() => Arc::clone(link),
                    next => Arc::new(Link { hash: link.hash, entry: link.entry.clone(), next }),
                };
                *half = Some(moved);
            }
            let [low, high] = halves;
            table.0[index].store(low);
            table.0[index + old.0.len()].store(high);
        }
        self.table.store(Arc::new(table));
    }

    /// All names.
    pub fn names(&self) -> Vec<Arc<[u8]>> {
        let table = self.table.load();
        let of_bucket = |bucket: &ArcSwapOption<Link>| -> Vec<Arc<[u8]>> {
            links(&bucket.load()).map(|link| Arc::clone(&link.entry.name)).collect()
        };
        table.0.iter().flat_map(of_bucket).collect()
    }
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
    place_of: HashMap<Arc<[u8]>, usize>,
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
    pub fn change(&self, pattern: &[u8], change: Change<'_>) -> Arc<[u8]> {
        let mut places = lock(&self.changing);
        let blocks = self.blocks.load();
        let known = places.place_of.get(pattern).copied();
        let (name, mut audience) = match known.and_then(|place| blocks.at(place)) {
            Some(found) => (Arc::clone(&found.name), found.audience.clone()),
            None => (Arc::from(pattern), Audience::default()),
        };
        change(&mut audience);
        let is_left = !audience.is_empty();
        let place = match known {
            None if !is_left => return name,
            None => {
                let taken = places.place_of.len();
                let place = places.free.pop().unwrap_or(taken);
                places.place_of.insert(Arc::clone(&name), place);
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
            let changed = is_left.then(|| Arc::new(NamedAudience { name: Arc::clone(&name), audience }));
            self.blocks.load().put(place, changed);
        }
        name
    }

    /// All patterns.
    pub fn names(&self) -> Vec<Arc<[u8]>> {
        let mut names = Vec::new();
        self.for_each(|found| names.push(Arc::clone(&found.name)));
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
    fn many_channels_are_found() {
        let channels = Channels::default();
        for number in 0..NAME_COUNT {
            for thread in [1, 2, 1] {
                channels.change(&name(number), &mut |audience| audience.add(thread));
            }
        }
        assert_eq!((channels.len(), channels.names().len()), (NAME_COUNT, NAME_COUNT));
        assert!(channels.table.load().0.len() >= NAME_COUNT / NAMES_A_BUCKET_MAX);
        for number in 0..NAME_COUNT {
            assert_eq!(channels.with_audience(&name(number), Audience::count), Some(3));
            for thread in [1, 1, 2] {
                channels.change(&name(number), &mut |audience| audience.remove(thread));
            }
            assert_eq!(channels.with_audience(&name(number), Audience::count), None);
        }
        assert_eq!((channels.len(), channels.names().len()), (0, 0));
    }

    #[test]
    fn names_change_during_lookups() {
        let names: Arc<(Channels, Patterns)> = Arc::default();
        names.0.change(&name(0), &mut |audience| audience.add(7));
        names.1.change(&name(0), &mut |audience| audience.add(7));
        let change_elsewhere = || {
            let (names, (done, is_done)) = (Arc::clone(&names), std::sync::mpsc::channel());
            std::thread::spawn(move || {
                names.0.change(&name(1), &mut |audience| audience.add(7));
                names.1.change(&name(1), &mut |audience| audience.add(7));
                done.send(())
            });
            is_done.recv_timeout(std::time::Duration::from_secs(10)).expect("a lookup holds no lock");
        };
        names.0.with_audience(&name(0), |_| change_elsewhere()).expect("the name exists");
        names.1.for_each(|_| change_elsewhere());
    }

    #[test]
    fn all_patterns_are_visited_during_changes() {
        let patterns = Patterns::default();
        let mut model = BTreeSet::new();
        // Every third one is removed again, out of order.
        for number in 0..NAME_COUNT {
            patterns.change(&name(number), &mut |audience| audience.add(7));
            model.insert(name(number));
            if number % 3 == 2 {
                patterns.change(&name(number / 2), &mut |audience| {
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
            patterns.change(name, &mut |audience| audience.remove(7));
        }
        assert!(
            patterns.len() == 0
                && patterns.blocks.load().0.iter().all(|block| block.load().is_none())
                && lock(&patterns.changing).free.is_empty()
        );
    }
}
