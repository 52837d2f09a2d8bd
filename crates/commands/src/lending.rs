//! Long strings of replies, which are lent to the connection instead of being copied into its output.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// No string up to this size is lent.
pub const COPIED_SIZE_MAX: usize = 1 << 10;

/// A long string that belongs into a reply.
pub struct Lent {
    /// Bytes of output before it.
    pub at: usize,
    /// The string, as it was when it was asked for.
    pub text: Arc<Vec<u8>>,
}

/// What a command lends to whom it answers.
#[derive(Default)]
pub struct Lending {
    is_accepted: Cell<bool>,
    lent: RefCell<Vec<Lent>>,
}

impl Lending {
    /// Whether what is lent is accepted; else everything is copied, as at the beginning. Returns what held before.
    pub fn accept(&self, is_accepted: bool) -> bool {
        self.is_accepted.replace(is_accepted)
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.is_accepted.get()
    }

    pub(crate) fn lend(&self, at: usize, text: Arc<Vec<u8>>) {
        self.lent.borrow_mut().push(Lent { at, text });
    }

    /// Forgets what was lent for output behind a place, which is cut off.
    pub(crate) fn forget_since(&mut self, mark: usize) {
        self.lent.get_mut().retain(|lent| lent.at <= mark);
    }

    /// Bytes that were lent for output behind a place.
    pub(crate) fn size_since(&mut self, mark: usize) -> usize {
        self.lent.get_mut().iter().filter(|lent| lent.at > mark).map(|lent| lent.text.len()).sum()
    }

    /// Whether anything was lent and not taken.
    #[inline]
    #[must_use]
    pub fn has_lent(&mut self) -> bool {
        !self.lent.get_mut().is_empty()
    }

    /// Moves what was lent to the end of `to`. Its size in bytes.
    pub fn take(&mut self, to: &mut Vec<Lent>) -> usize {
        let lent = self.lent.get_mut();
        let size = lent.iter().map(|lent| lent.text.len()).sum();
        to.append(lent);
        size
    }
}
