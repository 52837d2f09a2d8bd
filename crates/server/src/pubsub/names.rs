//! The names of a kind, with those who listen to each: read without a lock, changed under one.
//!
//! What is read is never changed, but replaced. A reader may therefore see what was there a moment ago; the stamp of an
//! audience tells which it was.
//! Invariants:
//! 1. A name is there exactly as long as somebody listens to it.
//! 2. Stamps of a name grow with each change of its audience.

use std::hash::BuildHasher;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use sync::atomic::{AtomicUsize, Ordering};
use sync::{HashMap, Mutex, MutexGuard, RandomState};

/// Buckets of the smallest table, and names a bucket from which on it grows.
const BUCKET_COUNT_MIN: usize = 64;
const NAMES_A_BUCKET_MAX: usize = 1;

/// Patterns, or nodes, in a node of the tree of all patterns: a change copies one node of each level.
const FAN_OUT: usize = 8;

/// The threads that listen to a name, each with its number of connections.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    /// When it became what it is, by the hub's count of changes.
    pub stamp: u64,
    /// The threads, in no order.
    pub threads: Vec<(u8, u32)>,
}

/// A name with its audience.
pub struct Listened {
    /// The name as all share it.
    pub name: Arc<[u8]>,
    /// Those who listen to it.
    pub audience: Audience,
}

impl Audience {
    /// Number of connections.
    pub fn count(&self) -> u64 {
        self.threads.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// The numbers of the threads.
    pub fn threads(&self) -> impl Iterator<Item = usize> + '_ {
        self.threads.iter().map(|(thread, _)| usize::from(*thread))
    }

    /// One more connection of a thread.
    pub fn add(&mut self, thread: usize) {
        match self.threads.iter_mut().find(|(known, _)| usize::from(*known) == thread) {
            Some((_, count)) => *count += 1,
            None => self.threads.push((thread as u8, 1)),
        }
    }

    /// One less.
    pub fn remove(&mut self, thread: usize) {
        let at = self.threads.iter().position(|(known, _)| usize::from(*known) == thread);
        let Some(at) = at else { panic!("thread {thread} stops listening to what it does not listen to") };
        self.threads[at].1 -= 1;
        if self.threads[at].1 == 0 {
            self.threads.swap_remove(at);
        }
    }
}

/// Changes an audience, with the stamp that it has from then on; without threads it is taken for none.
pub type Change<'a> = &'a mut dyn FnMut(&mut Audience);

/// Channels: found by their names.
pub struct Channels {
    hasher: RandomState,
    table: ArcSwap<Table>,
    changing: Mutex<()>,
    count: AtomicUsize,
}

type Bucket = Vec<Arc<Listened>>;

struct Table(Box<[ArcSwapOption<Bucket>]>);

impl Table {
    fn new(bucket_count: usize) -> Self {
        Self((0..bucket_count).map(|_| ArcSwapOption::empty()).collect())
    }

    fn bucket(&self, hash: u64) -> &ArcSwapOption<Bucket> {
        &self.0[hash as usize & (self.0.len() - 1)]
    }
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

    /// Shows a name's audience, if it has one.
    pub fn look<T>(&self, name: &[u8], see: impl FnOnce(&Audience) -> T) -> Option<T> {
        let table = self.table.load();
        let bucket = table.bucket(self.hasher.hash_one(name)).load();
        bucket
            .iter()
            .flat_map(|bucket| bucket.iter())
            .find(|found| *found.name == *name)
            .map(|found| see(&found.audience))
    }

    /// Changes a name's audience. Returns the name as all share it.
    pub fn change(&self, name: &[u8], change: Change<'_>) -> Arc<[u8]> {
        let _changing = lock(&self.changing);
        let table = self.table.load();
        let bucket = table.bucket(self.hasher.hash_one(name));
        let before = bucket.load();
        let before = before.as_deref().map_or(&[][..], |bucket| bucket);
        let mut names = Bucket::with_capacity(before.len() + 1);
        names.extend_from_slice(before);
        let shared = change_in(&mut names, name, change, |grown| {
            if grown {
                self.count.fetch_add(1, Ordering::SeqCst);
            } else {
                self.count.fetch_sub(1, Ordering::SeqCst);
            }
        });
        bucket.store((!names.is_empty()).then(|| Arc::new(names)));
        if self.len() > NAMES_A_BUCKET_MAX * table.0.len() {
            self.grow(&table);
        }
        shared
    }

    fn grow(&self, old: &Table) {
        let table = Table::new(2 * old.0.len());
        let mut buckets: HashMap<usize, Bucket> = HashMap::default();
        for bucket in &old.0 {
            for found in bucket.load().iter().flat_map(|bucket| bucket.iter()) {
                let at = self.hasher.hash_one(&*found.name) as usize & (table.0.len() - 1);
                buckets.entry(at).or_default().push(Arc::clone(found));
            }
        }
        for (at, bucket) in buckets {
            table.0[at].store(Some(Arc::new(bucket)));
        }
        self.table.store(Arc::new(table));
    }

    /// All names.
    pub fn names(&self) -> Vec<Arc<[u8]>> {
        let table = self.table.load();
        let of_bucket = |bucket: &ArcSwapOption<Bucket>| -> Vec<Arc<[u8]>> {
            bucket
                .load()
                .iter()
                .flat_map(|bucket| bucket.iter())
                .map(|found| Arc::clone(&found.name))
                .collect()
        };
        table.0.iter().flat_map(of_bucket).collect()
    }
}

/// Changes the audience of a name in a list. `count` is told if the name came (`true`) or went.
fn change_in(
    list: &mut Vec<Arc<Listened>>,
    name: &[u8],
    change: Change<'_>,
    count: impl FnOnce(bool),
) -> Arc<[u8]> {
    let at = list.iter().position(|found| *found.name == *name);
    let (shared, mut audience) = match at {
        Some(at) => (Arc::clone(&list[at].name), list[at].audience.clone()),
        None => (Arc::from(name), Audience::default()),
    };
    change(&mut audience);
    let is_left = !audience.threads.is_empty();
    let changed = Arc::new(Listened { name: Arc::clone(&shared), audience });
    match at {
        Some(at) if is_left => list[at] = changed,
        Some(at) => {
            list.swap_remove(at);
            count(false);
        }
        None if is_left => {
            list.push(changed);
            count(true);
        }
        None => {}
    }
    shared
}

/// Patterns: all are looked at.
#[derive(Default)]
pub struct Patterns {
    tree: ArcSwap<Tree>,
    changing: Mutex<Places>,
    count: AtomicUsize,
}

/// All patterns by their places.
#[derive(Clone, Default)]
struct Tree {
    root: Option<Arc<Node>>,
    /// Levels of nodes above the lowest one.
    height: u32,
}

#[derive(Clone)]
enum Node {
    Patterns([Option<Arc<Listened>>; FAN_OUT]),
    Nodes([Option<Arc<Node>>; FAN_OUT]),
}

impl Node {
    fn for_each(&self, see: &mut impl FnMut(&Listened)) {
        match self {
            Self::Patterns(patterns) => patterns.iter().flatten().for_each(|found| see(found)),
            Self::Nodes(nodes) => nodes.iter().flatten().for_each(|node| node.for_each(see)),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Patterns(patterns) => patterns.iter().all(Option::is_none),
            Self::Nodes(nodes) => nodes.iter().all(Option::is_none),
        }
    }

    /// The node that stands in for one of this height, or for none, once a place is changed. None if it is empty then.
    fn changed(
        node: Option<&Self>,
        height: u32,
        place: usize,
        pattern: Option<Arc<Listened>>,
    ) -> Option<Arc<Self>> {
        let index = place / FAN_OUT.pow(height) % FAN_OUT;
        let mut node = match node {
            Some(node) => node.clone(),
            None if height == 0 => Self::Patterns(Default::default()),
            None => Self::Nodes(Default::default()),
        };
        match &mut node {
            Self::Patterns(patterns) => patterns[index] = pattern,
            Self::Nodes(nodes) => {
                nodes[index] = Self::changed(nodes[index].as_deref(), height - 1, place, pattern);
            }
        }
        (!node.is_empty()).then(|| Arc::new(node))
    }
}

impl Tree {
    fn at(&self, place: usize) -> Option<&Arc<Listened>> {
        let mut node = self.root.as_deref()?;
        for height in (0..=self.height).rev() {
            let index = place / FAN_OUT.pow(height) % FAN_OUT;
            match node {
                Node::Patterns(patterns) => return patterns[index].as_ref(),
                Node::Nodes(nodes) => node = nodes[index].as_deref()?,
            }
        }
        None
    }

    /// The tree with another pattern, or none, at a place.
    fn changed(&self, place: usize, pattern: Option<Arc<Listened>>) -> Self {
        let mut tree = self.clone();
        while place >= FAN_OUT.pow(tree.height + 1) {
            if let Some(root) = tree.root.take() {
                let mut nodes: [Option<Arc<Node>>; FAN_OUT] = Default::default();
                nodes[0] = Some(root);
                tree.root = Some(Arc::new(Node::Nodes(nodes)));
            }
            tree.height += 1;
        }
        tree.root = Node::changed(tree.root.as_deref(), tree.height, place, pattern);
        tree.height = if tree.root.is_some() { tree.height } else { 0 };
        tree
    }
}

/// Where patterns are, for those who change them.
#[derive(Default)]
struct Places {
    place_of: HashMap<Arc<[u8]>, usize>,
    /// Places that are free below the highest one that was ever taken.
    free: Vec<usize>,
}

impl Patterns {
    /// Number of patterns.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Shows each pattern.
    pub fn for_each(&self, mut see: impl FnMut(&Listened)) {
        if let Some(root) = &self.tree.load().root {
            root.for_each(&mut see);
        }
    }

    /// Shows a pattern's audience, if it has one.
    pub fn look<T>(&self, pattern: &[u8], see: impl FnOnce(&Audience) -> T) -> Option<T> {
        let places = lock(&self.changing);
        let place = *places.place_of.get(pattern)?;
        self.tree.load().at(place).map(|found| see(&found.audience))
    }

    /// Changes a pattern's audience. Returns the pattern as all share it. O(log of the number of patterns).
    pub fn change(&self, pattern: &[u8], change: Change<'_>) -> Arc<[u8]> {
        let mut places = lock(&self.changing);
        let tree = self.tree.load();
        let known = places.place_of.get(pattern).copied();
        let (name, mut audience) = match known.and_then(|place| tree.at(place)) {
            Some(found) => (Arc::clone(&found.name), found.audience.clone()),
            None => (Arc::from(pattern), Audience::default()),
        };
        change(&mut audience);
        let is_left = !audience.threads.is_empty();
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
        }
        let changed = is_left.then(|| Arc::new(Listened { name: Arc::clone(&name), audience }));
        self.tree.store(Arc::new(tree.changed(place, changed)));
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
    fn channels_are_found_however_many() {
        let channels = Channels::default();
        for number in 0..NAME_COUNT {
            for thread in [1, 2, 1] {
                channels.change(&name(number), &mut |audience| audience.add(thread));
            }
        }
        assert_eq!((channels.len(), channels.names().len()), (NAME_COUNT, NAME_COUNT));
        assert!(channels.table.load().0.len() >= NAME_COUNT / NAMES_A_BUCKET_MAX);
        for number in 0..NAME_COUNT {
            assert_eq!(channels.look(&name(number), Audience::count), Some(3));
            for thread in [1, 1, 2] {
                channels.change(&name(number), &mut |audience| audience.remove(thread));
            }
            assert_eq!(channels.look(&name(number), Audience::count), None);
        }
        assert_eq!((channels.len(), channels.names().len()), (0, 0));
    }

    #[test]
    fn names_change_while_somebody_looks() {
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
            is_done.recv_timeout(std::time::Duration::from_secs(10)).expect("who looks holds no lock");
        };
        names.0.look(&name(0), |_| change_elsewhere()).expect("it is there");
        names.1.for_each(|_| change_elsewhere());
    }

    #[test]
    fn patterns_are_all_seen_whatever_comes_and_goes() {
        let patterns = Patterns::default();
        let mut model = BTreeSet::new();
        // Each third one goes again, out of order.
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
        assert!(model.iter().all(|name| patterns.look(name, Audience::count) == Some(1)));
        for name in &model {
            patterns.change(name, &mut |audience| audience.remove(7));
        }
        assert!(
            patterns.len() == 0
                && patterns.tree.load().root.is_none()
                && lock(&patterns.changing).free.is_empty()
        );
    }
}
