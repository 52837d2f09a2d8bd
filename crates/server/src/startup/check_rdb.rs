//! `broadloom check-rdb FILE`: reads a whole RDB file as the server does, and reports its contents or its first fault. The
//! report has the lines of `valkey-check-rdb`.

mod statistics;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use collections::{AllocContext, Heap, KeyHasher};
use config::Config;
use os::clock;
use rdb::{Cut, Cutter, DecodeContext, Error, Event, Family, Fault, Record, Value, Version, decode};

use self::statistics::{Format, ReadKey, Statistics};

/// Bytes that are read at a time.
const READ_SIZE: usize = 1 << 20;
/// Bytes of the file between two lines of progress.
const PROGRESS_SIZE: u64 = 256 << 20;
/// Longest shown value of a property of the file.
const SHOWN_LEN_MAX: usize = 200;
/// The newest version that only Redis has written: from the next one on, the families differ.
const COMMON_VERSION_MAX: u16 = 11;

/// Versions from this one on are no longer those that Valkey has left to Redis.
const FUTURE_VERSION_MIN: u16 = 80;

/// The arguments of the command.
struct Request {
    path: PathBuf,
    /// Whether statistics by database and type are reported, and how.
    has_statistics: bool,
    format: Format,
    /// Where they are written; `None`: with the report.
    output: Option<PathBuf>,
}

/// Runs the command. `arguments` are those after its name.
pub fn run(program: &str, arguments: &[OsString]) -> ExitCode {
    if let [option] = arguments
        && (option == "--help" || option == "-h")
    {
        println!("{}", usage(program));
        return ExitCode::SUCCESS;
    }
    if let [option] = arguments
        && (option == "--version" || option == "-v")
    {
        println!("{program} {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match Request::parse(arguments) {
        Some(request) => check(&request),
        None => {
            eprintln!("{}", usage(program));
            ExitCode::FAILURE
        }
    }
}

fn usage(program: &str) -> String {
    format!(
        "Usage: {program} FILE [--stats] [--format table|info|csv] [--output FILE]\n\nReads an RDB file of Redis or Valkey and \
         validates every value. Exit status: 0 it is valid, 1 it is not or can't be read.\n\n  \
         --stats   reports the number and sizes of keys and elements, by database and type\n  \
         --format  the form of these figures\n  \
         --output  the file that they are written to"
    )
}

impl Request {
    fn parse(arguments: &[OsString]) -> Option<Self> {
        let (path, mut rest) = arguments.split_first()?;
        if path.as_encoded_bytes().starts_with(b"--") {
            return None;
        }
        let mut request =
            Self { path: path.into(), has_statistics: false, format: Format::default(), output: None };
        while let Some((option, behind)) = rest.split_first() {
            rest = match option.to_str()? {
                "--stats" => {
                    request.has_statistics = true;
                    behind
                }
                "--format" => {
                    request.format = Format::of_name(behind.first()?.to_str()?)?;
                    &behind[1..]
                }
                "--output" => {
                    request.output = Some(behind.first()?.into());
                    &behind[1..]
                }
                _ => return None,
            };
        }
        Some(request)
    }
}

/// The number and the bytes of the values of a type.
#[derive(Default)]
struct Tally {
    count: u64,
    size: u64,
}

/// How a version is related to those that Valkey loads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Known,
    /// Of Redis, after the families parted.
    Foreign,
    /// Newer than what is known.
    Future,
}

impl Relation {
    fn name(self) -> &'static str {
        match self {
            Self::Known => "Known",
            Self::Foreign => "Foreign",
            Self::Future => "Future",
        }
    }
}

#[derive(Default)]
struct Summary {
    tallies: BTreeMap<&'static str, Tally>,
    volatile_count: u64,
    expired_count: u64,
    empty_count: u64,
    module_count: u64,
    function_count: u64,
    /// The version, once it is read.
    version: Option<Version>,
    statistics: Statistics,
}

fn check(request: &Request) -> ExitCode {
    let path = &request.path;
    println!("[offset 0] Checking RDB file {}", path.display());
    let mut summary = Summary::default();
    let outcome = File::open(path).and_then(|file| {
        let file_size = file.metadata()?.len();
        read(file, file_size, &mut summary)
    });
    let status = match outcome {
        Ok(Ok(trailing)) => {
            let offset = std::fs::metadata(path).map_or(0, |metadata| metadata.len() - trailing);
            println!("[offset {offset}] {}", summary.verdict());
            if trailing > 0 {
                println!("[info] {trailing} bytes follow the end of the data");
            }
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            println!("--- RDB ERROR DETECTED ---");
            println!("[offset {}] {}", error.offset, summary.described(&error));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("Cannot read {}: {error}", path.display());
            ExitCode::FAILURE
        }
    };
    summary.print();
    if request.has_statistics
        && let Err(error) = summary.write_statistics(request)
    {
        eprintln!("Cannot write the figures: {error}");
        return ExitCode::FAILURE;
    }
    status
}

/// Reads a file up to its end mark. Returns the number of bytes after it.
fn read(mut file: impl Read, file_size: u64, summary: &mut Summary) -> io::Result<Result<u64, Error>> {
    let mut cutter = Cutter::new(true).taking_any_version();
    let decoder = Decoder::new();
    let mut buffer = Vec::new();
    let mut start = 0;
    let mut shown_at = 0;
    loop {
        let cut = match cutter.next(&buffer[start..]) {
            Ok(Some(cut)) => cut,
            Ok(None) => {
                buffer.drain(..std::mem::take(&mut start));
                if file.by_ref().take(READ_SIZE.max(buffer.len()) as u64).read_to_end(&mut buffer)? == 0 {
                    return Ok(Err(cutter.unexpected_end(buffer.len())));
                }
                continue;
            }
            Err(error) => return Ok(Err(error)),
        };
        let Cut { event, size } = cut;
        start += size;
        let offset = cutter.offset();
        let is_end = matches!(event, Event::End { .. });
        if let Err(error) = summary.note(&event, offset, &decoder) {
            return Ok(Err(error));
        }
        if is_end {
            return Ok(Ok(file_size.saturating_sub(cutter.offset())));
        }
        if cutter.offset() - shown_at >= PROGRESS_SIZE {
            shown_at = cutter.offset();
            println!("[offset {shown_at}] {} % read", shown_at * 100 / file_size.max(1));
        }
    }
}

/// The heap in which values are decoded; each value is dropped at once.
struct Decoder {
    heap: Heap,
    hasher: KeyHasher,
    config: Config,
}

impl Decoder {
    fn new() -> Self {
        let seed = clock::unix_micros() as u64;
        Self { heap: Heap::new(), hasher: KeyHasher::new([seed; 4]), config: Config::default() }
    }

    fn alloc(&self) -> AllocContext<'_> {
        AllocContext { heap: &self.heap, hasher: &self.hasher }
    }

    fn decode<'a>(&self, record: &Record<'a>) -> Result<Value<'a>, Error> {
        let context = DecodeContext {
            alloc: self.alloc(),
            limits: commands::value_limits(&self.config),
            drop_fields_before: None,
        };
        decode(record.value_type, record.value, record.offset, context).map_err(|mut error| {
            error.key = Some(record.key.as_ref().into());
            error
        })
    }
}

impl Summary {
    fn note(&mut self, event: &Event<'_>, offset: u64, decoder: &Decoder) -> Result<(), Error> {
        match event {
            Event::Header(version) => {
                self.version = Some(*version);
                match self.relation() {
                    Relation::Known => {}
                    other => {
                        println!("[offset {offset}] {} RDB version {} detected", other.name(), version.number)
                    }
                }
                println!("[info] {:?} format, version {}", version.family, version.number);
            }
            Event::Aux { name, value } => {
                let value = &value[..value.len().min(SHOWN_LEN_MAX)];
                let (name, value) = (name.escape_ascii(), value.escape_ascii());
                println!("[offset {offset}] AUX FIELD {name} = '{value}'");
            }
            Event::Select(db) => println!("[offset {offset}] Selecting DB ID {db}"),
            Event::Function(_) => self.function_count += 1,
            Event::ModuleAux(_) => self.module_count += 1,
            Event::Key(record) => return self.note_key(record, decoder),
            Event::End { is_checked: true } => println!("[offset {offset}] Checksum OK"),
            Event::End { is_checked: false } => {
                println!("[offset {offset}] RDB file was saved with checksum disabled: no check performed.");
            }
            Event::Resize { .. } | Event::Slot => {}
        }
        Ok(())
    }

    /// How the version is related to those that servers load by default.
    fn relation(&self) -> Relation {
        match self.version {
            Some(version) if Version::is_known(version) => match version.family {
                Family::Redis if version.number > COMMON_VERSION_MAX => Relation::Foreign,
                _ => Relation::Known,
            },
            Some(Version { family: Family::Redis, number, .. }) if number < FUTURE_VERSION_MIN => {
                Relation::Foreign
            }
            Some(_) => Relation::Future,
            None => Relation::Known,
        }
    }

    fn verdict(&self) -> String {
        let is_loaded = self.version.is_none_or(Version::is_known);
        match self.relation() {
            Relation::Known => "\\o/ RDB looks OK! \\o/".to_owned(),
            // Broadloom loads versions of both families; other servers do not.
            Relation::Foreign if is_loaded => {
                "\\o/ RDB looks OK, but loading requires config 'rdb-version-check relaxed' in Valkey"
                    .to_owned()
            }
            _ => "\\o/ RDB looks OK, but loading requires config 'rdb-version-check relaxed'".to_owned(),
        }
    }

    fn described(&self, error: &Error) -> String {
        match (error.fault, self.relation(), self.version) {
            (Fault::UnknownType(byte), relation @ (Relation::Foreign | Relation::Future), Some(version)) => {
                let relation = relation.name().to_lowercase();
                format!("Unknown object type {byte} in RDB file with {relation} version {}", version.number)
            }
            _ => error.to_string(),
        }
    }

    fn write_statistics(&self, request: &Request) -> io::Result<()> {
        match &request.output {
            Some(path) => self.statistics.write(request.format, &mut File::create(path)?),
            None => {
                let mut out = io::stdout().lock();
                self.statistics.write(request.format, &mut out)?;
                out.flush()
            }
        }
    }

    fn note_key(&mut self, record: &Record<'_>, decoder: &Decoder) -> Result<(), Error> {
        let expiry = record.expiry.map(|at| at <= clock::unix_millis());
        let value = match decoder.decode(record) {
            Ok(value) => Some(value),
            // The structure was validated as far as it is known.
            Err(error) if error.fault == Fault::Module && record.value_type.kind().is_none() => None,
            Err(error) => return Err(error),
        };
        self.empty_count += u64::from(matches!(value, Some(Value::Empty)));
        let read = ReadKey { db: record.db, key: &record.key, expiry, value: value.as_ref() };
        self.statistics.note(&read, decoder.alloc());
        let tally = self.tallies.entry(record.value_type.kind().map_or("module", |kind| kind.name()));
        let tally = tally.or_default();
        tally.count += 1;
        tally.size += (record.key.len() + record.value.len()) as u64;
        self.volatile_count += u64::from(expiry.is_some());
        self.expired_count += u64::from(expiry == Some(true));
        Ok(())
    }

    fn print(&self) {
        let key_count: u64 = self.tallies.values().map(|tally| tally.count).sum();
        println!("[info] {key_count} keys read");
        println!("[info] {} expires", self.volatile_count);
        println!("[info] {} already expired", self.expired_count);
        println!("[info] {} functions", self.function_count);
        for (name, Tally { count, size }) in &self.tallies {
            println!("[info] {name}: {count} keys, {size} bytes");
        }
        let rest = [
            (self.empty_count, "keys without elements, which are skipped"),
            (self.module_count, "data of modules beside the keys, which are skipped"),
        ];
        for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
            println!("[info] {count} {what}");
        }
    }
}
