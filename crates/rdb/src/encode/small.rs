//! Collections in one piece of memory: listpacks and sets of integers.

use collections::{DecimalBuffer, Hash, Item, List, ListPart, Set, SortedSet};

use super::Encoder;
use crate::intset;
use crate::lzf::Packer;
use crate::output::{LEN_SIZE_MAX, write_blob, write_int_text, write_len, write_text};

/// Bytes up to which a node of a list takes elements: the default of Redis.
const NODE_SIZE_MAX: usize = 8192;
/// A node that is one long element.
const NODE_PLAIN: u64 = 1;
/// A node that is a listpack.
const NODE_PACKED: u64 = 2;

/// Appends an element as a string.
pub(super) fn write_item(item: Item<'_>, packer: Option<&mut Packer>, out: &mut Vec<u8>) {
    match item {
        Item::Int(value) => write_int_text(value, out),
        Item::Bytes(text) => write_text(text, packer, out),
    }
}

impl Encoder {
    /// Nodes up to a size, with longer elements as nodes by themselves. A `listpack` is one node.
    pub(super) fn list_of_listpacks(&mut self, list: &List, out: &mut Vec<u8>) {
        let size_max = node_size_max(list);
        let start = out.len();
        let mut node_count = 0;
        self.listpack.clear();
        list.walk(0, |_, item| {
            let len = item.len();
            let is_plain = len > size_max;
            if !self.listpack.is_empty() && (is_plain || self.listpack.size() + len > size_max) {
                self.write_node(out);
                node_count += 1;
            }
            if is_plain {
                let mut buffer = DecimalBuffer::new();
                write_len(NODE_PLAIN, out);
                write_blob(item.text(&mut buffer), self.packer.as_mut(), out);
                node_count += 1;
            } else {
                self.listpack.push(item);
            }
            true
        });
        if !self.listpack.is_empty() {
            self.write_node(out);
            node_count += 1;
        }
        // Moving the nodes up takes less time than to determine their number before.
        let mut head = Vec::with_capacity(LEN_SIZE_MAX);
        write_len(node_count, &mut head);
        out.splice(start..start, head);
    }

    /// One node.
    pub(super) fn list_part(&mut self, part: ListPart<'_>, out: &mut Vec<u8>) {
        if let Some(text) = part.single() {
            write_len(NODE_PLAIN, out);
            return write_blob(text, self.packer.as_mut(), out);
        }
        self.listpack.clear();
        part.for_each(|item| self.listpack.push(item));
        self.write_node(out);
    }

    fn write_node(&mut self, out: &mut Vec<u8>) {
        write_len(NODE_PACKED, out);
        self.write_listpack(out);
    }

    /// Appends the listpack and begins another one.
    pub(super) fn write_listpack(&mut self, out: &mut Vec<u8>) {
        write_blob(self.listpack.finish(), self.packer.as_mut(), out);
        self.listpack.clear();
    }

    pub(super) fn small_set(&mut self, set: &Set, out: &mut Vec<u8>) {
        if !set.is_intset() {
            self.listpack.clear();
            set.walk(|member| {
                self.push(member);
                true
            });
            return self.write_listpack(out);
        }
        self.ints.clear();
        self.ints.extend(set.iter().filter_map(|member| match member {
            Item::Int(value) => Some(value),
            Item::Bytes(_) => None,
        }));
        let mut blob = Vec::with_capacity(8 + 8 * self.ints.len());
        intset::write(&self.ints, &mut blob);
        write_blob(&blob, self.packer.as_mut(), out);
    }

    pub(super) fn small_sorted_set(&mut self, set: &SortedSet, out: &mut Vec<u8>) {
        self.listpack.clear();
        for (member, score) in set.iter() {
            self.listpack.push_text(member);
            self.push_score(score);
        }
        self.write_listpack(out);
    }

    pub(super) fn small_hash(&mut self, hash: &Hash, out: &mut Vec<u8>) {
        self.listpack.clear();
        hash.visit(i64::MIN, |field, value| {
            self.push(field);
            self.push(value);
            true
        });
        self.write_listpack(out);
    }

    /// Appends an element, as an integer if it is the text of one.
    pub(super) fn push(&mut self, item: Item<'_>) {
        match item {
            Item::Int(_) => self.listpack.push(item),
            Item::Bytes(text) => self.listpack.push_text(text),
        }
    }

    fn push_score(&mut self, score: f64) {
        let whole = score as i64;
        if whole as f64 == score && whole.unsigned_abs() < 1 << 53 {
            return self.listpack.push(Item::Int(whole));
        }
        // The shortest text that means this number; "inf" and "-inf" are also Redis's texts.
        self.listpack.push_text(format!("{score:?}").as_bytes());
    }
}

/// Bytes of a node up to which it takes elements.
fn node_size_max(list: &List) -> usize {
    if list.encoding_name() == "listpack" { usize::MAX } else { NODE_SIZE_MAX }
}
