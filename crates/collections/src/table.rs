//! The map of one slot for one logical database: from key to entry, ordered by hash.
//!
//! Owns: its entries and segments. A table with up to 385 keys is one segment; a larger one has a directory
//! (extendible hashing): a full segment is rebuilt a step larger or, at 4 KiB, split in two by one more bit
//! of the position. So no step moves more than one segment, at any size, and none moves or reads an entry.
//!
//! Touches: memory of a [`Heap`], which the caller selects; any heap is correct, and a single one is fastest.
//! Replaced segments go to that heap's retired list once the hint no longer leads to them (`replaced.rs`),
//! never directly to the allocator, as prefetches may be reading them ([`crate::Hint`]).
//!
//! Used under the slot's latch, which justifies `&Table` and `&mut Table`. The caller provides hashes: 64
//! bits, seeded; the table uses bits 49..26 only.
//!
//! Invariants ([`Table::check`])
//! 1. The segments' ranges cover all positions without overlap, each in every directory word of its range.
//! 2. Every entry is in the segment of its position, reachable from its home (`segment.rs`, invariants 1 to
//!    3).
//! 3. `len` is the number of entries; the directory's counter of a segment is the number of entries in it.
//! 4. A word is volatile exactly if its entry has an expiry, and likewise marks whether its value's members
//!    have one; `volatile_len` and `volatile_members_len` are their numbers.
//! 5. `deepest_count` is the number of segments as deep as the directory.
//! 6. No segment has more entries than its capacity: six for each bucket, plus one.
//!
//! Cost: a search reads 1.15 buckets on average and one entry; growth moves at most 385 words.
//!
//! Start reading at [`Table::find`] (`lookup.rs`), then [`Table::upsert`].

pub(crate) mod bucket;
pub(crate) mod check;
mod contents;
mod copying;
pub(crate) mod defragment;
mod directory;
pub(crate) mod entry_mut;
pub(crate) mod guess;
pub(crate) mod hint;
mod lookup;
pub(crate) mod sampling;
mod segment;
mod snapshot;
pub(crate) mod walk;

use crate::entry::Entry;
use crate::entry::owned_entry::{ExpiryChange, NewValue, OwnedEntry};
use crate::entry::value_size::ValueSize;
use crate::entry::volatility::Volatility;
use crate::memory::heap::Heap;
use crate::memory::replaced::Replaced;
use crate::table::bucket::{BucketItem, POSITION_BITS, Position};
use crate::table::directory::Directory;
use crate::table::entry_mut::EntryMut;
use crate::table::guess::Guess;
use crate::table::segment::{
    BUCKET_COUNT_SPLIT, EntryPlace, Filler, Segment, SegmentRef, bucket_count_after, bucket_count_for,
    capacity,
};

/// The map of one slot for one logical database.
///
/// Dropping it frees its entries and retires its segments; its hint must be published before, to lead
/// elsewhere.
pub struct Table {
    root: SegmentRef,
    len: usize,
    volatile_len: u32,
    volatile_members_len: u32,
    deepest_count: u32,
    /// Whether a hint may lead to it.
    has_hint: bool,
    /// Replaced memory to which the hint may still lead.
    replaced: Replaced,
}

// A slot's table, latch, hint and a pointer must fit a cache line.
const _: () = assert!(size_of::<Table>() <= 40);

// A table is Send and Sync because its fields are integers; the memory that they stand for must be so, too.
const _: () = {
    const fn may_be_shared_and_sent<T: Send + Sync>() {}
    may_be_shared_and_sent::<OwnedEntry>();
    may_be_shared_and_sent::<crate::Object>();
};

/// The result of [`Table::upsert`].
#[derive(Debug)]
pub struct Upserted<'a> {
    /// The present entry.
    pub entry: Entry<'a>,
    /// Whether the key existed before.
    pub existed: bool,
    /// The type and the size of the previous value, if the key existed.
    pub old_size: ValueSize,
    /// The previous expiry.
    pub old_expiry: Option<i64>,
    /// Whether the previous value had members with an expiry.
    pub had_volatile_members: bool,
    /// The old entry, if dropping it is costly, so that the caller may leave it to another thread.
    pub old: Option<OwnedEntry>,
}

/// The value is a collection where a string is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAString;

impl Table {
    /// An empty table without a hint. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self::empty(false)
    }

    /// An empty table with a hint, to be published after every change: until then replaced memory is kept.
    #[must_use]
    pub const fn with_hint() -> Self {
        Self::empty(true)
    }

    const fn empty(has_hint: bool) -> Self {
        Self {
            root: SegmentRef::NONE,
            len: 0,
            volatile_len: 0,
            volatile_members_len: 0,
            deepest_count: 0,
            has_hint,
            replaced: Replaced::NONE,
        }
    }

    /// Number of keys.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of keys with an expiry.
    #[inline]
    #[must_use]
    pub const fn volatile_len(&self) -> usize {
        self.volatile_len as usize
    }

    /// Number of keys whose values have members with an expiry.
    #[inline]
    #[must_use]
    pub const fn volatile_members_len(&self) -> usize {
        self.volatile_members_len as usize
    }

    /// Sets the value and expiry of a key, which is added if absent. The access clock of a new key is zero.
    #[inline]
    pub fn upsert<'a>(
        &'a mut self,
        heap: &'a Heap,
        hash: u64,
        key: &[u8],
        value: NewValue<'_>,
        expiry: ExpiryChange,
    ) -> Upserted<'a> {
        self.upsert_near(Guess::NONE, heap, hash, key, value, expiry)
    }

    /// [`Self::upsert`] of a key whose place a prefetch has probably found.
    #[inline(always)]
    pub fn upsert_near<'a>(
        &'a mut self,
        guess: Guess,
        heap: &'a Heap,
        hash: u64,
        key: &[u8],
        value: NewValue<'_>,
        expiry: ExpiryChange,
    ) -> Upserted<'a> {
        // SAFETY: (1) segment and place, if any, belong to the entry below, which borrows the table.
        let Some((segment, place)) = (unsafe { self.find_place(guess, hash, key) }) else {
            let entry = self.add_new(heap, hash, key, value, expiry.apply(None));
            return Upserted {
                entry,
                existed: false,
                old_size: ValueSize::default(),
                old_expiry: None,
                had_volatile_members: false,
                old: None,
            };
        };
        // SAFETY: (1) the place was just found, and (2) the table has not changed since.
        let mut entry = unsafe { EntryMut::new(self, heap, segment, place) };
        let old_expiry = entry.entry().expiry();
        let old_size = entry.entry().value_size();
        let had_volatile_members = entry.has_volatile_members();
        let old = entry.set(value, expiry);
        Upserted { entry: entry.into_entry(), existed: true, old_size, old_expiry, had_volatile_members, old }
    }

    /// Sets a string, as an integer where it is the text of one.
    pub fn upsert_string<'a>(
        &'a mut self,
        heap: &'a Heap,
        hash: u64,
        key: &[u8],
        value: &[u8],
        expiry: ExpiryChange,
    ) -> Upserted<'a> {
        self.upsert(heap, hash, key, NewValue::Auto(value), expiry)
    }

    /// Sets an integer and keeps the expiry.
    pub fn set_int(&mut self, heap: &Heap, hash: u64, key: &[u8], value: i64) {
        self.upsert(heap, hash, key, NewValue::Int(value), ExpiryChange::Keep);
    }

    /// Sets or clears the expiry of a key. Returns whether the key exists.
    pub fn set_expiry(&mut self, heap: &Heap, hash: u64, key: &[u8], expiry: Option<i64>) -> bool {
        self.find_mut(heap, hash, key).map(|mut entry| entry.set_expiry(expiry)).is_some()
    }

    /// Appends to a string, or sets it. Returns its new length.
    pub fn append(&mut self, heap: &Heap, hash: u64, key: &[u8], bytes: &[u8]) -> Result<usize, NotAString> {
        if let Some(mut entry) = self.find_mut(heap, hash, key) {
            return entry.append(bytes);
        }
        self.upsert_string(heap, hash, key, bytes, ExpiryChange::Clear);
        Ok(bytes.len())
    }

    /// Truncates or zero-extends a string and returns its bytes. A missing key is an empty string.
    pub fn resize_string<'a>(
        &'a mut self,
        heap: &'a Heap,
        hash: u64,
        key: &[u8],
        len: usize,
    ) -> Result<&'a mut [u8], NotAString> {
        if self.find(hash, key).is_none() {
            let new = OwnedEntry::new(heap, key, NewValue::Raw(&[]), None);
            self.add(heap, Position::of_hash(hash), new);
        }
        let entry = self.find_mut(heap, hash, key).expect("added if it was missing");
        entry.into_resized(len)
    }

    /// Removes a key.
    pub fn remove(&mut self, heap: &Heap, hash: u64, key: &[u8]) -> Option<OwnedEntry> {
        self.find_mut(heap, hash, key).map(EntryMut::remove)
    }

    /// Inserts an entry under `key`, with its value, expiry and access clock. Returns the replaced entry.
    pub fn insert_owned(
        &mut self,
        heap: &Heap,
        hash: u64,
        key: &[u8],
        owned: OwnedEntry,
    ) -> Option<OwnedEntry> {
        let new = owned.with_key(heap, key);
        self.replace_or_add(heap, hash, new)
    }

    /// Inserts a deep copy of an entry under `key`. Returns the replaced entry.
    pub fn insert_copy(
        &mut self,
        heap: &Heap,
        hash: u64,
        key: &[u8],
        source: Entry<'_>,
    ) -> Option<OwnedEntry> {
        let new = OwnedEntry::copy_of(source, heap, key);
        self.replace_or_add(heap, hash, new)
    }

    /// Bytes of memory of the segments and the directory; the heap counts those of the entries.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let directory = if self.root.is_directory() { Directory::size(self.root.depth()) } else { 0 };
        directory + self.segments().map(|(_, segment)| segment.reference.size()).sum::<usize>()
    }

    /// The bits that a [`crate::Hint`] stores.
    fn hint_bits(&self) -> u64 {
        self.root.bits()
    }

    /// Each segment with the first position of its range, in order.
    fn segments(&self) -> impl Iterator<Item = (Position, Segment<'_>)> {
        let directory = self.directory().into_iter().flat_map(Directory::segments);
        let only =
            (!self.root.is_directory() && !self.root.is_none()).then_some((Position::new(0), self.root));
        // SAFETY: the table owns its segments, and is borrowed as long as the views.
        only.into_iter().chain(directory).map(|(start, reference)| (start, unsafe { reference.view() }))
    }

    /// The segment of this position; one without buckets if the table has none.
    #[inline]
    fn segment(&self, position: Position) -> Segment<'_> {
        // SAFETY: the table owns its segments, and is borrowed as long as the view.
        unsafe { self.segment_ref(position).view() }
    }

    /// The entry of an item.
    ///
    /// # Safety
    /// 1. The table has the item, and owns its entry as long as the view is borrowed.
    #[inline]
    unsafe fn entry_of(&self, item: BucketItem) -> Entry<'_> {
        // SAFETY: (1) the block holds the entry, which changes only while the table is borrowed mutably.
        unsafe { Entry::from_block(item.block()) }
    }

    /// Removes the entry at a place from the table, without compacting it.
    ///
    /// # Safety
    /// 1. `segment` is one of the table's, and `place` is in it.
    /// 2. The table has `place.item` there, and the place is not used afterwards.
    unsafe fn take_out(&mut self, segment: Segment<'_>, place: EntryPlace<'_>) -> OwnedEntry {
        segment.remove(place);
        self.len -= 1;
        self.forget_volatility(place.item.volatility());
        if let Some(directory) = self.directory() {
            directory.set_len(place.item.position, directory.len(place.item.position) - 1);
        }
        // SAFETY: (1) the table owned the entry, and has just removed it.
        unsafe { OwnedEntry::from_block(place.item.block()) }
    }

    /// Shrinks or merges the segment of this position, if it has become too empty.
    fn make_compact(&mut self, heap: &Heap, position: Position) {
        let segment = self.segment_ref(position);
        let bucket_count = segment.bucket_count();
        let len = self.segment_len(position);
        if segment.is_none() || (bucket_count > 2 && len >= capacity(bucket_count) / 2) {
            return;
        }
        if self.try_merge(heap, position) {
            return;
        }
        let smaller = bucket_count_for(len + len / 4);
        if smaller < bucket_count {
            self.rebuild(heap, position, smaller);
        }
    }

    #[inline]
    fn note_volatility(&mut self, volatility: Volatility) {
        self.volatile_len += u32::from(volatility.is_volatile());
        self.volatile_members_len += u32::from(volatility.has_volatile_members());
    }

    #[inline]
    fn forget_volatility(&mut self, volatility: Volatility) {
        self.volatile_len -= u32::from(volatility.is_volatile());
        self.volatile_members_len -= u32::from(volatility.has_volatile_members());
    }

    fn directory(&self) -> Option<Directory<'_>> {
        // SAFETY: the table owns its directory, and is borrowed as long as the view.
        self.root.is_directory().then(|| unsafe { Directory::view(self.root) })
    }

    #[inline]
    fn segment_ref(&self, position: Position) -> SegmentRef {
        self.directory().map_or(self.root, |directory| directory.segment(position))
    }

    /// Number of entries of the segment of this position.
    fn segment_len(&self, position: Position) -> usize {
        self.directory().map_or(self.len, |directory| directory.len(position))
    }

    fn replace_or_add(&mut self, heap: &Heap, hash: u64, new: OwnedEntry) -> Option<OwnedEntry> {
        // SAFETY: (1) segment and place, if any, belong to the entry below, which borrows the table.
        match unsafe { self.find_place(Guess::NONE, hash, new.entry().key()) } {
            Some((segment, place)) => {
                // SAFETY: (1) the place was just found, and (2) the table has not changed since.
                let entry = unsafe { EntryMut::new(self, heap, segment, place) };
                Some(entry.replace(new))
            }
            None => {
                self.add(heap, Position::of_hash(hash), new);
                None
            }
        }
    }

    /// Adds an absent key.
    #[inline(never)]
    pub(crate) fn add_new(
        &mut self,
        heap: &Heap,
        hash: u64,
        key: &[u8],
        value: NewValue<'_>,
        expiry: Option<i64>,
    ) -> Entry<'_> {
        self.add(heap, Position::of_hash(hash), OwnedEntry::new(heap, key, value, expiry))
    }

    /// Adds an entry whose key is absent.
    fn add(&mut self, heap: &Heap, position: Position, new: OwnedEntry) -> Entry<'_> {
        self.make_room(heap, position);
        let volatility = new.entry().volatility();
        let item = BucketItem::new(position, new.into_block(), volatility);
        self.segment(position).insert(item);
        self.len += 1;
        self.note_volatility(volatility);
        if let Some(directory) = self.directory() {
            directory.set_len(position, directory.len(position) + 1);
        }
        // SAFETY: (1) the item has just been inserted.
        unsafe { self.entry_of(item) }
    }

    /// Grows or splits segments until the segment of this position has space.
    #[inline]
    fn make_room(&mut self, heap: &Heap, position: Position) {
        loop {
            let segment = self.segment_ref(position);
            if segment.is_none() {
                self.root = SegmentRef::allocate(heap, 1, 0);
                return;
            }
            if self.segment_len(position) < capacity(segment.bucket_count()) {
                return;
            }
            self.grow(heap, position, segment);
        }
    }

    #[cold]
    fn grow(&mut self, heap: &Heap, position: Position, segment: SegmentRef) {
        if segment.bucket_count() < BUCKET_COUNT_SPLIT || !self.may_split(segment) {
            self.rebuild(heap, position, bucket_count_after(segment.bucket_count()));
        } else {
            if segment.depth() == self.directory_depth() {
                self.double_directory(heap);
            }
            self.split(heap, position);
        }
    }

    /// A split requires another bit of the position, and enough entries to justify the directory. Good hashes
    /// ensure both; many keys at one position must not double the directory repeatedly.
    fn may_split(&self, segment: SegmentRef) -> bool {
        let depth = segment.depth();
        depth < POSITION_BITS && (depth < self.directory_depth() || self.len >> depth >= SPLIT_LEN_MIN)
    }

    fn directory_depth(&self) -> u32 {
        if self.root.is_directory() { self.root.depth() } else { 0 }
    }

    /// Replaces the segment of this position by one of another size.
    fn rebuild(&mut self, heap: &Heap, position: Position, bucket_count: usize) {
        let old = self.segment_ref(position);
        let mut filler = Filler::new(heap, bucket_count, old.depth());
        // SAFETY: the memory is retired below at the earliest.
        let items = unsafe { old.view() }.items();
        items.for_each(|item| filler.insert(item));
        match self.directory() {
            Some(directory) => directory.set(position, filler.finish()),
            None => self.root = filler.finish(),
        }
        // SAFETY: (1) the table has replaced it by another one.
        self.retire(unsafe { old.retired() });
    }

    /// Splits the segment of this position by one more bit. Its depth is below the directory's.
    fn split(&mut self, heap: &Heap, position: Position) {
        let directory = self.directory().expect("made before the first split");
        let old = directory.segment(position);
        // SAFETY: the memory is retired below at the earliest.
        let segment: Segment<'_> = unsafe { old.view() };
        let depth = old.depth() + 1;
        let bit = 1 << (POSITION_BITS - depth);
        let left_start = segment.range_start(position);
        let left_len = segment.items().filter(|item| item.position.get() & bit == 0).count();
        let right_len = directory.len(position) - left_len;
        let halves = [(left_start, left_len), (left_start + bit, right_len)];
        let mut fillers = halves.map(|(_, len)| Filler::new(heap, bucket_count_for(len + len / 16), depth));
        for item in segment.items() {
            fillers[usize::from(item.position.get() & bit != 0)].insert(item);
        }
        for ((start, len), filler) in halves.into_iter().zip(fillers) {
            let start = Position::new(start);
            directory.set(start, filler.finish());
            directory.set_len(start, len);
        }
        self.deepest_count += if depth == self.root.depth() { 2 } else { 0 };
        // SAFETY: (1) the table has replaced it by two others.
        self.retire(unsafe { old.retired() });
    }

    /// Merges the segment of this position with the other half of its split, if both are small.
    fn try_merge(&mut self, heap: &Heap, position: Position) -> bool {
        let Some(directory) = self.directory() else { return false };
        let depth = directory.segment(position).depth();
        if depth == 0 {
            return false;
        }
        let bit = 1 << (POSITION_BITS - depth);
        let halves = [Position::new(position.get() & !bit), Position::new(position.get() | bit)];
        let [left, right] = halves.map(|half| directory.segment(half));
        let len = directory.len(halves[0]) + directory.len(halves[1]);
        if left.depth() != right.depth() || len > MERGED_LEN_MAX {
            return false;
        }
        let mut filler = Filler::new(heap, bucket_count_for(len + len / 4), depth - 1);
        for half in [left, right] {
            // SAFETY: the memory is retired below at the earliest.
            let items = unsafe { half.view() }.items();
            items.for_each(|item| filler.insert(item));
        }
        directory.set(position, filler.finish());
        directory.set_len(position, len);
        self.deepest_count -= if depth == self.root.depth() { 2 } else { 0 };
        // SAFETY: (1) the table has replaced both by another one.
        self.retire(unsafe { left.retired() });
        // SAFETY: (1) likewise.
        self.retire(unsafe { right.retired() });
        if self.deepest_count == 0 {
            self.halve_directory(heap);
        }
        true
    }

    /// Doubles the directory for splits of the deepest segments; also creates the first directory.
    fn double_directory(&mut self, heap: &Heap) {
        let depth = self.directory_depth() + 1;
        self.replace_directory(heap, depth);
        self.deepest_count = 0;
    }

    /// Reduces the directory to the depth of its deepest segment; a single segment needs none.
    fn halve_directory(&mut self, heap: &Heap) {
        let depth = self.segments().map(|(_, segment)| segment.reference.depth()).max().unwrap_or(0);
        if depth == 0 {
            let directory = self.root;
            self.root = self.segment_ref(Position::new(0));
            // SAFETY: (1) the table has no directory any more.
            self.retire(unsafe { Directory::retired(directory) });
        } else {
            self.replace_directory(heap, depth);
            let is_deepest = |segment: &Segment<'_>| segment.reference.depth() == depth;
            self.deepest_count = self.segments().filter(|(_, segment)| is_deepest(segment)).count() as u32;
        }
    }

    fn replace_directory(&mut self, heap: &Heap, depth: u32) {
        let new = Directory::allocate(heap, depth);
        // SAFETY: only this table frees it.
        let directory: Directory<'_> = unsafe { Directory::view(new) };
        for (start, segment) in self.segments() {
            directory.set(start, segment.reference);
            directory.set_len(start, self.segment_len(start));
        }
        let old = std::mem::replace(&mut self.root, new);
        if old.is_directory() {
            // SAFETY: (1) the table has replaced it by another one.
            self.retire(unsafe { Directory::retired(old) });
        }
    }
}

/// Entries for each directory word below which a directory is not doubled.
const SPLIT_LEN_MIN: usize = 2 * BUCKET_COUNT_SPLIT;

/// Entries up to which two segments are merged: well below the number that splits the result again.
const MERGED_LEN_MAX: usize = capacity(BUCKET_COUNT_SPLIT) * 5 / 8;

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len)
            .field("volatile_len", &self.volatile_len)
            .field("volatile_members_len", &self.volatile_members_len)
            .field("depth", &self.directory_depth())
            .finish()
    }
}
