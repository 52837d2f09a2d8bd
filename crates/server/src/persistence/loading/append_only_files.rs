//! Loads the files of an append-only directory: the base, an RDB file or requests, then the requests of each increment.
//!
//! One thread reads a file and checks its form; the calling thread runs the requests with [`Replay`]. A transaction runs
//! at its `EXEC`, so an incomplete transaction at the end of a file has no effect.
//! A damaged end of the last file is cut off if the configuration allows it; otherwise the file is not changed.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use commands::command::{Access, Categories, Command, Flags};
use os::clock::{self, Ticks};
use persist::disk::{Disk, DiskFile};
use persist::files::{AppendOnlyFiles, FilesError};
use persist::manifest::{FileKind, ManifestFile};
use persist::reading::{Damage, FormatError, Item, LoadPolicy, Reader, starts_with_rdb};
use persist::stream::{StreamOffset, StreamReader};

use super::delay::Delay;
use super::progress::ProgressLog;
use super::queue::Queue;
use super::rdb_file::{self, RdbOptions};
use super::{LoadFailed, log_loaded, log_rdb_error, seconds_since};
use crate::disk::{self, FileReader, ServerDisk};
use crate::shared::loading::StreamPosition;
use crate::shared::{Shared, background};

/// Bytes of a file that are passed to the replay together.
const STRETCH_SIZE: usize = 256 << 10;
/// The stretch size of loads that are delayed for tests.
const DELAYED_STRETCH_SIZE: usize = 4 << 10;
/// The maximum number of stretches in the queue.
const STRETCH_COUNT_MAX: usize = 4;
/// Skipped requests of a file that the log shows.
const SHOWN_COUNT_MAX: u64 = 10;
/// Enough to recognise a file's format.
const HEAD_SIZE: usize = 9;

/// Complete requests.
struct Stretch {
    bytes: Vec<u8>,
    /// The ranges of the requests, between annotations.
    requests: Vec<Range<usize>>,
}

/// How a file ends.
enum Ending {
    /// After a whole item.
    Complete,
    /// Within an item.
    Truncated,
    Corrupt(FormatError),
    /// A request that can't be run: the reason.
    Refused(String),
    Disk(io::Error),
    Stopped,
}

/// How a file was loaded.
#[derive(PartialEq, Eq)]
enum Outcome {
    Loaded,
    Empty,
}

/// Loads all files of the directory, in order. The last one is cut at its valid end. Returns the position of the data in the
/// replication stream, as the files tell it; `None`: there are no files.
///
/// # Errors
/// A file is missing, not valid, or can't be read. Some of the data may be loaded.
pub fn load_append_only(
    shared: &'static Shared,
    files: &mut AppendOnlyFiles<ServerDisk>,
) -> Result<Option<StreamReader>, LoadFailed> {
    if files.manifest().is_empty() {
        return Ok(None);
    }
    let listed: Vec<ManifestFile> = files.manifest().loaded().cloned().collect();
    let size_of = |file: &ManifestFile| -> Result<u64, FilesError> {
        let size = files.open_file(&file.name)?.size();
        size.map_err(|source| FilesError::Disk { action: format!("read {}", shown(file)), source })
    };
    let total: Result<u64, FilesError> = listed.iter().map(size_of).sum();
    let total = total.map_err(|error| {
        log::error!("Fatal error: {error}");
        LoadFailed
    })?;
    background::let_others_preempt();
    shared.loading.begin(&shared.modes.flags, total);
    let mut stream = StreamReader::default();
    for (index, file) in listed.iter().enumerate() {
        let started = Ticks::now();
        let is_last = index + 1 == listed.len();
        let outcome = Loading { shared, file, is_last, name: shown(file) }.load(files, &mut stream)?;
        if outcome == Outcome::Loaded {
            let kind = if file.kind == FileKind::Base { "base" } else { "incr" };
            log::info!("DB loaded from {kind} file {}: {:.3} seconds", shown(file), seconds_since(started));
        }
    }
    Ok(Some(stream))
}

/// The name of a file for the log.
fn shown(file: &ManifestFile) -> String {
    String::from_utf8_lossy(&file.name).into_owned()
}

/// A file that is being loaded.
struct Loading<'a> {
    shared: &'static Shared,
    file: &'a ManifestFile,
    name: String,
    is_last: bool,
}

impl Loading<'_> {
    fn load(
        &self,
        files: &mut AppendOnlyFiles<ServerDisk>,
        stream: &mut StreamReader,
    ) -> Result<Outcome, LoadFailed> {
        let name = &self.name;
        let opened = disk::current().open(&files.path(&self.file.name));
        let file = opened.map_err(|error| {
            fail(&format!("Fatal error: can't open the append log file {name} for reading: {error}"))
        })?;
        let mut head = [0; HEAD_SIZE];
        let head_size = file.read_at(0, &mut head).map_err(|error| self.unreadable(&error))?;
        if head_size == 0 {
            return Ok(Outcome::Empty);
        }
        let mut file = FileReader::new(file);
        let mut start = 0;
        if starts_with_rdb(&head[..head_size]) {
            start = self.preamble(&mut file)?;
            self.begin_stream(files, stream);
        }
        file.seek(start);
        let (reader, ending) = self.requests(file, start, stream)?;
        if !matches!(ending, Ending::Complete) || reader.in_transaction() {
            stream.lose();
        }
        self.finish(files, &reader, ending)?;
        Ok(Outcome::Loaded)
    }

    /// Loads the snapshot at the beginning of the file. Returns its end.
    fn preamble(&self, file: &mut FileReader) -> Result<u64, LoadFailed> {
        // Files from before the directory have the bare name.
        let is_old = !self.name.contains(".base.");
        let what = if is_old { "RDB preamble of the AOF" } else { "RDB base" };
        if is_old {
            log::info!("Reading RDB preamble from AOF file...");
        } else {
            log::info!("Reading RDB base file on AOF loading...");
        }
        let options = RdbOptions { keeps_expired: true, ..RdbOptions::default() };
        let loaded = rdb_file::load(self.shared, file, options, &self.shared.scripts.libraries);
        let end = loaded.map_err(|error| {
            log_rdb_error(&self.name, &error);
            fail(&format!("Error reading the {what} file {}, AOF loading aborted", self.name))
        })?;
        log_loaded(self.shared);
        if is_old {
            log::info!("Reading the remaining AOF tail...");
        }
        Ok(end)
    }

    /// The position that the snapshot at the beginning of the file names.
    fn begin_stream(&self, files: &AppendOnlyFiles<ServerDisk>, stream: &mut StreamReader) {
        let file = disk::current().open(&files.path(&self.file.name)).ok();
        let position =
            file.and_then(|file| rdb_file::stream_position(self.shared, &mut FileReader::new(file)));
        let at = position.and_then(|StreamPosition { id, offset, .. }| {
            Some(StreamOffset { id: *id.as_bytes().first_chunk()?, offset })
        });
        stream.begin(at, position.map_or(0, |position| position.db.0.into()));
    }

    /// Runs the requests of the file from `start` on. Returns the end of the valid part, and how the file ends.
    fn requests(
        &self,
        file: FileReader,
        start: u64,
        stream: &mut StreamReader,
    ) -> Result<(Reader, Ending), LoadFailed> {
        let shared = self.shared;
        let queue = Arc::new(Queue::new(STRETCH_COUNT_MAX));
        let (theirs, name, mut position) = (Arc::clone(&queue), self.name.clone(), *stream);
        let body = move || {
            let _handler_stack = os::fault::prepare_thread();
            let mut reader = Reader::new(start);
            let ending = cut(shared, (file, &name), (&mut reader, &mut position), &theirs);
            theirs.close();
            (reader, ending, position)
        };
        let cutter = sync::thread::Builder::new().name("broadloom-load-0".to_owned()).spawn(body);
        let cutter = cutter.map_err(|error| fail(&format!("Can't start a thread: {error}")))?;
        let mut replay = shared.loading.start_replay(shared);
        while let Some(stretch) = queue.pop() {
            replay.set_time(clock::unix_millis());
            for range in stretch.requests {
                replay.run(&stretch.bytes[range]);
            }
            if shared.modes.is_stopping() {
                queue.abandon();
            }
        }
        match cutter.join() {
            Ok((reader, ending, position)) => {
                *stream = position;
                Ok((reader, ending))
            }
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    /// Decides on the end of the file.
    fn finish(
        &self,
        files: &mut AppendOnlyFiles<ServerDisk>,
        reader: &Reader,
        ending: Ending,
    ) -> Result<(), LoadFailed> {
        let name = &self.name;
        let config = self.shared.config.load();
        let policy = LoadPolicy {
            load_truncated: config.aof_load_truncated,
            corrupt_tail_size_max: config.aof_load_corrupt_tail_max_size,
        };
        match ending {
            Ending::Stopped => Err(LoadFailed),
            Ending::Disk(error) => Err(self.unreadable(&error)),
            Ending::Refused(reason) => {
                Err(fail(&format!("Error reading the append only file {name}, error: {reason}")))
            }
            Ending::Complete if !reader.in_transaction() => Ok(()),
            Ending::Complete | Ending::Truncated => {
                if reader.in_transaction() {
                    log::warn!("Revert incomplete MULTI/EXEC transaction in AOF file {name}");
                }
                match policy.truncated(reader) {
                    Damage::TruncateAt(offset) => {
                        log::warn!("!!! Warning: short read while loading the AOF file {name}!!!");
                        self.truncate(files, offset)?;
                        log::warn!("AOF {name} loaded anyway because aof-load-truncated is enabled");
                        Ok(())
                    }
                    Damage::Refuse(offset) => Err(fail(&format!(
                        "Unexpected end of file reading the append only file {name}, which is valid up to offset {offset}. \
                         You can: 1) Make a backup of your AOF file, then use broadloom check-aof --fix <filename.manifest>. \
                         2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and restart the \
                         server."
                    ))),
                }
            }
            Ending::Corrupt(error) => {
                let size = files.open_file(&self.file.name).map_err(|error| fail(&error.to_string()))?;
                let size = size.size().map_err(|error| self.unreadable(&error))?;
                match policy.corrupt(reader, size) {
                    Damage::TruncateAt(offset) if self.is_last => {
                        log::warn!("!!! Warning: the end of the AOF file {name} is not valid: {error} !!!");
                        self.truncate(files, offset)?;
                        log::warn!(
                            "AOF {name} loaded anyway because its end is shorter than aof-load-corrupt-tail-max-size"
                        );
                        Ok(())
                    }
                    Damage::TruncateAt(offset) | Damage::Refuse(offset) => Err(fail(&format!(
                        "Bad file format reading the append only file {name}: {error}; it is valid up to offset {offset} of \
                         {size}. Make a backup of your AOF file, then use broadloom check-aof --fix <filename.manifest>"
                    ))),
                }
            }
        }
    }

    /// Cuts the file, which must be the last one.
    fn truncate(&self, files: &mut AppendOnlyFiles<ServerDisk>, offset: u64) -> Result<(), LoadFailed> {
        let name = &self.name;
        if !self.is_last {
            return Err(fail(&format!("Fatal error: the truncated file is not the last file: {name}")));
        }
        log::warn!("!!! Truncating the AOF {name} at offset {offset} !!!");
        let truncated = files.truncate_last(offset);
        truncated.map_err(|error| fail(&format!("Error truncating the AOF file {name}: {error}")))
    }

    fn unreadable(&self, error: &io::Error) -> LoadFailed {
        fail(&format!("Unrecoverable error reading the append only file {}: {error}", self.name))
    }
}

fn fail(text: &str) -> LoadFailed {
    log::error!("{text}");
    LoadFailed
}

/// Reads a file, and passes on its valid requests.
fn cut(
    shared: &Shared,
    (mut file, name): (FileReader, &str),
    (reader, stream): (&mut Reader, &mut StreamReader),
    queue: &Queue<Stretch>,
) -> Ending {
    let mut admission = Admission { shared, name, skipped_count: 0 };
    let mut delay = Delay::new(shared);
    let mut progress = ProgressLog::new(shared);
    let mut bytes: Vec<u8> = Vec::new();
    // The minimum size of the item at the beginning.
    let mut needed = 0_u64;
    loop {
        let size = if delay.is_on() { DELAYED_STRETCH_SIZE } else { STRETCH_SIZE };
        // Large arguments grow with the bytes read: the announced size is not trusted.
        let wanted = size.max(bytes.len().min(needed as usize)) as u64;
        match file.by_ref().take(wanted).read_to_end(&mut bytes) {
            Ok(0) if bytes.is_empty() => return Ending::Complete,
            Ok(0) => return Ending::Truncated,
            Ok(_) => {}
            Err(error) => return Ending::Disk(error),
        }
        let mut requests: Vec<Range<usize>> = Vec::new();
        let (mut at, mut ending) = (0, None);
        loop {
            let rest = &bytes[at..];
            let before = reader.offset();
            match reader.read(rest) {
                Ok(Item::Incomplete(size)) => {
                    needed = size;
                    break;
                }
                Ok(item) => {
                    let start = at;
                    let size = (reader.offset() - before) as usize;
                    at += size;
                    match item {
                        Item::Request => stream.request(rest, size, reader),
                        Item::Annotation(_) => stream.annotation(&rest[..size]),
                        _ => stream.lose(),
                    }
                    let admitted = match item {
                        Item::Request => admission.admit(rest, reader, before),
                        Item::Stray(stray) => {
                            admission.skip(before, &stray.to_string());
                            Ok(false)
                        }
                        _ => Ok(false),
                    };
                    match admitted {
                        Ok(true) => {}
                        Ok(false) => continue,
                        Err(reason) => {
                            ending = Some(Ending::Refused(reason));
                            break;
                        }
                    }
                    match requests.last_mut().filter(|last| last.end == start) {
                        Some(last) => last.end = at,
                        None => requests.push(start..at),
                    }
                    delay.after_key();
                    if delay.is_stopped() {
                        return Ending::Stopped;
                    }
                }
                Err(error) => {
                    ending = Some(Ending::Corrupt(error));
                    break;
                }
            }
        }
        if at > 0 {
            let rest = bytes[at..].to_vec();
            let stretch = Stretch { bytes: std::mem::replace(&mut bytes, rest), requests };
            if !queue.push(stretch) || shared.modes.is_stopping() {
                return Ending::Stopped;
            }
            shared.loading.note_loaded(at as u64);
            progress.note();
        }
        if let Some(ending) = ending {
            return ending;
        }
    }
}

/// The requests of a file that run: those that change data. As Valkey does, the server refuses a file with a command that
/// does not exist or has a wrong number of arguments, and skips a command that concerns a connection or the server.
struct Admission<'a> {
    shared: &'a Shared,
    /// Of the file.
    name: &'a str,
    skipped_count: u64,
}

impl Admission<'_> {
    /// Whether a request at an offset runs.
    ///
    /// # Errors
    /// Why the file can't be loaded.
    fn admit(&mut self, bytes: &[u8], reader: &Reader, offset: u64) -> Result<bool, String> {
        let arguments = reader.arguments();
        let (name, word) = (&bytes[arguments[0].clone()], arguments.get(1).map(|word| &bytes[word.clone()]));
        let shown = || String::from_utf8_lossy(name).into_owned();
        let known = &self.shared.logged_commands;
        let Some(found) = known.find(name) else { return Err(format!("unknown command '{}'", shown())) };
        let found = match word {
            Some(word) if !found.command.subcommands.is_empty() => {
                let unknown = || format!("unknown subcommand '{}' of '{}'", word.escape_ascii(), shown());
                known.find_sub(found, word).ok_or_else(unknown)?
            }
            _ => found,
        };
        let command = found.command;
        if !command.accepts(arguments.len()) {
            let full_name = &commands::table::NUMBERED[usize::from(found.id.0)].0;
            return Err(format!("wrong number of arguments for '{full_name}' command"));
        }
        // The marks of a transaction.
        let begins = reader.in_transaction() && reader.valid_up_to() == offset;
        let ends = matches!(command.access, Access::Queued);
        let is_refused_in_multi = reader.in_transaction() && command.flags.contains(Flags::NO_MULTI);
        if !begins && !ends && (is_refused_in_multi || is_out_of_place(command)) {
            self.skip(offset, &format!("{}, which has no place in such a file", shown()));
            return Ok(false);
        }
        Ok(true)
    }

    /// Logs that a request does not run, for the first few of them.
    fn skip(&mut self, offset: u64, what: &str) {
        self.skipped_count += 1;
        if self.skipped_count <= SHOWN_COUNT_MAX {
            log::warn!("The append only file {} has at offset {offset} a {what}: it is skipped", self.name);
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.skipped_count > SHOWN_COUNT_MAX {
            log::warn!("{} requests of the append only file {} were skipped", self.skipped_count, self.name);
        }
    }
}

/// Whether a command changes a connection or the server, and no data.
fn is_out_of_place(command: &Command) -> bool {
    let flags = command.flags;
    !flags.contains(Flags::WRITE)
        && (flags.contains(Flags::ADMIN)
            || flags.contains(Flags::NOSCRIPT) && !command.categories.contains(Categories::SCRIPTING))
}
