//! Removing many groups of a packed sequence in one pass.

use super::Packed;
use super::block::PackedBlock;
use super::groups::read_group;

use super::element::Item;

impl<const N: usize, const FIND: bool> Packed<N, FIND> {
    /// Number of groups whose first element is `text`.
    #[must_use]
    pub fn count_of(&self, text: &[u8]) -> usize {
        let mut count = 0;
        let mut from = 0;
        while let Some(found) = self.find(text, from) {
            count += 1;
            from = found + 1;
            // Without an index each search starts with a walk to its first group.
            if count >= 8 {
                return count + self.iter_from(from).filter(|group| group[0].is(text)).count();
            }
        }
        count
    }

    /// Keeps the groups for which `keep` returns true. Moves each of them at most once, and writes the
    /// index once.
    pub fn retain(&mut self, mut keep: impl FnMut([Item<'_>; N]) -> bool) {
        let (start, end, len) = (self.start(), self.end(), self.len());
        let (mut kept_end, mut kept_len) = (start, 0);
        let mut at = start;
        while at < end {
            let (group, rest) = read_group::<N>(&self.block.bytes()[at..end]);
            let next = end - rest.len();
            if keep(group) {
                if at > kept_end {
                    self.block.bytes_mut().copy_within(at..next, kept_end);
                }
                kept_end += next - at;
                kept_len += 1;
            }
            at = next;
        }
        if kept_len == len {
            return;
        }
        if kept_len == 0 {
            self.block = PackedBlock::new();
            return;
        }
        self.block.update(|head| {
            head.used = (kept_end - start) as u16;
            head.len = kept_len as u16;
            if kept_len < Self::INDEX_LEN_KEPT_MIN {
                head.set_index_capacity(0);
            }
        });
        if self.block.head().index_capacity() > 0 {
            self.write_index(0..kept_len);
        }
        self.shrink_if_roomy();
    }
}
