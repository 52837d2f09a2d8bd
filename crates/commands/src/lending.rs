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

/// Long strings between the bytes of an output, in order.
#[derive(Default)]
pub struct LentTexts(Vec<Lent>);

impl LentTexts {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of those behind a place in the output.
    #[must_use]
    pub fn size_since(&self, mark: usize) -> usize {
        self.0.iter().filter(|lent| lent.at > mark).map(|lent| lent.text.len()).sum()
    }

    /// Forgets those behind a place in the output, which is cut off there.
    pub fn forget_since(&mut self, mark: usize) {
        self.0.retain(|lent| lent.at <= mark);
    }

    /// Moves all of `others` to the end.
    pub fn append(&mut self, others: &mut Self) {
        self.0.append(&mut others.0);
    }

    /// All of them, the last one first.
    pub fn into_iter_from_end(self) -> impl Iterator<Item = Lent> {
        self.0.into_iter().rev()
    }
}

/// What a command lends to whom it answers.
#[derive(Default)]
pub struct Lending {
    is_accepted: Cell<bool>,
    lent: RefCell<LentTexts>,
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
        self.lent.borrow_mut().0.push(Lent { at, text });
    }

    /// What was lent and not taken.
    #[inline]
    #[must_use]
    pub fn lent(&mut self) -> &mut LentTexts {
        self.lent.get_mut()
    }
}
