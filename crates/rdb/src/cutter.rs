//! A file as a sequence of events: the records before the keys, then one record a key.
//!
//! The cutter does not decode values but finds their ends, so one thread can cut while others decode. It owns no
//! bytes: the caller keeps a buffer, passes its contents, and drops the bytes that were cut. The text of a long string
//! need not be in this buffer: the caller can read it to where it stays.

use std::borrow::Cow;
use std::ops::Range;

use collections::DecimalBuffer;

use crate::checksum::Checksum;
use crate::error::{Error, Fault};
use crate::grammar::{Skip, skip_module_field};
use crate::input::{Input, Text};
use crate::value_type::ValueType;
use crate::version::{Family, HEADER_SIZE, Version};

const KEY_METADATA_OR_SLOT_IMPORT: u8 = 243;
const SLOT_INFO: u8 = 244;
pub(crate) const FUNCTION: u8 = 245;
const OLD_FUNCTIONS: u8 = 246;
const MODULE_AUX: u8 = 247;
pub(crate) const IDLE: u8 = 248;
pub(crate) const FREQUENCY: u8 = 249;
pub(crate) const AUX: u8 = 250;
pub(crate) const RESIZE: u8 = 251;
pub(crate) const EXPIRY_MS: u8 = 252;
const EXPIRY_SECONDS: u8 = 253;
pub(crate) const SELECT: u8 = 254;
pub(crate) const END: u8 = 255;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number of its database.
    pub db: u64,
    /// The key.
    pub key: Cow<'a, [u8]>,
    /// When it expires, Unix time in milliseconds.
    pub expiry: Option<i64>,
    /// Seconds since its last use.
    pub idle_seconds: Option<u64>,
    /// Its logarithmic use counter.
    pub frequency: Option<u8>,
    /// Whether modules have data about it, which is not read.
    pub has_module_metadata: bool,
    /// The type of the value.
    pub value_type: ValueType,
    /// The value, for [`crate::decode`].
    pub value: &'a [u8],
    /// The offset of the value in the file.
    pub offset: u64,
}

/// An item of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The version.
    Header(Version),
    /// A named property of the file or its writer.
    Aux {
        /// The name.
        name: Cow<'a, [u8]>,
        /// The value.
        value: Cow<'a, [u8]>,
    },
    /// The following keys are in this database.
    Select(u64),
    /// The number of keys in this database, and of those with an expiry, for the reader to reserve memory.
    Resize {
        /// Number of keys.
        key_count: u64,
        /// Number of keys with an expiry.
        volatile_count: u64,
    },
    /// The number of keys in a slot of a cluster, or the state of its import. Ignored.
    Slot,
    /// A library of functions: its source.
    Function(Cow<'a, [u8]>),
    /// Data of a module beside its keys, with the module's id.
    ModuleAux(u64),
    /// A key and its value.
    Key(Record<'a>),
    /// The end.
    End {
        /// Whether the checksum was compared; it was right.
        is_checked: bool,
    },
}

/// An event and the number of bytes that it took.
#[derive(Debug)]
pub struct Cut<'a> {
    /// The event.
    pub event: Event<'a>,
    /// Bytes to drop from the front of the input.
    pub size: usize,
}

/// Cuts a file into events.
///
/// | from | to | by |
/// |---|---|---|
/// | `Header` | `Body` | the header |
/// | `Body` | `Value` | a record whose end is not there yet |
/// | `Value` | `Body` | the end of the record, or its head without the text of a string |
/// | `Body` | `Done` | the end mark and the checksum |
#[derive(Debug)]
pub struct Cutter {
    state: CutterState,
    version: Version,
    takes_any_version: bool,
    /// The offset of the next event.
    offset: u64,
    db: u64,
    checksum: Option<Checksum>,
    skip: Skip,
    /// The position in the input of the value that is being skipped, if it is a string.
    string_at: Option<usize>,
    /// Whether the caller reads the text of the next value.
    leaves_text: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutterState {
    Header,
    Body,
    /// Within a value or the fields of a module; `skip` has the progress.
    Value,
    Done,
}

/// The attributes of a key that precede its type.
#[derive(Default)]
struct Attributes {
    expiry: Option<i64>,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
    has_module_metadata: bool,
}

impl Cutter {
    /// A cutter at the beginning of a file. `is_checked`: the checksum is computed and compared.
    #[must_use]
    pub fn new(is_checked: bool) -> Self {
        Self {
            state: CutterState::Header,
            version: Version::V11,
            takes_any_version: false,
            offset: 0,
            db: 0,
            checksum: is_checked.then(Checksum::new),
            skip: Skip::default(),
            string_at: None,
            leaves_text: false,
        }
    }

    /// Returns the cutter, which then also accepts unknown versions: their types may be known.
    #[must_use]
    pub fn taking_any_version(self) -> Self {
        Self { takes_any_version: true, ..self }
    }

    /// The file's version. Not meaningful before the header is cut.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The offset in the file up to which it is cut.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Cuts the next event off `input`, which continues where the last one ended. Returns `None` if `input` has only
    /// a part of it: call again with the same bytes and more after them. Must not be called after the end.
    ///
    /// # Errors
    ///
    /// The file is malformed, or has a type that is not known; it can't be cut further.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Option<Cut<'a>>, Error> {
        if self.state == CutterState::Done {
            return Ok(None);
        }
        let mut reader = Input::new(input, self.offset);
        match self.event(input, &mut reader) {
            Ok(event) => {
                let size = reader.position();
                self.string_at = None;
                match event {
                    Event::End { .. } => self.state = CutterState::Done,
                    _ => {
                        self.state = CutterState::Body;
                        self.checksum.iter_mut().for_each(|checksum| checksum.update(&input[..size]));
                    }
                }
                self.offset += size as u64;
                Ok(Some(Cut { event, size }))
            }
            Err(error) if error.fault == Fault::Truncated => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The place in `input` of the text of a string that is not compressed, after [`Self::next`] has returned `None` because
    /// the text does not end in `input`. The caller may then read the text into a buffer of its own, see
    /// [`Self::next_head`].
    #[must_use]
    pub fn pending_text(&self, input: &[u8]) -> Option<Range<usize>> {
        let at = self.string_at.filter(|_| self.state == CutterState::Value)?;
        let mut head = Input::new(input.get(at..)?, 0);
        let size = usize::try_from(head.len().ok()?).ok()?;
        let start = at + head.position();
        Some(start..start.checked_add(size)?)
    }

    /// Cuts the record of a string off without its text. `head` is the input up to the place of
    /// [`Self::pending_text`]; the caller passes the text to [`Self::pass_text`] before it cuts further.
    ///
    /// # Errors
    ///
    /// As [`Self::next`].
    pub fn next_head<'a>(&mut self, head: &'a [u8]) -> Result<Record<'a>, Error> {
        self.leaves_text = true;
        let mut reader = Input::new(head, self.offset);
        let event = self.event(head, &mut reader);
        self.leaves_text = false;
        let Event::Key(record) = event? else { return Err(reader.error(Fault::Length)) };
        self.state = CutterState::Body;
        self.string_at = None;
        self.pass_text(head);
        Ok(record)
    }

    /// Passes a part of the text after [`Self::next_head`].
    pub fn pass_text(&mut self, bytes: &[u8]) {
        self.checksum.iter_mut().for_each(|checksum| checksum.update(bytes));
        self.offset += bytes.len() as u64;
    }

    /// The error for a file that ends here, after `rest` bytes that are not cut.
    #[must_use]
    pub fn unexpected_end(&self, rest: usize) -> Error {
        Error::new(Fault::Truncated, self.offset + rest as u64)
    }

    fn event<'a>(&mut self, all: &'a [u8], input: &mut Input<'a>) -> Result<Event<'a>, Error> {
        if self.state == CutterState::Header {
            let before = *input;
            let version = Version::of_header(input.array::<HEADER_SIZE>()?, self.takes_any_version);
            self.version = version.map_err(|fault| before.error(fault))?;
            return Ok(Event::Header(self.version));
        }
        let mut attributes = Attributes::default();
        loop {
            let before = *input;
            match input.byte()? {
                EXPIRY_MS => attributes.expiry = Some(input.time()?),
                EXPIRY_SECONDS => {
                    let seconds = i32::from_le_bytes(input.array()?);
                    attributes.expiry = Some(i64::from(seconds) * 1000);
                }
                IDLE => attributes.idle_seconds = Some(input.len()?),
                FREQUENCY => attributes.frequency = Some(input.byte()?),
                AUX => return Ok(Event::Aux { name: bytes(input.text()?), value: bytes(input.text()?) }),
                SELECT => {
                    self.db = input.len()?;
                    return Ok(Event::Select(self.db));
                }
                RESIZE => return Ok(Event::Resize { key_count: input.len()?, volatile_count: input.len()? }),
                SLOT_INFO => {
                    for _ in 0..3 {
                        input.len()?;
                    }
                    return Ok(Event::Slot);
                }
                FUNCTION => return Ok(Event::Function(bytes(input.text()?))),
                OLD_FUNCTIONS => return Err(before.error(Fault::OldFunctions)),
                MODULE_AUX => {
                    let id = input.len()?;
                    let before_when = *input;
                    if input.len()? != 2 {
                        return Err(before_when.error(Fault::Module));
                    }
                    input.len()?;
                    self.skip_value(all, input, Skip::begin_module_fields)?;
                    return Ok(Event::ModuleAux(id));
                }
                KEY_METADATA_OR_SLOT_IMPORT if self.version.family == Family::Valkey => {
                    return slot_import(input);
                }
                KEY_METADATA_OR_SLOT_IMPORT => {
                    skip_key_metadata(input)?;
                    attributes.has_module_metadata = true;
                }
                END => return self.end(input),
                type_byte => return self.record(all, input, attributes, before, type_byte),
            }
        }
    }

    fn record<'a>(
        &mut self,
        all: &'a [u8],
        input: &mut Input<'a>,
        attributes: Attributes,
        before: Input<'a>,
        type_byte: u8,
    ) -> Result<Event<'a>, Error> {
        let key = bytes(input.text()?);
        let of_key = |error: Error| if error.fault == Fault::Truncated { error } else { error.of_key(&key) };
        let value_type = ValueType::of_byte(type_byte, self.version.family);
        let value_type = value_type.map_err(|fault| of_key(before.error(fault)))?;
        let offset = self.offset + input.position() as u64;
        self.string_at = (value_type == ValueType::String).then_some(input.position());
        let value = self.skip_value(all, input, |skip| skip.begin(value_type)).map_err(of_key)?;
        Ok(Event::Key(Record {
            db: self.db,
            key,
            expiry: attributes.expiry,
            idle_seconds: attributes.idle_seconds,
            frequency: attributes.frequency,
            has_module_metadata: attributes.has_module_metadata,
            value_type,
            value,
            offset,
        }))
    }

    /// Skips the value at the input's position, from the place where the last call stopped.
    fn skip_value<'a>(
        &mut self,
        all: &'a [u8],
        input: &mut Input<'a>,
        begin: impl FnOnce(&mut Skip),
    ) -> Result<&'a [u8], Error> {
        let start = input.position();
        if self.leaves_text {
            return input.take(all.len() - start);
        }
        if self.state != CutterState::Value {
            begin(&mut self.skip);
            self.state = CutterState::Value;
        }
        let size = self.skip.advance(&all[start..], self.offset + start as u64)?;
        input.take(size)
    }

    fn end<'a>(&mut self, input: &mut Input<'a>) -> Result<Event<'a>, Error> {
        if !self.version.has_checksum() {
            return Ok(Event::End { is_checked: false });
        }
        let before = *input;
        let written = u64::from_le_bytes(input.array()?);
        let Some(checksum) = self.checksum.as_mut().filter(|_| written != 0) else {
            return Ok(Event::End { is_checked: false });
        };
        checksum.update(&[END]);
        if checksum.value() != written {
            return Err(before.error(Fault::Checksum));
        }
        Ok(Event::End { is_checked: true })
    }
}

pub(crate) fn bytes(text: Text<'_>) -> Cow<'_, [u8]> {
    match text {
        Text::Bytes(bytes) => Cow::Borrowed(bytes),
        Text::Int(value) => Cow::Owned(DecimalBuffer::new().format(value).to_vec()),
        Text::Unpacked(bytes) => Cow::Owned(bytes),
    }
}

/// The name of a migration and its ranges of slots.
fn slot_import<'a>(input: &mut Input<'a>) -> Result<Event<'a>, Error> {
    input.skip_text()?;
    for _ in 0..input.len()? {
        input.len()?;
        input.len()?;
    }
    Ok(Event::Slot)
}

/// Skips classes of metadata, each with its name and tagged fields.
fn skip_key_metadata(input: &mut Input<'_>) -> Result<(), Error> {
    for _ in 0..input.len()? {
        input.take(4)?;
        while skip_module_field(input)? {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use collections::{AllocContext, Heap, KeyHasher, ValueRef};

    use super::*;
    use crate::file::{RecordHead, write_end};
    use crate::{Encoder, write_select};

    /// A file with a string of 500 bytes among others.
    fn file_with(text: &[u8], is_packing: bool) -> Vec<u8> {
        let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
        let alloc = AllocContext { heap: &heap, hasher: &hasher };
        let mut encoder = Encoder::new(Version::V11, is_packing);
        let mut out = Vec::new();
        encoder.write_header(&mut out);
        write_select(2, &mut out);
        let head = RecordHead { expiry: Some(77), usage: None };
        for (key, value) in
            [(&b"a"[..], ValueRef::Bytes(b"x")), (b"long", ValueRef::Bytes(text)), (b"z", ValueRef::Int(7))]
        {
            encoder.write_record(head, key, alloc, value, &mut out).expect("a string");
        }
        write_end(&mut out);
        let checksum = Checksum::of(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// The keys of a file, of which at first `cut` bytes are there. The text of a string that does not end there is read apart
    /// and returned.
    fn read_apart(file: &[u8], cut: usize) -> (Vec<String>, Option<Vec<u8>>) {
        let mut cutter = Cutter::new(true);
        let (mut keys, mut apart, mut input) = (Vec::new(), None, &file[..cut]);
        loop {
            match cutter.next(input).expect("a valid file") {
                Some(Cut { event: Event::End { is_checked }, .. }) => {
                    assert!(is_checked && cutter.offset() == file.len() as u64);
                    return (keys, apart);
                }
                Some(Cut { event, size }) => {
                    if let Event::Key(record) = event {
                        keys.push(format!("{} {} {:?}", record.db, record.key.escape_ascii(), record.expiry));
                    }
                    input = &input[size..];
                }
                None => {
                    let start = cutter.offset() as usize;
                    if let Some(text) = cutter.pending_text(input) {
                        assert!(start + text.end > cut);
                        let record =
                            cutter.next_head(&file[start..start + text.start]).expect("a valid head");
                        keys.push(format!("{} {} {:?}", record.db, record.key.escape_ascii(), record.expiry));
                        assert_eq!(record.offset as usize + record.value.len(), start + text.start);
                        let text = &file[start + text.start..start + text.end];
                        text.chunks(100).for_each(|part| cutter.pass_text(part));
                        apart = Some(text.to_vec());
                    }
                    input = &file[cutter.offset() as usize..];
                }
            }
        }
    }

    #[test]
    fn the_text_of_a_long_string_can_be_read_apart() {
        let text: Vec<u8> = (0..500_u32).map(|number| (number * 7 % 251) as u8).collect();
        let file = file_with(&text, false);
        let expected = ["2 a Some(77)", "2 long Some(77)", "2 z Some(77)"];
        let mut apart_count = 0;
        for cut in 0..file.len() {
            let (keys, apart) = read_apart(&file, cut);
            assert_eq!(keys, expected, "{cut}");
            if let Some(apart) = apart.filter(|apart| apart.len() > 1) {
                assert_eq!(apart, text, "{cut}");
                apart_count += 1;
            }
        }
        assert_eq!(apart_count, 500, "from the end of its length to its last byte but one");
    }

    #[test]
    fn the_text_of_a_compressed_string_is_not_read_apart() {
        let file = file_with(&[b'x'; 500], true);
        for cut in 0..file.len() {
            let (keys, apart) = read_apart(&file, cut);
            assert!(keys.len() == 3 && apart.is_none_or(|apart| apart.len() == 1), "{cut}");
        }
    }
}
