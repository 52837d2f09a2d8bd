//! A reply that a handler cannot omit: it returns [`Replied`], which only a consumed [`Reply`] creates.
//!
//! Never writes to a socket: bytes go to the connection's output buffer. On `Err` the dispatcher truncates
//! the buffer to where the reply began and writes the error instead.

use std::ops::{Deref, DerefMut};

use collections::Item;
use wire::reply::ReplyBuffer;

/// Proof that exactly one reply was written.
#[must_use]
#[derive(Debug)]
pub struct Replied(());

/// The right to write one reply.
pub struct Reply<'a> {
    out: ReplyBuffer<'a>,
}

impl<'a> Reply<'a> {
    /// Creates the right to write one reply to `out`.
    #[must_use]
    pub fn new(out: ReplyBuffer<'a>) -> Self {
        Self { out }
    }

    /// Whether the protocol is RESP3.
    #[must_use]
    pub fn is_resp3(&self) -> bool {
        self.out.is_resp3()
    }

    /// `+OK`
    pub fn ok(mut self) -> Replied {
        self.out.ok();
        Replied(())
    }

    /// A simple string; `text` contains no line end.
    pub fn simple(mut self, text: &str) -> Replied {
        self.out.simple(text);
        Replied(())
    }

    /// A bulk string.
    pub fn bulk(mut self, bytes: &[u8]) -> Replied {
        self.out.bulk(bytes);
        Replied(())
    }

    /// A bulk string with the decimal digits of `value`.
    pub fn bulk_integer(mut self, value: i64) -> Replied {
        self.out.bulk_int(value);
        Replied(())
    }

    /// An integer.
    pub fn integer(mut self, value: i64) -> Replied {
        self.out.integer(value);
        Replied(())
    }

    /// A boolean as integer 1 or 0.
    pub fn flag(self, value: bool) -> Replied {
        self.integer(i64::from(value))
    }

    /// Null: `$-1` in RESP2, `_` in RESP3.
    pub fn null(mut self) -> Replied {
        self.out.null();
        Replied(())
    }

    /// Null where an array is expected: `*-1` in RESP2, `_` in RESP3.
    pub fn null_array(mut self) -> Replied {
        self.out.null_array();
        Replied(())
    }

    /// A double.
    pub fn double(mut self, value: f64) -> Replied {
        self.out.double(value);
        Replied(())
    }

    /// A double, or null for `None`.
    pub fn double_or_null(self, value: Option<f64>) -> Replied {
        match value {
            Some(value) => self.double(value),
            None => self.null(),
        }
    }

    /// A verbatim string (RESP3) or bulk string (RESP2); `format` is three letters.
    pub fn verbatim(mut self, format: &[u8; 3], text: &[u8]) -> Replied {
        self.out.verbatim(format, text);
        Replied(())
    }

    /// Opens a reply of several parts: write them, then call [`Parts::done`].
    pub fn parts(self) -> Parts<'a> {
        Parts { out: self.out }
    }

    /// Opens an array of `count` parts.
    pub fn array(mut self, count: usize) -> Parts<'a> {
        self.out.array(count);
        self.parts()
    }

    /// Opens a map of `count` pairs.
    pub fn map(mut self, count: usize) -> Parts<'a> {
        self.out.map(count);
        self.parts()
    }

    /// Writes nothing (`CLIENT REPLY OFF`, deferred replies).
    pub fn nothing(self) -> Replied {
        Replied(())
    }
}

/// An open reply: derefs to [`ReplyBuffer`], closed by [`Parts::done`].
#[must_use]
pub struct Parts<'a> {
    out: ReplyBuffer<'a>,
}

impl Parts<'_> {
    /// Completes the reply.
    pub fn done(self) -> Replied {
        Replied(())
    }

    /// Writes an element of a collection as a bulk string.
    #[inline]
    pub fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Bytes(bytes) => self.out.bulk(bytes),
            Item::Int(value) => self.out.bulk_int(value),
        }
    }
}

impl<'a> Deref for Parts<'a> {
    type Target = ReplyBuffer<'a>;

    fn deref(&self) -> &Self::Target {
        &self.out
    }
}

impl DerefMut for Parts<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.out
    }
}
