//! The position of the data in the replication stream, in annotations of an append-only file, which other servers skip.
//!
//! | line | meaning |
//! |---|---|
//! | `#REPL:id offset` | the data up to here are those with this id at this offset |
//! | `#REPL:id offset size` | so they are; the requests since the previous line have `size` bytes |
//! | `#size` | so have they; all of these are bytes of the stream, and no others |
//!
//! The data of a file have a position only if one of these lines is its last item: not if its end was cut off, or another server has
//! appended to it. Nor if a size is wrong: somebody has edited the file, and a position behind that place would be one of other data.

use base::limits::STREAM_OFFSET_MAX;
use sync::simulation::planted;

use super::reading::Reader;
use crate::faults;

/// The number of characters of an id.
pub const ID_SIZE: usize = 40;

const PREFIX: &[u8] = b"#REPL:";

/// The id of the data, and the number of bytes of its stream that they include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOffset {
    /// The id.
    pub id: [u8; ID_SIZE],
    /// The offset.
    pub offset: u64,
}

impl StreamOffset {
    /// The line that has it, without its end.
    fn line(&self) -> Vec<u8> {
        let mut line = [PREFIX, &self.id].concat();
        line.extend(format!(" {}", self.offset).into_bytes());
        line
    }

    fn plus(self, size: u64) -> Self {
        Self { offset: self.offset.saturating_add(size), ..self }
    }
}

/// The annotations of the file that is being written.
#[derive(Debug, Default)]
pub(super) struct StreamMarks {
    /// The position in the last line; `None`: the present end was not written by this writer, or no line follows a known place.
    marked: Option<StreamOffset>,
    /// Bytes of requests since then.
    size: u64,
}

impl StreamMarks {
    /// Notes `size` more bytes of requests. Returns the line behind them, where the data have this position.
    pub(super) fn after(&mut self, size: usize, at: Option<StreamOffset>) -> Vec<u8> {
        self.size += size as u64;
        let (Some(marked), Some(at)) = (self.marked, at) else { return Vec::new() };
        let size = std::mem::take(&mut self.size);
        self.marked = Some(at);
        match marked.plus(size) == at {
            true => format!("#{size}\r\n").into_bytes(),
            false => [at.line(), format!(" {size}\r\n").into_bytes()].concat(),
        }
    }

    /// The line at the present end, where the data have this position, if the file does not have it yet.
    pub(super) fn at_end(&mut self, at: Option<StreamOffset>) -> Option<Vec<u8>> {
        let at = at.filter(|at| self.marked != Some(*at) || self.size > 0)?;
        if self.marked.is_some() {
            return Some(self.after(0, Some(at)));
        }
        *self = Self { marked: Some(at), size: 0 };
        Some([at.line(), b"\r\n".to_vec()].concat())
    }

    /// Whether sizes can't be counted.
    pub(super) fn are_lost(&self) -> bool {
        self.marked.is_none()
    }

    /// Notes that the file is another one, or was cut.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The position of the data in files that are being read.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamReader {
    /// The position in the last line.
    marked: Option<StreamOffset>,
    /// Bytes of requests since then.
    size: u64,
    /// The database that is selected.
    db: Option<u64>,
    is_lost: bool,
}

impl StreamReader {
    /// Notes the position of a base, with the database that the stream has selected.
    pub fn begin(&mut self, at: Option<StreamOffset>, db: u64) {
        *self = Self { marked: at, size: 0, db: at.map(|_| db), is_lost: false };
    }

    /// Notes that the data have no position, whatever follows.
    pub fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Notes an annotation.
    pub fn annotation(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        let (at, size) = if let Some(rest) = line.strip_prefix(PREFIX) {
            let Some((id, rest)) = rest.split_first_chunk() else { return };
            let mut numbers = rest.split(|byte| *byte == b' ').skip(1).map(decimal);
            let (Some(Some(offset)), size) = (numbers.next(), numbers.next()) else { return };
            // What a base without a position has selected says nothing of the stream.
            self.db = self.db.filter(|_| self.marked.is_some());
            (Some(StreamOffset { id: *id, offset }), size)
        } else if let Some(size) = line.strip_prefix(b"#").and_then(decimal) {
            (self.marked.map(|at| at.plus(size)), Some(Some(size)))
        } else {
            return;
        };
        self.is_lost |= size.is_some_and(|size| size != Some(self.size));
        (self.marked, self.size) = (at, 0);
    }

    /// Notes a request in these bytes, which the reader has just read.
    pub fn request(&mut self, bytes: &[u8], size: usize, reader: &Reader) {
        self.size += size as u64;
        if let [name, number] = reader.arguments()
            && bytes[name.clone()].eq_ignore_ascii_case(b"select")
        {
            self.db = decimal(&bytes[number.clone()]);
        }
    }

    /// The position of the data, and the database that the stream has selected, if that is known.
    #[must_use]
    pub fn position(&self) -> Option<(StreamOffset, Option<u64>)> {
        let is_whole = self.size == 0 && !self.is_lost || planted(faults::EARLY_MARK);
        self.marked.filter(|at| is_whole && at.offset <= STREAM_OFFSET_MAX).map(|at| (at, self.db))
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Item;

    const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
    const FLUSH: &[u8] = b"*1\r\n$8\r\nFLUSHALL\r\n";

    fn at(digit: u8, offset: u64) -> StreamOffset {
        StreamOffset { id: [digit; ID_SIZE], offset }
    }

    fn read(file: &[u8]) -> Option<(StreamOffset, Option<u64>)> {
        let (mut reader, mut stream) = (Reader::new(0), StreamReader::default());
        while (reader.offset() as usize) < file.len() {
            let start = reader.offset() as usize;
            let rest = &file[start..];
            let item = reader.read(rest).unwrap();
            let size = reader.offset() as usize - start;
            match item {
                Item::Request => stream.request(rest, size, &reader),
                Item::Annotation(_) => stream.annotation(&rest[..size]),
                other => panic!("{other:?}"),
            }
        }
        stream.position()
    }

    /// A file that is written, and at each step what a reader of it finds.
    #[derive(Default)]
    struct Written {
        marks: StreamMarks,
        file: Vec<u8>,
    }

    impl Written {
        /// Requests, and the position behind them.
        fn write(
            &mut self,
            requests: &[u8],
            at: Option<StreamOffset>,
        ) -> Option<(StreamOffset, Option<u64>)> {
            self.file.extend(requests);
            self.file.extend(self.marks.after(requests.len(), at));
            read(&self.file)
        }

        fn end(&mut self, at: StreamOffset) -> Option<(StreamOffset, Option<u64>)> {
            self.file.extend(self.marks.at_end(Some(at)).unwrap());
            read(&self.file)
        }
    }

    #[test]
    fn a_file_has_the_position_in_its_last_line() {
        let mut it = Written::default();
        assert_eq!(it.write(SET, None), None);
        assert_eq!(it.write(SET, Some(at(b'1', 900))), None, "its size could not be checked");
        assert_eq!(it.end(at(b'1', 900)), Some((at(b'1', 900), None)));
        assert_eq!(it.write(SELECT, Some(at(b'1', 923))), Some((at(b'1', 923), Some(3))));
        assert!(it.file.ends_with(b"#23\r\n"));
        assert_eq!(it.marks.at_end(Some(at(b'1', 923))), None);
        // Bytes that only replicas have received, those that only the file has, and another id with the same offset.
        assert_eq!(it.end(at(b'1', 950)), Some((at(b'1', 950), Some(3))));
        assert_eq!(it.write(SET, Some(at(b'1', 950))), Some((at(b'1', 950), Some(3))));
        let end = 950 + SET.len() as u64;
        assert_eq!(it.write(SET, Some(at(b'2', end))), Some((at(b'2', end), Some(3))));
        // A part without a position is counted for the next line.
        assert_eq!(it.write(SET, None), None);
        let end = end + 2 * SET.len() as u64;
        assert_eq!(it.write(SET, Some(at(b'2', end))), Some((at(b'2', end), Some(3))));
        assert!(it.file.ends_with(format!("#{}\r\n", 2 * SET.len()).as_bytes()));
        // After a failure the size is not known.
        it.marks.forget();
        assert!(it.marks.are_lost());
        assert_eq!(it.write(SET, Some(at(b'2', end + 27))), None);
    }

    #[test]
    fn an_edited_file_has_no_position() {
        let mut it = Written::default();
        it.end(at(b'1', 0));
        it.write(SET, Some(at(b'1', SET.len() as u64)));
        let flushed = (SET.len() + FLUSH.len()) as u64;
        assert!(it.write(FLUSH, Some(at(b'1', flushed))).is_some());
        let find = |file: &[u8]| file.windows(FLUSH.len()).position(|part| part == FLUSH).unwrap();
        for ends in [false, true] {
            if ends {
                it.end(at(b'2', 5000));
                it.write(SET, Some(at(b'2', 5000)));
            }
            let mut edited = it.file.clone();
            let place = find(&edited);
            edited.drain(place..place + FLUSH.len());
            assert_eq!(read(&edited), None);
            // Also not one that a later run of the server has added.
            let mut later = Written { file: edited, ..Written::default() };
            assert_eq!(later.end(at(b'3', 0)), None);
        }
    }

    /// A base in the form of requests selects databases for its keys, in which the stream is not.
    #[test]
    fn the_database_of_a_base_is_not_that_of_the_stream() {
        let mut file = SELECT.to_vec();
        file.extend(SET);
        let mut it = Written { file, ..Written::default() };
        assert_eq!(it.end(at(b'1', 900)), Some((at(b'1', 900), None)));
        let end = 900 + SELECT.len() as u64;
        assert_eq!(it.write(SELECT, Some(at(b'1', end))), Some((at(b'1', end), Some(3))));
        let mut stream = StreamReader::default();
        stream.begin(None, 0);
        stream.annotation(format!("{}{} 5\r\n", "#REPL:", "1".repeat(ID_SIZE)).as_bytes());
        assert_eq!(stream.position(), Some((at(b'1', 5), None)));
    }

    #[test]
    fn other_lines_say_nothing() {
        for line in ["#REPL:1 2\r\n", "#TS:1\r\n", "#\r\n", "#REPL:\r\n", "#5\r\n", "#-1\r\n"] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
        let beyond = format!("#REPL:{} {}\r\n", "1".repeat(ID_SIZE), u64::MAX);
        assert_eq!(read(beyond.as_bytes()), None);
        let mut stream = StreamReader::default();
        stream.begin(Some(at(b'1', 5)), 7);
        assert_eq!(stream.position(), Some((at(b'1', 5), Some(7))));
        stream.annotation(b"#TS:1\r\n");
        assert!(stream.position().is_some());
        stream.lose();
        assert_eq!(stream.position(), None);
    }
}
