//! The structure of each type's values, as a grammar: enough to find where a value ends without decoding it.
//!
//! [`Skip`] walks a grammar over bytes that arrive in pieces, and continues where it stopped.

use crate::error::{Error, Fault};
use crate::input::Input;
use crate::value_type::{StreamForm, ValueType};

/// An item of a value.
#[derive(Debug)]
enum Item {
    Len,
    Text,
    Fixed(usize),
    /// A score as text: its length in a byte, of which values above 252 mean NaN and the infinities.
    TextScore,
    /// A count, then these items repeated so many times.
    Repeat(&'static [Item]),
    /// Tagged items of a module up to an end mark.
    Module,
}

use Item::{Fixed, Len, Module, Repeat, Text, TextScore};

type Grammar = &'static [Item];

const PENDING: Item = Repeat(&[Fixed(16), Fixed(8), Len]);
const OWNED: Item = Repeat(&[Fixed(16)]);
const CONSUMERS: Item = Repeat(&[Text, Fixed(8), OWNED]);
const CONSUMERS_WITH_ACTIVITY: Item = Repeat(&[Text, Fixed(8), Fixed(8), OWNED]);
const NODES: Item = Repeat(&[Text, Text]);
const PRODUCERS: Item = Repeat(&[Text, Repeat(&[Text, Len, Len])]);

const STREAM_V1: Grammar = &[NODES, Len, Len, Len, Repeat(&[Text, Len, Len, PENDING, CONSUMERS])];
const STREAM_V2: Grammar =
    &[NODES, Len, Len, Len, Len, Len, Len, Len, Len, Repeat(&[Text, Len, Len, Len, PENDING, CONSUMERS])];
const STREAM_V3: Grammar = &[
    NODES,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Repeat(&[Text, Len, Len, Len, PENDING, CONSUMERS_WITH_ACTIVITY]),
];
const STREAM_V4: Grammar = &[
    NODES,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Repeat(&[Text, Len, Len, Len, PENDING, CONSUMERS_WITH_ACTIVITY]),
    Len,
    Len,
    PRODUCERS,
    Len,
    Len,
];
const STREAM_V5: Grammar = &[
    NODES,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Len,
    Repeat(&[Text, Len, Len, Len, PENDING, CONSUMERS_WITH_ACTIVITY, OWNED]),
    Len,
    Len,
    PRODUCERS,
    Len,
    Len,
];

fn grammar(value_type: ValueType) -> Grammar {
    match value_type {
        ValueType::String
        | ValueType::HashZipmap
        | ValueType::ListZiplist
        | ValueType::SetIntset
        | ValueType::SortedSetZiplist
        | ValueType::HashZiplist
        | ValueType::HashListpack
        | ValueType::SortedSetListpack
        | ValueType::SetListpack
        | ValueType::HashListpackAbsolute => &[Text],
        ValueType::HashListpackWithEarliest => &[Fixed(8), Text],
        ValueType::List | ValueType::Set | ValueType::ListOfZiplists => &[Repeat(&[Text])],
        ValueType::SortedSetText => &[Repeat(&[Text, TextScore])],
        ValueType::SortedSet => &[Repeat(&[Text, Fixed(8)])],
        ValueType::Hash => &[Repeat(&[Text, Text])],
        ValueType::HashWithTimes => &[Repeat(&[Text, Text, Fixed(8)])],
        ValueType::HashAbsolute => &[Repeat(&[Len, Text, Text])],
        ValueType::HashRelative => &[Fixed(8), Repeat(&[Len, Text, Text])],
        ValueType::ListOfListpacks => &[Repeat(&[Len, Text])],
        ValueType::Module => &[Len, Module],
        ValueType::Stream(StreamForm::V1) => STREAM_V1,
        ValueType::Stream(StreamForm::V2) => STREAM_V2,
        ValueType::Stream(StreamForm::V3) => STREAM_V3,
        ValueType::Stream(StreamForm::V4) => STREAM_V4,
        ValueType::Stream(StreamForm::V5) => STREAM_V5,
    }
}

/// The progress through a value.
#[derive(Debug, Default)]
pub(crate) struct Skip {
    /// Bytes of the value that are skipped.
    at: usize,
    stack: Vec<Frame>,
}

#[derive(Debug)]
struct Frame {
    items: Grammar,
    /// The next of the items.
    next: usize,
    /// Repetitions that are left, with the present one.
    left: u64,
}

impl Skip {
    /// Begins with a value.
    pub(crate) fn begin(&mut self, value_type: ValueType) {
        self.begin_with(grammar(value_type));
    }

    /// Begins with the fields of a module.
    pub(crate) fn begin_module_fields(&mut self) {
        self.begin_with(&[Module]);
    }

    fn begin_with(&mut self, items: Grammar) {
        self.at = 0;
        self.stack.clear();
        self.stack.push(Frame { items, next: 0, left: 1 });
    }

    /// Continues in `bytes`, which begin with the value: the bytes of the last call, and more after them.
    /// Returns the value's size.
    ///
    /// # Errors
    ///
    /// `Truncated` if the value does not end in these bytes: call again with more. Others are final.
    pub(crate) fn advance(&mut self, bytes: &[u8], base: u64) -> Result<usize, Error> {
        while let Some(frame) = self.stack.last_mut() {
            let Some(item) = frame.items.get(frame.next) else {
                frame.left -= 1;
                frame.next = 0;
                if frame.left == 0 {
                    self.stack.pop();
                }
                continue;
            };
            let mut input = Input::new(&bytes[self.at..], base + self.at as u64);
            match item {
                Len => _ = input.len()?,
                Text => input.skip_text()?,
                TextScore => skip_text_score(&mut input)?,
                Fixed(size) => _ = input.take(*size)?,
                Repeat(items) => {
                    let left = input.len()?;
                    frame.next += 1;
                    self.at += input.position();
                    if left > 0 {
                        self.stack.push(Frame { items, next: 0, left });
                    }
                    continue;
                }
                Module => {
                    if skip_module_field(&mut input)? {
                        self.at += input.position();
                        continue;
                    }
                }
            }
            frame.next += 1;
            self.at += input.position();
        }
        Ok(self.at)
    }
}

fn skip_text_score(input: &mut Input<'_>) -> Result<(), Error> {
    match input.byte()? {
        253.. => Ok(()),
        len => input.take(len.into()).map(|_| ()),
    }
}

/// Skips a tagged field. Returns false at the end mark.
pub(crate) fn skip_module_field(input: &mut Input<'_>) -> Result<bool, Error> {
    let before = *input;
    match input.len()? {
        0 => return Ok(false),
        1 | 2 => _ = input.len()?,
        3 => _ = input.take(4)?,
        4 => _ = input.take(8)?,
        5 => input.skip_text()?,
        _ => return Err(before.error(Fault::Module)),
    }
    Ok(true)
}
