//! The manifest of the append-only directory: which files make up the data, in which order. Redis 7's format.
//!
//! One line a file: `file NAME seq NUMBER type b|i|h`, with NAME quoted as in a configuration file where it has
//! bytes that need it. The order when written is: base, history, increments. Pairs with unknown keys are
//! skipped, as are lines that start with `#`.
//!
//! Invariants: at most one base; increments have ascending numbers; a name has no `/`.

use std::fmt;

/// Lines of the file are at most this long, including the end of the line.
const LINE_SIZE_MAX: usize = 1024;

/// A file's part in the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// All data at the time of a rewrite.
    Base,
    /// The changes since the base or the increment before it.
    Increment,
    /// Superseded; to be removed.
    History,
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// The name within the directory. Bytes, as file names are.
    pub name: Vec<u8>,
    /// The number among the files of its kind; not 0.
    pub sequence: i64,
    /// The file's part.
    pub kind: FileKind,
}

/// The files of an append-only directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The base, if there is one.
    pub base: Option<ManifestFile>,
    /// The increments, in the order in which they are loaded.
    pub increments: Vec<ManifestFile>,
    /// Files that are no longer needed.
    pub history: Vec<ManifestFile>,
    /// The highest number of a base so far.
    pub base_sequence: i64,
    /// The highest number of an increment so far.
    pub increment_sequence: i64,
}

/// Why a manifest is refused, in the words of Redis and Valkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The reason.
    pub reason: &'static str,
    /// The number of the line, from 1, and the line, if the fault is in its contents.
    pub line: Option<(usize, Vec<u8>)>,
}

impl Manifest {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// The first line that is not valid.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let fault = |reason| ManifestError { reason, line: None };
        if text.is_empty() {
            return Err(fault("Found an empty AOF manifest"));
        }
        let mut manifest = Manifest::default();
        for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if line.starts_with(b"#") {
                continue;
            }
            if line.len() > LINE_SIZE_MAX || !line.ends_with(b"\n") {
                return Err(fault("The AOF manifest file contains too long line"));
            }
            let line = line.trim_ascii();
            parse_line(line)
                .and_then(|file| manifest.add(file))
                .map_err(|reason| ManifestError { reason, line: Some((index + 1, line.to_vec())) })?;
        }
        manifest.skip_numbers_of_history();
        Ok(manifest)
    }

    /// No new file takes the name of one of the history: it would be removed with it.
    fn skip_numbers_of_history(&mut self) {
        for file in &self.history {
            let is_increment = file.name.windows(6).any(|part| part == b".incr.");
            let highest = if is_increment { &mut self.increment_sequence } else { &mut self.base_sequence };
            *highest = file.sequence.max(*highest);
        }
    }

    /// The text of the manifest.
    #[must_use]
    pub fn format(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for file in self.base.iter().chain(&self.history).chain(&self.increments) {
            text.extend(b"file ");
            if file.name.is_empty() || file.name.iter().copied().any(needs_quotes) {
                text.extend(config::quoted(&file.name));
            } else {
                text.extend(&file.name);
            }
            text.extend(format!(" seq {} type {}\n", file.sequence, file.kind.letter()).into_bytes());
        }
        text
    }

    /// The manifest for the single append-only file of Redis before 7.0.
    #[must_use]
    pub fn of_single_file(name: &[u8]) -> Self {
        let base = ManifestFile { name: name.to_vec(), sequence: 1, kind: FileKind::Base };
        Manifest { base: Some(base), base_sequence: 1, ..Manifest::default() }
    }

    /// Whether there is nothing to load.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.base.is_none() && self.increments.is_empty()
    }

    /// The files to load, in order.
    pub fn loaded(&self) -> impl Iterator<Item = &ManifestFile> {
        self.base.iter().chain(&self.increments)
    }

    /// Adds the next increment of `stem` and returns its name.
    pub fn push_increment(&mut self, stem: &[u8]) -> Vec<u8> {
        self.increment_sequence += 1;
        let sequence = self.increment_sequence;
        let name = [stem, format!(".{sequence}.incr.aof").as_bytes()].concat();
        self.increments.push(ManifestFile { name: name.clone(), sequence, kind: FileKind::Increment });
        name
    }

    /// Makes the next base of `stem` the base, and the former one history. Returns its name.
    pub fn replace_base(&mut self, stem: &[u8], format: BaseFormat) -> Vec<u8> {
        self.base_sequence += 1;
        let sequence = self.base_sequence;
        let name = [stem, format!(".{sequence}.base.{}", format.suffix()).as_bytes()].concat();
        let base = ManifestFile { name: name.clone(), sequence, kind: FileKind::Base };
        if let Some(former) = self.base.replace(base) {
            self.history.insert(0, ManifestFile { kind: FileKind::History, ..former });
        }
        name
    }

    /// Makes all increments but the last `kept_count` history.
    pub fn retire_increments(&mut self, kept_count: usize) {
        let retired_count = self.increments.len().saturating_sub(kept_count);
        for file in self.increments.drain(..retired_count).rev() {
            self.history.insert(0, ManifestFile { kind: FileKind::History, ..file });
        }
    }

    fn add(&mut self, file: ManifestFile) -> Result<(), &'static str> {
        match file.kind {
            FileKind::Base if self.base.is_some() => return Err("Found duplicate base file information"),
            FileKind::Base => {
                self.base_sequence = file.sequence;
                self.base = Some(file);
            }
            FileKind::Increment if file.sequence <= self.increment_sequence => {
                return Err("Found a non-monotonic sequence number");
            }
            FileKind::Increment => {
                self.increment_sequence = file.sequence;
                self.increments.push(file);
            }
            FileKind::History => self.history.push(file),
        }
        Ok(())
    }
}

/// The format of a base file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseFormat {
    /// A snapshot in RDB (`aof-use-rdb-preamble yes`).
    Rdb,
    /// Requests in RESP.
    Requests,
}

impl BaseFormat {
    fn suffix(self) -> &'static str {
        match self {
            BaseFormat::Rdb => "rdb",
            BaseFormat::Requests => "aof",
        }
    }
}

impl FileKind {
    fn letter(self) -> char {
        match self {
            FileKind::Base => 'b',
            FileKind::Increment => 'i',
            FileKind::History => 'h',
        }
    }
}

fn parse_line(line: &[u8]) -> Result<ManifestFile, &'static str> {
    const FORMAT: &str = "Invalid AOF manifest file format";
    let words = config::split_arguments(line).map_err(|_| FORMAT)?;
    if words.len() < 6 || !words.len().is_multiple_of(2) {
        return Err(FORMAT);
    }
    let (mut name, mut sequence, mut letter) = (None, 0, None);
    for pair in words.chunks_exact(2) {
        if pair[0].eq_ignore_ascii_case(b"file") {
            if pair[1].contains(&b'/') || pair[1].contains(&b'\\') {
                return Err("File can't be a path, just a filename");
            }
            name = Some(pair[1].clone());
        } else if pair[0].eq_ignore_ascii_case(b"seq") {
            sequence = leading_number(&pair[1]);
        } else if pair[0].eq_ignore_ascii_case(b"type") {
            letter = pair[1].first().copied();
        }
    }
    let (Some(name), Some(letter)) = (name, letter) else { return Err(FORMAT) };
    if sequence == 0 {
        return Err(FORMAT);
    }
    let kind = match letter {
        b'b' => FileKind::Base,
        b'i' => FileKind::Increment,
        b'h' => FileKind::History,
        _ => return Err("Unknown AOF file type"),
    };
    Ok(ManifestFile { name, sequence, kind })
}

/// The number at the start of `text`, as C reads it; 0 if there is none.
fn leading_number(text: &[u8]) -> i64 {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value =
        digits.fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if is_negative { -value } else { value }
}

/// Whether a name with this byte is quoted.
fn needs_quotes(byte: u8) -> bool {
    matches!(byte, b'\\' | b'"' | b'\'' | b' ') || !byte.is_ascii_graphic()
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some((number, line)) => {
                write!(f, "at line {number} of the AOF manifest ('{}'): {}", line.escape_ascii(), self.reason)
            }
            None => f.write_str(self.reason),
        }
    }
}

impl std::error::Error for ManifestError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let read = Manifest::parse(text.as_bytes());
        let written = read.as_ref().map(|manifest| String::from_utf8(manifest.format()).unwrap());
        assert_eq!(written.as_deref().map_err(|error| error.reason), expected, "{text:?}");
    }

    #[test]
    fn manifests_round_trip() {
        let text = "file a.2.base.rdb seq 2 type b\nfile a.1.incr.aof seq 1 type h\nfile a.2.incr.aof seq 2 type h\n\
                    file a.4.incr.aof seq 4 type i\nfile a.5.incr.aof seq 5 type i\n";
        check(text, Ok(text));
        check("file \"a b\\x00\" seq 1 type i\n", Ok("file \"a b\\x00\" seq 1 type i\n"));
        check("# x\ntype B seq 7 FILE x new 1\n# y", Err("Unknown AOF file type"));
        check("# x\ntype base seq 7x FILE x new 1\n# y", Ok("file x seq 7 type b\n"));
        check("file i seq 1 type i\nfile b seq 1 type b\n", Ok("file b seq 1 type b\nfile i seq 1 type i\n"));
        check("# nothing\n", Ok(""));
    }

    #[test]
    fn refuses_manifests_that_redis_refuses() {
        const FORMAT: &str = "Invalid AOF manifest file format";
        check("", Err("Found an empty AOF manifest"));
        check("\n", Err(FORMAT));
        check("file a seq 1 type\n", Err(FORMAT));
        check("file a seq 1\n", Err(FORMAT));
        check("file a seq 1 type i more\n", Err(FORMAT));
        check("file a seq 0 type i\n", Err(FORMAT));
        check("file a seq x type i\n", Err(FORMAT));
        check("file a seq 1 type \"\"\n", Err(FORMAT));
        check("name a seq 1 type i\n", Err(FORMAT));
        check("file \"a seq 1 type i\n", Err(FORMAT));
        check("file a seq 1 type x\n", Err("Unknown AOF file type"));
        check("file d/a seq 1 type i\n", Err("File can't be a path, just a filename"));
        check("file a seq 1 type b\nfile b seq 2 type b\n", Err("Found duplicate base file information"));
        check("file a seq 2 type i\nfile b seq 2 type i\n", Err("Found a non-monotonic sequence number"));
        check("file a seq 1 type i", Err("The AOF manifest file contains too long line"));
        check(
            &format!("file {} seq 1 type i\n", "a".repeat(1010)),
            Err("The AOF manifest file contains too long line"),
        );
        let error = Manifest::parse(b"file a seq 1 type i\nfile\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "at line 2 of the AOF manifest ('file'): Invalid AOF manifest file format"
        );
    }

    /// A base without increment, whose history could not be removed.
    #[test]
    fn no_new_file_has_a_name_of_the_history() {
        let text = b"file x.aof.2.base.rdb seq 2 type b\nfile x.aof.3.incr.aof seq 3 type h\n\
                     file x.aof.4.base.rdb seq 4 type h\n";
        let mut manifest = Manifest::parse(text).unwrap();
        assert_eq!(manifest.push_increment(b"x.aof"), b"x.aof.4.incr.aof");
        assert_eq!(manifest.replace_base(b"x.aof", BaseFormat::Rdb), b"x.aof.5.base.rdb");
    }

    #[test]
    fn a_rewrite_moves_files_to_history() {
        let mut manifest = Manifest::default();
        assert_eq!(manifest.replace_base(b"x.aof", BaseFormat::Requests), b"x.aof.1.base.aof");
        assert_eq!(manifest.push_increment(b"x.aof"), b"x.aof.1.incr.aof");
        assert_eq!(manifest.push_increment(b"x.aof"), b"x.aof.2.incr.aof");
        assert_eq!(manifest.replace_base(b"x.aof", BaseFormat::Rdb), b"x.aof.2.base.rdb");
        manifest.retire_increments(1);
        let text = "file x.aof.2.base.rdb seq 2 type b\nfile x.aof.1.incr.aof seq 1 type h\n\
                    file x.aof.1.base.aof seq 1 type h\nfile x.aof.2.incr.aof seq 2 type i\n";
        assert_eq!(String::from_utf8(manifest.format()).unwrap(), text);
        assert_eq!(manifest.loaded().count(), 2);
    }
}
