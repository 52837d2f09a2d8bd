//! `broadloom check-aof`: checks append-only files, alone or by manifest, and cuts off an end that is damaged
//! or later than a given time.
//!
//! The lines that scripts look for are those of Redis's and Valkey's tools. Only the last file may be cut. Nothing is
//! changed without `--fix` and a confirmation, or `--truncate-to-timestamp`.
//!
//! Reads a file in pieces; the largest request or value determines the memory.

mod preamble;
mod window;

use crate::disk::{Disk, DiskFile, read_small};
use crate::manifest::Manifest;
use crate::reading::{Item, Reader, starts_with_rdb};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use window::Window;

/// The changes that the tool may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Check,
    /// A damaged end of the last file, after a confirmation.
    Fix,
    /// The end of the last file, from the first annotation on that is later than this Unix time in seconds.
    TruncateTo(i64),
}

/// A run of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// A manifest or an append-only file.
    pub path: PathBuf,
    /// The changes that it may make.
    pub mode: Mode,
}

impl Request {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// The text to show: the usage, or the error.
    pub fn parse(program: &str, arguments: &[OsString]) -> Result<Request, String> {
        let usage = || {
            format!("Usage: {program} [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>")
        };
        let (path, mode) = match arguments {
            [path] if !path.as_bytes().starts_with(b"-") => (path, Mode::Check),
            [flag, path] if flag == "--fix" => (path, Mode::Fix),
            [flag, seconds, path] if flag == "--truncate-to-timestamp" => {
                let seconds = seconds.to_str().and_then(|text| text.parse().ok());
                (path, Mode::TruncateTo(seconds.ok_or("Invalid timestamp, aborting...")?))
            }
            _ => return Err(usage()),
        };
        Ok(Request { path: PathBuf::from(path), mode })
    }
}

/// Checks the file that `request` names, and reports to `out`. `confirm` reads the answer to the question just printed.
/// Returns whether everything is valid or was repaired.
pub fn check(
    disk: &impl Disk,
    request: &Request,
    out: &mut dyn Write,
    confirm: &mut dyn FnMut() -> bool,
) -> bool {
    let mut check = Check { disk, mode: request.mode, out, confirm };
    check.path(&request.path).is_ok()
}

/// The check has failed, and the reason is already reported.
struct Failed;

/// A file's result.
enum FileOutcome {
    Valid,
    Empty,
    Truncated,
    TruncatedToTimestamp(i64),
}

/// A file to check: its name for reports, its path, and whether it may be cut.
#[derive(Clone, Copy)]
struct Target<'a> {
    name: &'a str,
    path: &'a Path,
    is_last: bool,
}

struct Check<'a, D> {
    disk: &'a D,
    mode: Mode,
    out: &'a mut dyn Write,
    confirm: &'a mut dyn FnMut() -> bool,
}

impl<D: Disk> Check<'_, D> {
    fn path(&mut self, path: &Path) -> Result<(), Failed> {
        let name = path.display().to_string();
        let file = self.open(path)?;
        if is_manifest(&first_bytes(&file)) {
            return self.multi_part(path, &file);
        }
        self.line("Start checking Old-Style AOF");
        let outcome = self.file(Target { name: &name, path, is_last: true })?;
        self.outcome("AOF", &name, &outcome);
        Ok(())
    }

    fn multi_part(&mut self, path: &Path, file: &D::File) -> Result<(), Failed> {
        self.line("Start checking Multi Part AOF");
        let text = read_small(file)
            .map_err(|error| self.fail(&format!("Cannot read {}: {error}", path.display())))?;
        let manifest = Manifest::parse(&text).map_err(|error| self.fail(&error.to_string()))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let file_count = manifest.loaded().count();
        for (index, file) in manifest.loaded().enumerate() {
            let path = directory.join(OsStr::from_bytes(&file.name));
            let name = String::from_utf8_lossy(&file.name);
            let is_base = manifest.base.as_ref() == Some(file);
            if is_base {
                let is_rdb = starts_with_rdb(&first_bytes(&self.open(&path)?));
                let format = if is_rdb { "RDB" } else { "RESP" };
                self.line(&format!("Start to check BASE AOF ({format} format)."));
            } else if manifest.increments.first() == Some(file) {
                self.line("Start to check INCR files.");
            }
            let outcome = self.file(Target { name: &name, path: &path, is_last: index + 1 == file_count })?;
            self.outcome(if is_base { "BASE AOF" } else { "INCR AOF" }, &name, &outcome);
        }
        self.line("All AOF files and manifest are valid");
        Ok(())
    }

    fn file(&mut self, target: Target<'_>) -> Result<FileOutcome, Failed> {
        let mut file = self.open(target.path)?;
        let mut window = self.read(target, Window::open(&file))?;
        let size = window.size();
        if size == 0 {
            return Ok(FileOutcome::Empty);
        }
        self.read(target, window.fill(1))?;
        if starts_with_rdb(window.bytes()) {
            self.preamble(target, &mut window)?;
        }
        let mut reader = Reader::new(window.offset());
        if let Some(cut_at) = self.requests(target, &mut window, &mut reader)? {
            return self.truncate_to_timestamp(target, &mut file, cut_at);
        }
        let valid_up_to = reader.valid_up_to();
        let excess = size - valid_up_to;
        if let (0, Mode::TruncateTo(seconds)) = (excess, self.mode) {
            self.line(&format!("Truncate nothing in AOF {} to timestamp {seconds}", target.name));
            return Ok(FileOutcome::Valid);
        }
        self.line(&format!(
            "AOF analyzed: filename={}, size={size}, ok_up_to={valid_up_to}, ok_up_to_line={}, diff={excess}",
            target.name,
            reader.line_count() + 1
        ));
        if excess == 0 { Ok(FileOutcome::Valid) } else { self.fix(target, &mut file, size, valid_up_to) }
    }

    fn preamble(&mut self, target: Target<'_>, window: &mut Window<'_, D::File>) -> Result<(), Failed> {
        match preamble::check(window) {
            Ok(key_count) => {
                let size = window.offset();
                self.line(&format!("RDB preamble of {}: {key_count} keys in {size} bytes", target.name));
                self.line("RDB preamble is OK, proceeding with AOF tail...");
                Ok(())
            }
            Err(reason) => {
                self.line(&format!("{}: {reason}", target.name));
                Err(self.fail("RDB preamble of AOF file is not sane, aborting."))
            }
        }
    }

    /// Reads all requests. Reports a damaged place and stops there, or returns the offset at which to cut.
    fn requests(
        &mut self,
        target: Target<'_>,
        window: &mut Window<'_, D::File>,
        reader: &mut Reader,
    ) -> Result<Option<u64>, Failed> {
        let mut tenth_reported = 0;
        loop {
            match reader.read(window.bytes()) {
                Ok(Item::Incomplete(size)) => {
                    if self.read(target, window.fill(size))? {
                        continue;
                    }
                    if !window.bytes().is_empty() {
                        self.line(&format!("0x{:x}: The file ends within a request", reader.offset()));
                    } else if reader.in_transaction() {
                        self.line(&format!(
                            "0x{:x}: Reached EOF before reading EXEC for MULTI",
                            reader.offset()
                        ));
                    }
                    return Ok(None);
                }
                Ok(Item::Annotation(Some(seconds))) if self.is_later(seconds) => {
                    return Ok(Some(window.offset()));
                }
                Ok(item @ (Item::Annotation(_) | Item::Request | Item::Stray(_))) => {
                    if let Item::Stray(stray) = item {
                        self.line(&format!("0x{:x}: {stray} in AOF {}", window.offset(), target.name));
                    }
                    window.consume_to(reader.offset());
                }
                Err(error) => {
                    self.line(&format!("{error} in AOF {}", target.name));
                    return Ok(None);
                }
            }
            let tenth = window.tenth();
            if tenth > tenth_reported {
                tenth_reported = tenth;
                self.line(&format!("{}: {tenth}0% read", target.name));
            }
        }
    }

    fn is_later(&self, seconds: i64) -> bool {
        matches!(self.mode, Mode::TruncateTo(limit) if seconds > limit)
    }

    fn fix(
        &mut self,
        target: Target<'_>,
        file: &mut D::File,
        size: u64,
        valid_up_to: u64,
    ) -> Result<FileOutcome, Failed> {
        let name = target.name;
        if self.mode != Mode::Fix {
            return Err(
                self.fail(&format!("AOF {name} is not valid. Use the --fix option to try fixing it."))
            );
        }
        if !target.is_last {
            return Err(self.fail(&format!("Failed to truncate AOF {name} because it is not the last file")));
        }
        let excess = size - valid_up_to;
        self.line(&format!(
            "This will shrink the AOF {name} from {size} bytes, with {excess} bytes, to {valid_up_to} bytes"
        ));
        let _ = write!(self.out, "Continue? [y/N]: ").and_then(|()| self.out.flush());
        if !(self.confirm)() {
            return Err(self.fail("Aborting..."));
        }
        self.truncate(target, file, valid_up_to)?;
        Ok(FileOutcome::Truncated)
    }

    fn truncate_to_timestamp(
        &mut self,
        target: Target<'_>,
        file: &mut D::File,
        cut_at: u64,
    ) -> Result<FileOutcome, Failed> {
        let Mode::TruncateTo(seconds) = self.mode else { return Ok(FileOutcome::Valid) };
        let name = target.name;
        if cut_at == 0 {
            return Err(self.fail(&format!("AOF {name} has nothing before timestamp {seconds}, aborting...")));
        }
        if !target.is_last {
            self.line(&format!(
                "Failed to truncate AOF {name} to timestamp {seconds} to offset {cut_at} because it is not the last file."
            ));
            return Err(self.fail(
                "To cut it anyway, remove the later files and their lines in the manifest, then repeat this check.",
            ));
        }
        self.truncate(target, file, cut_at)?;
        Ok(FileOutcome::TruncatedToTimestamp(seconds))
    }

    fn truncate(&mut self, target: Target<'_>, file: &mut D::File, size: u64) -> Result<(), Failed> {
        let done = file.truncate(size).and_then(|()| file.sync());
        done.map_err(|error| self.fail(&format!("Failed to truncate AOF {}: {error}", target.name)))
    }

    fn outcome(&mut self, kind: &str, name: &str, outcome: &FileOutcome) {
        self.line(&match outcome {
            FileOutcome::Valid => format!("{kind} {name} is valid"),
            FileOutcome::Empty => format!("{kind} {name} is empty"),
            FileOutcome::Truncated => format!("Successfully truncated AOF {name}"),
            FileOutcome::TruncatedToTimestamp(seconds) => {
                format!("Successfully truncated AOF {name} to timestamp {seconds}")
            }
        });
    }

    fn open(&mut self, path: &Path) -> Result<D::File, Failed> {
        self.disk
            .open(path)
            .map_err(|error| self.fail(&format!("Cannot open file {}: {error}, aborting...", path.display())))
    }

    fn read<T>(&mut self, target: Target<'_>, read: std::io::Result<T>) -> Result<T, Failed> {
        read.map_err(|error| {
            self.fail(&format!("Failed to read from AOF {}: {error}, aborting...", target.name))
        })
    }

    fn fail(&mut self, text: &str) -> Failed {
        self.line(text);
        Failed
    }

    /// Ignores errors: a closed output must not stop a repair.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }
}

/// The first bytes of a file, enough to recognise its format.
fn first_bytes(file: &impl DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let size = file.read_at(0, &mut bytes).unwrap_or(0);
    bytes.truncate(size);
    bytes
}

/// Whether a file is a manifest, by its first line that is not a comment.
fn is_manifest(first: &[u8]) -> bool {
    let mut lines = first.split(|byte| *byte == b'\n').skip_while(|line| line.starts_with(b"#"));
    lines.next().is_some_and(|line| line.starts_with(b"file"))
}
