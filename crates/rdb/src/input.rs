//! The items that files are made of: lengths, strings, and numbers of fixed size.

use std::cell::Cell;

use collections::Item;

use crate::error::{Error, Fault};
use crate::lzf;

/// A position in bytes that are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The offset of `bytes` in the file.
    base: u64,
    /// Is informed about what is read.
    progress: Option<&'a Progress<'a>>,
}

/// Passes on how much of a long value is decoded.
pub struct Progress<'a> {
    /// Bytes that were passed on.
    passed: Cell<usize>,
    pass: &'a dyn Fn(usize),
}

/// Bytes after which they are passed on.
const PROGRESS_SIZE: usize = 1 << 20;

impl<'a> Progress<'a> {
    /// Calls `pass` with numbers of bytes.
    #[must_use]
    pub fn new(pass: &'a dyn Fn(usize)) -> Self {
        Self { passed: Cell::new(0), pass }
    }

    #[inline]
    fn note(&self, at: usize) {
        let size = at.saturating_sub(self.passed.get());
        if size >= PROGRESS_SIZE {
            self.passed.set(at);
            (self.pass)(size);
        }
    }
}

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.passed.get())
    }
}

/// A string as it is stored.
#[derive(Debug)]
pub(crate) enum Text<'a> {
    Bytes(&'a [u8]),
    Int(i64),
    Unpacked(Vec<u8>),
}

/// The length of a string, or how it is encoded.
enum Head {
    Len(u64),
    Int { size: usize },
    Packed,
}

impl Text<'_> {
    pub(crate) fn item(&self) -> Item<'_> {
        match self {
            Self::Bytes(bytes) => Item::Bytes(bytes),
            Self::Int(value) => Item::Int(*value),
            Self::Unpacked(bytes) => Item::Bytes(bytes),
        }
    }

    /// Its bytes; an integer has none.
    pub(crate) fn blob(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Int(_) => &[],
            Self::Unpacked(bytes) => bytes,
        }
    }
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, at: 0, base, progress: None }
    }

    /// The input, which informs about its progress at its strings.
    pub(crate) fn noting(self, progress: &'a Progress<'a>) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// An error at the present position.
    pub(crate) fn error(&self, fault: Fault) -> Error {
        Error::new(fault, self.base + self.at as u64)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        match self.bytes[self.at..].get(..count) {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => Err(self.error(Fault::Truncated)),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many bytes were taken"))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        self.array().map(|[byte]| byte)
    }

    /// A time in milliseconds, or another signed number of eight bytes.
    pub(crate) fn time(&mut self) -> Result<i64, Error> {
        self.array().map(i64::from_le_bytes)
    }

    /// A length or count.
    pub(crate) fn len(&mut self) -> Result<u64, Error> {
        let before = *self;
        match self.head()? {
            Head::Len(len) => Ok(len),
            Head::Int { .. } | Head::Packed => Err(before.error(Fault::Length)),
        }
    }

    /// The length of bytes that follow.
    fn size(&mut self) -> Result<usize, Error> {
        let before = *self;
        usize::try_from(self.len()?).map_err(|_| before.error(Fault::Length))
    }

    fn head(&mut self) -> Result<Head, Error> {
        let before = *self;
        let first = self.byte()?;
        Ok(match (first >> 6, first & 0x3f) {
            (0, low) => Head::Len(u64::from(low)),
            (1, high) => Head::Len(u64::from(high) << 8 | u64::from(self.byte()?)),
            (2, 0) => Head::Len(u64::from(u32::from_be_bytes(self.array()?))),
            (2, 1) => Head::Len(u64::from_be_bytes(self.array()?)),
            (3, power @ 0..=2) => Head::Int { size: 1 << power },
            (3, 3) => Head::Packed,
            _ => return Err(before.error(Fault::Length)),
        })
    }

    /// A string.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<Text<'a>, Error> {
        let before = *self;
        if let Some(progress) = self.progress {
            progress.note(self.at);
        }
        match self.head()? {
            Head::Len(len) => {
                let len = usize::try_from(len).map_err(|_| before.error(Fault::Length))?;
                self.take(len).map(Text::Bytes)
            }
            Head::Int { size: 1 } => self.array().map(|bytes| Text::Int(i8::from_le_bytes(bytes).into())),
            Head::Int { size: 2 } => self.array().map(|bytes| Text::Int(i16::from_le_bytes(bytes).into())),
            Head::Int { .. } => self.array().map(|bytes| Text::Int(i32::from_le_bytes(bytes).into())),
            Head::Packed => {
                let (packed_size, size) = (self.size()?, self.size()?);
                let packed = self.take(packed_size)?;
                let mut bytes = Vec::new();
                if !lzf::unpack(packed, size, &mut bytes) {
                    return Err(before.error(Fault::Compression));
                }
                Ok(Text::Unpacked(bytes))
            }
        }
    }

    /// Skips a string.
    #[inline]
    pub(crate) fn skip_text(&mut self) -> Result<(), Error> {
        let before = *self;
        let size = match self.head()? {
            Head::Len(len) => usize::try_from(len).map_err(|_| before.error(Fault::Length))?,
            Head::Int { size } => size,
            Head::Packed => {
                let packed_size = self.size()?;
                self.size()?;
                packed_size
            }
        };
        self.take(size).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output;

    #[test]
    fn lengths_have_four_forms() {
        for (len, size) in [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 5), (1 << 32, 9), (u64::MAX, 9)] {
            let mut bytes = Vec::new();
            output::write_len(len, &mut bytes);
            assert_eq!(bytes.len(), size);
            assert_eq!(Input::new(&bytes, 0).len(), Ok(len));
            for cut in 0..size {
                let error = Input::new(&bytes[..cut], 7).len().expect_err("the input is truncated");
                assert_eq!(error.fault, Fault::Truncated);
            }
        }
        assert_eq!(Input::new(&[0x82], 5).len(), Err(Error::new(Fault::Length, 5)));
        assert_eq!(Input::new(&[0xc0, 1], 0).len(), Err(Error::new(Fault::Length, 0)));
    }

    #[test]
    fn wrong_lengths_cause_no_large_allocation() {
        let mut bytes = vec![0xc3];
        output::write_len(2, &mut bytes);
        output::write_len(1 << 40, &mut bytes);
        bytes.extend([0, b'x']);
        let error = Input::new(&bytes, 0).text().expect_err("the length is too large");
        assert_eq!(error.fault, Fault::Compression);
    }
}
