//! Plain bytes that are not encrypted yet, in order.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of one connection, or shared by several.
enum Piece {
    Own(Vec<u8>),
    Shared(Arc<Vec<u8>>),
}

/// A queue of plain bytes. Pieces leave it in portions, so that a long one is never encrypted as a whole.
///
/// Invariants:
/// 1. `size` is the number of bytes in `pieces`, without the first `done` of the first piece.
/// 2. No piece is empty, and `done` is less than the size of the first piece.
#[derive(Default)]
pub(crate) struct Outgoing {
    pieces: VecDeque<Piece>,
    done: usize,
    size: usize,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Outgoing {
    /// Bytes in the queue.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        self.push_piece(Piece::Own(bytes));
    }

    pub(crate) fn push_shared(&mut self, bytes: Arc<Vec<u8>>) {
        self.push_piece(Piece::Shared(bytes));
    }

    fn push_piece(&mut self, piece: Piece) {
        let size = piece.bytes().len();
        if size > 0 {
            self.size += size;
            self.pieces.push_back(piece);
        }
    }

    /// Passes the next bytes to `use_bytes`, at most `size_max`, and removes them. Small pieces are joined in `scratch`, so
    /// that they become one record.
    pub(crate) fn take<R>(
        &mut self,
        size_max: usize,
        scratch: &mut Vec<u8>,
        use_bytes: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let first = self.pieces.front()?.bytes();
        let rest = &first[self.done..];
        let (size, result) = if rest.len() >= size_max || self.pieces.len() == 1 {
            let size = rest.len().min(size_max);
            (size, use_bytes(&rest[..size]))
        } else {
            scratch.clear();
            let mut skipped = self.done;
            for piece in &self.pieces {
                let bytes = &piece.bytes()[skipped..];
                skipped = 0;
                scratch.extend_from_slice(&bytes[..bytes.len().min(size_max - scratch.len())]);
                if scratch.len() == size_max {
                    break;
                }
            }
            (scratch.len(), use_bytes(scratch))
        };
        self.remove(size);
        Some(result)
    }

    fn remove(&mut self, mut size: usize) {
        self.size -= size;
        while let Some(first) = self.pieces.front() {
            let rest = first.bytes().len() - self.done;
            if size < rest {
                self.done += size;
                break;
            }
            size -= rest;
            self.done = 0;
            self.pieces.pop_front();
        }
        self.check();
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn check(&self) {
        debug_assert_eq!(
            self.size + self.done,
            self.pieces.iter().map(|piece| piece.bytes().len()).sum::<usize>()
        );
        debug_assert!(self.pieces.front().is_none_or(|first| self.done < first.bytes().len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_and_cut() {
        let mut queue = Outgoing::default();
        queue.push(Vec::new());
        queue.push(b"abc".to_vec());
        queue.push_shared(Arc::new(b"0123456789".to_vec()));
        queue.push(b"xyz".to_vec());
        assert_eq!(queue.size(), 16);
        let mut scratch = Vec::new();
        let mut taken = Vec::new();
        while let Some(text) =
            queue.take(5, &mut scratch, |bytes| String::from_utf8_lossy(bytes).into_owned())
        {
            taken.push(text);
        }
        assert_eq!(taken, ["abc01", "23456", "789xy", "z"]);
        assert_eq!(queue.size(), 0);
        queue.push(b"abc".to_vec());
        queue.clear();
        assert_eq!((queue.size(), queue.take(5, &mut scratch, |_| ())), (0, None));
    }
}
