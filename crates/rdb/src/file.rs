//! A file's bytes around its values: the header, properties, databases, the heads of records and the end.
//!
//! The caller writes them in order: [`Encoder::write_header`], properties, then for each run of keys of one database
//! [`write_select`] and its records, and [`write_end`]. A database may come several times.

use collections::{AllocContext, ValueRef};

use crate::cutter::{AUX, END, EXPIRY_MS, FREQUENCY, FUNCTION, IDLE, RESIZE, SELECT};
use crate::encode::{ElementForm, Encoder, FieldExpiriesLost};
use crate::output::write_len;

/// The attributes of a key in its record, besides the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHead {
    /// When it expires, Unix time in milliseconds.
    pub expiry: Option<i64>,
    /// Its use.
    pub usage: Option<Usage>,
}

/// How a key was used, of which a file has one or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Seconds since its last use.
    IdleSeconds(u64),
    /// Its logarithmic use counter.
    Frequency(u8),
}

impl Encoder {
    /// Appends the magic string with the version.
    pub fn write_header(&self, out: &mut Vec<u8>) {
        out.extend(self.version().header());
    }

    /// Appends a property of the file.
    pub fn write_aux(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.push(AUX);
        self.write_string(name, out);
        self.write_string(value, out);
    }

    /// Appends the source of a library of functions.
    pub fn write_function(&mut self, source: &[u8], out: &mut Vec<u8>) {
        out.push(FUNCTION);
        self.write_string(source, out);
    }

    /// Appends a key with its value.
    ///
    /// # Errors
    ///
    /// As [`Self::type_byte`]. Then nothing is appended.
    pub fn write_record(
        &mut self,
        head: RecordHead,
        key: &[u8],
        alloc: AllocContext<'_>,
        value: ValueRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FieldExpiriesLost> {
        self.write_record_head(head, key, value, out)?;
        self.write_value(alloc, value, out)
    }

    /// Appends a key, and the beginning of its value, which is a collection with elements to be appended one by one.
    /// `None` if its value is written in another form: then nothing is appended.
    ///
    /// # Errors
    ///
    /// As [`Self::type_byte`]. Then nothing is appended.
    pub fn begin_record(
        &mut self,
        head: RecordHead,
        key: &[u8],
        value: ValueRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<ElementForm>, FieldExpiriesLost> {
        let start = out.len();
        self.write_record_head(head, key, value, out)?;
        let form = self.begin_elements(value, out)?;
        if form.is_none() {
            out.truncate(start);
        }
        Ok(form)
    }

    fn write_record_head(
        &mut self,
        head: RecordHead,
        key: &[u8],
        value: ValueRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), FieldExpiriesLost> {
        let type_byte = self.type_byte(value)?;
        if let Some(at) = head.expiry {
            out.push(EXPIRY_MS);
            out.extend(at.to_le_bytes());
        }
        match head.usage {
            Some(Usage::IdleSeconds(seconds)) => {
                out.push(IDLE);
                write_len(seconds, out);
            }
            Some(Usage::Frequency(counter)) => out.extend([FREQUENCY, counter]),
            None => {}
        }
        out.push(type_byte);
        self.write_string(key, out);
        Ok(())
    }
}

/// Appends that the following keys are in this database.
pub fn write_select(db: u64, out: &mut Vec<u8>) {
    out.push(SELECT);
    write_len(db, out);
}

/// Appends the number of keys of the selected database, and of those with an expiry.
pub fn write_resize(key_count: u64, volatile_count: u64, out: &mut Vec<u8>) {
    out.push(RESIZE);
    write_len(key_count, out);
    write_len(volatile_count, out);
}

/// The byte that ends a file; the checksum of all bytes up to and including it follows, 0 for none.
pub fn write_end(out: &mut Vec<u8>) {
    out.push(END);
}

#[cfg(test)]
mod tests {
    use collections::{Heap, KeyHasher};

    use super::*;
    use crate::checksum::Checksum;
    use crate::cutter::{Cutter, Event};
    use crate::version::Version;

    /// The events of a file, without values.
    fn events(mut bytes: &[u8]) -> Vec<String> {
        let mut cutter = Cutter::new(true);
        let mut events = Vec::new();
        while let Some(cut) = cutter.next(bytes).expect("a valid file") {
            let is_end = matches!(cut.event, Event::End { .. });
            events.push(match cut.event {
                Event::Key(record) => format!(
                    "{} {:?} {:?} {:?} {:?}",
                    record.db,
                    String::from_utf8_lossy(&record.key),
                    record.expiry,
                    record.idle_seconds,
                    record.frequency
                ),
                other => format!("{other:?}"),
            });
            bytes = &bytes[cut.size..];
            if is_end {
                break;
            }
        }
        events
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
        let alloc = AllocContext { heap: &heap, hasher: &hasher };
        let mut encoder = Encoder::new(Version::V11, true);
        let mut out = Vec::new();
        encoder.write_header(&mut out);
        encoder.write_aux(b"ctime", b"12345", &mut out);
        write_select(3, &mut out);
        write_resize(2, 1, &mut out);
        let heads = [
            RecordHead { expiry: Some(-5), usage: Some(Usage::IdleSeconds(70_000)) },
            RecordHead { expiry: None, usage: Some(Usage::Frequency(255)) },
        ];
        for (head, key) in heads.into_iter().zip([&b"one"[..], b"two"]) {
            encoder.write_record(head, key, alloc, ValueRef::Bytes(b"x"), &mut out).expect("a string");
        }
        encoder.write_function(b"#!lua name=f", &mut out);
        write_end(&mut out);
        let checksum = Checksum::of(&out);
        out.extend(checksum.to_le_bytes());
        let expected = [
            "Header(Version { family: Redis, number: 11 })",
            "Aux { name: [99, 116, 105, 109, 101], value: [49, 50, 51, 52, 53] }",
            "Select(3)",
            "Resize { key_count: 2, volatile_count: 1 }",
            "3 \"one\" Some(-5) Some(70000) None",
            "3 \"two\" None None Some(255)",
            "Function([35, 33, 108, 117, 97, 32, 110, 97, 109, 101, 61, 102])",
            "End { is_checked: true }",
        ];
        assert_eq!(events(&out), expected);
    }
}
