//! Finding a key in its segment: where it was seen inline, elsewhere by a call.
//!
//! Touches nothing: whoever changes what is found has the table for writing.

use crate::bucket::Position;
use crate::entry::Entry;
use crate::entry_mut::EntryMut;
use crate::guess::Guess;
use crate::heap::Heap;
use crate::prefetch;
use crate::segment::{Place, Segment};
use crate::table::Table;

impl Table {
    /// Asks for the bucket in which the key of this hash is at home.
    #[inline]
    pub(crate) fn prefetch_home(&self, hash: u64) {
        let position = Position::of_hash(hash);
        if let Some((_, bucket)) = self.segment(position).home(position) {
            prefetch::line(std::ptr::from_ref(bucket).addr());
        }
    }

    /// The entry of a key.
    #[inline(never)]
    #[must_use]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<Entry<'_>> {
        let position = Position::of_hash(hash);
        let place = self.place_in(self.segment(position), position, key)?;
        Some(self.entry_of(place.item))
    }

    /// The entry of a key, which is probably where it was seen.
    #[inline(always)]
    #[must_use]
    pub fn find_near(&self, guess: Guess, hash: u64, key: &[u8]) -> Option<Entry<'_>> {
        let position = Position::of_hash(hash);
        let guessed = self.segment(position).place_at(guess, position).map(|place| self.entry_of(place.item));
        guessed.filter(|entry| entry.has_key(key)).or_else(|| self.find(hash, key))
    }

    /// The entry of a key, to be changed.
    #[inline]
    #[must_use]
    pub fn find_mut<'a>(&'a mut self, heap: &'a Heap, hash: u64, key: &[u8]) -> Option<EntryMut<'a>> {
        self.find_mut_near(Guess::NONE, heap, hash, key)
    }

    /// The same of one that is probably where it was seen.
    #[inline]
    #[must_use]
    pub fn find_mut_near<'a>(
        &'a mut self,
        guess: Guess,
        heap: &'a Heap,
        hash: u64,
        key: &[u8],
    ) -> Option<EntryMut<'a>> {
        let (segment, place) = self.find_place(guess, hash, key)?;
        Some(EntryMut::new(self, heap, segment, place))
    }

    /// The place of a key. It is good until segments are replaced, which no borrow tells.
    #[inline(always)]
    pub(crate) fn find_place<'a>(
        &mut self,
        guess: Guess,
        hash: u64,
        key: &[u8],
    ) -> Option<(Segment<'a>, Place<'a>)> {
        let position = Position::of_hash(hash);
        // SAFETY: the table owns its segments; callers are done with the place before they replace any.
        let segment: Segment<'a> = unsafe { self.segment_ref(position).view() };
        if let Some(place) = segment.place_at(guess, position)
            && self.entry_of(place.item).has_key(key)
        {
            return Some((segment, place));
        }
        // Not returned as it is: then a place that was guessed would be written to memory, too, and waited for there.
        let Place { bucket, bucket_index, index, item } = self.place_in(segment, position, key)?;
        Some((segment, Place { bucket, bucket_index, index, item }))
    }

    /// The place of a key in its segment. Ten keys in eleven are at home.
    #[inline(never)]
    fn place_in<'a>(&self, segment: Segment<'a>, position: Position, key: &[u8]) -> Option<Place<'a>> {
        let mut path = segment.path(position);
        loop {
            let bucket_index = path.bucket_index();
            let bucket = segment.buckets.get(bucket_index)?;
            let mut matches = bucket.matches(position);
            let found = matches.find(|(_, item)| self.entry_of(*item).has_key(key));
            if let Some((index, item)) = found {
                return Some(Place { bucket, bucket_index, index, item });
            }
            if !matches.may_go_on() || !path.advance() {
                return None;
            }
        }
    }
}
