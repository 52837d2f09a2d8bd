//! Finding a key in its segment: at home inline, beyond it by a call.
//!
//! Touches nothing: whoever changes what is found has the table for writing.

use crate::bucket::Position;
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

    /// The place of a key in its segment.
    #[inline(always)]
    pub(crate) fn place_in<'a>(
        &self,
        segment: Segment<'a>,
        position: Position,
        key: &[u8],
    ) -> Option<Place<'a>> {
        // Four in five are at home.
        let (bucket_index, bucket) = segment.home(position)?;
        let mut matches = bucket.matches(position);
        for (index, item) in matches.by_ref() {
            if self.entry_of(item).has_key(key) {
                return Some(Place { bucket, bucket_index, index, item });
            }
        }
        // Not returned as it is: then the place of one at home would be written to memory, too, and waited for there.
        let Place { bucket, bucket_index, index, item } =
            if matches.may_go_on() { self.place_beyond_home(segment, position, key)? } else { return None };
        Some(Place { bucket, bucket_index, index, item })
    }

    #[inline(never)]
    fn place_beyond_home<'a>(
        &self,
        segment: Segment<'a>,
        position: Position,
        key: &[u8],
    ) -> Option<Place<'a>> {
        let mut path = segment.path(position);
        while path.advance() {
            let bucket_index = path.bucket_index();
            let bucket = segment.buckets.get(bucket_index)?;
            let mut matches = bucket.matches(position);
            let found = matches.find(|(_, item)| self.entry_of(*item).has_key(key));
            if let Some((index, item)) = found {
                return Some(Place { bucket, bucket_index, index, item });
            }
            if !matches.may_go_on() {
                return None;
            }
        }
        None
    }
}
