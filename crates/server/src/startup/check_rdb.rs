//! `broadloom check-rdb FILE`: reads a whole RDB file as a server would, and reports what it holds or where it is wrong.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use collections::{AllocContext, Heap, KeyHasher};
use config::Config;
use os::clock;
use rdb::{Cut, Cutter, DecodeContext, Error, Event, Fault, Record, Value, decode};

/// Bytes that are read at a time.
const READ_SIZE: usize = 1 << 20;
/// Bytes of the file between two lines of progress.
const PROGRESS_SIZE: u64 = 256 << 20;
/// Longest shown value of a property of the file.
const SHOWN_LEN_MAX: usize = 200;

/// Runs the command. `arguments` are those after its name.
pub fn run(program: &str, arguments: &[std::ffi::OsString]) -> ExitCode {
    match arguments {
        [option] if option == "--help" || option == "-h" => {
            println!("{}", usage(program));
            ExitCode::SUCCESS
        }
        [path] => check(Path::new(path)),
        _ => {
            eprintln!("{}", usage(program));
            ExitCode::FAILURE
        }
    }
}

fn usage(program: &str) -> String {
    format!(
        "Usage: {program} FILE\n\nReads an RDB file of Redis or Valkey and validates every value. Exit status: 0 it is valid, 1 it is \
         not or can't be read."
    )
}

/// Number and bytes of values of a type.
#[derive(Default)]
struct Tally {
    count: u64,
    size: u64,
}

#[derive(Default)]
struct Summary {
    tallies: BTreeMap<&'static str, Tally>,
    volatile_count: u64,
    expired_count: u64,
    empty_count: u64,
    module_count: u64,
    function_count: u64,
}

fn check(path: &Path) -> ExitCode {
    println!("[offset 0] Checking RDB file {}", path.display());
    let mut summary = Summary::default();
    let outcome = File::open(path).and_then(|file| {
        let file_size = file.metadata()?.len();
        read(file, file_size, &mut summary)
    });
    summary.print();
    match outcome {
        Ok(Ok(trailing)) => {
            if trailing > 0 {
                println!("[info] {trailing} bytes follow the end of the data");
            }
            println!("RDB looks OK");
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            println!("--- RDB ERROR DETECTED ---");
            println!("[offset {}] {error}", error.offset);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("Cannot read {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

/// Reads a file up to its end mark. Returns the number of bytes behind it.
fn read(mut file: impl Read, file_size: u64, summary: &mut Summary) -> io::Result<Result<u64, Error>> {
    let mut cutter = Cutter::new(true);
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
        let is_end = matches!(event, Event::End { .. });
        if let Err(error) = summary.note(&event, &decoder) {
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

/// What values are decoded in; each one is dropped at once.
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

    fn decode<'a>(&self, record: &Record<'a>) -> Result<Value<'a>, Error> {
        let context = DecodeContext {
            home: AllocContext { heap: &self.heap, hasher: &self.hasher },
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
    fn note(&mut self, event: &Event<'_>, decoder: &Decoder) -> Result<(), Error> {
        match event {
            Event::Header(version) => {
                println!("[info] {:?} format, version {}", version.family, version.number);
            }
            Event::Aux { name, value } => {
                let value = &value[..value.len().min(SHOWN_LEN_MAX)];
                println!("[info] {} = '{}'", name.escape_ascii(), value.escape_ascii());
            }
            Event::Function(_) => self.function_count += 1,
            Event::ModuleAux(_) => self.module_count += 1,
            Event::Key(record) => return self.note_key(record, decoder),
            Event::End { is_checked: true } => println!("[info] The checksum is right"),
            Event::End { is_checked: false } => println!("[info] There is no checksum"),
            Event::Select(_) | Event::Resize { .. } | Event::Slot => {}
        }
        Ok(())
    }

    fn note_key(&mut self, record: &Record<'_>, decoder: &Decoder) -> Result<(), Error> {
        match decoder.decode(record) {
            Ok(Value::Empty) => self.empty_count += 1,
            Ok(_) => {}
            // Its structure was validated as far as it is known.
            Err(error) if error.fault == Fault::Module && record.value_type.kind().is_none() => {}
            Err(error) => return Err(error),
        }
        let tally = self.tallies.entry(record.value_type.kind().map_or("module", |kind| kind.name()));
        let tally = tally.or_default();
        tally.count += 1;
        tally.size += (record.key.len() + record.value.len()) as u64;
        self.volatile_count += u64::from(record.expiry.is_some());
        self.expired_count += u64::from(record.expiry.is_some_and(|at| at <= clock::unix_millis()));
        Ok(())
    }

    fn print(&self) {
        let key_count: u64 = self.tallies.values().map(|tally| tally.count).sum();
        println!("[info] {key_count} keys read");
        println!("[info] {} expires", self.volatile_count);
        println!("[info] {} already expired", self.expired_count);
        for (name, Tally { count, size }) in &self.tallies {
            println!("[info] {name}: {count} keys, {size} bytes");
        }
        let rest = [
            (self.empty_count, "keys without elements, which are skipped"),
            (self.function_count, "libraries of functions"),
            (self.module_count, "data of modules beside the keys, which are skipped"),
        ];
        for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
            println!("[info] {count} {what}");
        }
    }
}
