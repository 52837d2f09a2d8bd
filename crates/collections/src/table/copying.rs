//! Deep copies of tables: segment by segment, each of the size of its original.

use super::Table;
use crate::entry::owned_entry::OwnedEntry;
use crate::memory::heap::Heap;
use crate::memory::prefetch;
use crate::table::bucket::BucketItem;
use crate::table::directory::Directory;
use crate::table::segment::Filler;

impl Table {
    /// A deep copy, in `heap`. Computes no hashes and grows nothing: entries keep their positions.
    #[must_use]
    pub fn to_copy(&self, heap: &Heap) -> Self {
        let mut copy = Self::new();
        if self.root.is_directory() {
            copy.root = Directory::allocate(heap, self.root.depth());
        }
        for (start, segment) in self.segments() {
            let reference = segment.reference;
            let mut filler = Filler::new(heap, reference.bucket_count(), reference.depth());
            // All are prefetched before the first is read.
            segment.items().for_each(|item| prefetch::line(item.address()));
            let mut len = 0;
            for item in segment.items() {
                // SAFETY: (1) the segment is the table's.
                let source = unsafe { self.entry_of(item) };
                let volatility = source.volatility();
                let block = OwnedEntry::copy_of(source, heap, source.key()).into_block();
                filler.insert(BucketItem::new(item.position, block, volatility));
                copy.note_volatility(volatility);
                len += 1;
            }
            match copy.directory() {
                Some(directory) => {
                    directory.set(start, filler.finish());
                    directory.set_len(start, len);
                }
                None => copy.root = filler.finish(),
            }
            copy.len += len;
        }
        copy.deepest_count = self.deepest_count;
        copy
    }
}
