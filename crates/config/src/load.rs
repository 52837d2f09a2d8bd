//! Start-up: converts the text of files, standard input and options to a [`Config`].
//!
//! Later lines win over earlier ones. Files are read through [`Files`], so this module does no I/O itself.

use std::collections::HashMap;
use std::{fmt, io};

use crate::command_line::CommandLine;
use crate::quote::split_arguments;
use crate::setting::Occurrence;
use crate::table::directive::{Directive, find, suggest};
use crate::table::{Config, Id};

/// Maximum depth of includes. A file that includes itself is an error instead of a stack overflow.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Names from older versions that are still found in files. Redis ignores them, too.
const OBSOLETE: [&str; 3] = ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// Directives that exist in files only, with their minimum and maximum number of arguments.
const FILE_ONLY: [(&str, usize, usize); 4] =
    [("include", 1, 1), ("loadmodule", 1, usize::MAX), ("rename-command", 2, 2), ("user", 1, usize::MAX)];

/// Whether the name is valid in a file although it is not in the table of directives.
pub(crate) fn is_file_only(name: &[u8]) -> bool {
    FILE_ONLY.iter().any(|(known, ..)| name.eq_ignore_ascii_case(known.as_bytes())) || name.contains(&b'.')
}

/// The source of configuration text.
pub trait Files {
    /// The content of a file.
    fn read(&mut self, path: &str) -> io::Result<Vec<u8>>;
    /// The files that match a pattern, in alphabetical order.
    fn matching(&mut self, pattern: &str) -> io::Result<Vec<String>>;
    /// All standard input.
    fn read_stdin(&mut self) -> io::Result<Vec<u8>>;
}

/// No files and no input, for self-contained text.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&mut self, _: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// A text that a line of the configuration is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The configuration file.
    File,
    /// Standard input.
    StandardInput,
    /// An included file, with its path.
    Included(String),
    /// The options of the command line.
    CommandLine,
}

/// A line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePlace {
    /// Where the line is.
    pub source: Source,
    /// Counted from 1 in its source.
    pub line: usize,
    /// The line, without a sensitive value.
    pub text: String,
}

/// A `rename-command` line. The server checks that the command exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRename {
    /// The command's original name.
    pub from: Vec<u8>,
    /// Its new name; empty removes the command.
    pub to: Vec<u8>,
    /// The position, for errors.
    pub place: LinePlace,
}

/// A `user` line, to be parsed by the ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserLine {
    /// The user's name, then the rules.
    pub arguments: Vec<Vec<u8>>,
    /// The position, for errors.
    pub place: LinePlace,
}

/// The content of the start-up text.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The values of all directives.
    pub config: Config,
    /// Commands to rename, in order.
    pub renames: Vec<CommandRename>,
    /// ACL users, in order.
    pub users: Vec<UserLine>,
    /// Directives without effect that have a value other than the default.
    pub inert: Vec<Id>,
    /// Options of modules.
    pub modules: Vec<String>,
}

/// An invalid configuration. Its text is for standard error; the process must end.
#[derive(Debug)]
pub enum LoadError {
    /// A file cannot be read.
    CannotOpen {
        /// The file, or `standard input`.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// A line is invalid.
    Line {
        /// The line.
        place: LinePlace,
        /// The error, in Redis's words.
        reason: String,
        /// The accepted values.
        help: Option<String>,
    },
    /// Lines that are valid alone conflict with each other.
    Contradiction {
        /// The conflict, in Redis's words if Redis knows it.
        reason: String,
    },
}

impl LoadError {
    /// An error that the server finds in a line: a missing command, an invalid rule.
    #[must_use]
    pub fn at(place: LinePlace, reason: impl Into<String>) -> Self {
        Self::Line { place, reason: reason.into(), help: None }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headline = |out: &mut fmt::Formatter<'_>| {
            writeln!(out, "\n*** FATAL CONFIG FILE ERROR (Broadloom {}) ***", env!("CARGO_PKG_VERSION"))
        };
        match self {
            Self::CannotOpen { path, error } => {
                write!(out, "Fatal error, can't open config file '{path}': {error}")
            }
            Self::Contradiction { reason } => {
                headline(out)?;
                write!(out, "{reason}")
            }
            Self::Line { place, reason, help } => {
                headline(out)?;
                let line = place.line;
                match &place.source {
                    Source::File => write!(out, "Reading the configuration file, at line {line}")?,
                    Source::StandardInput => write!(out, "Reading standard input, at line {line}")?,
                    Source::Included(file) => {
                        write!(out, "Reading the configuration file, at line {line} of {file}")?;
                    }
                    Source::CommandLine => out.write_str("Reading the options of the command line")?,
                }
                write!(out, "\n>>> '{}'\n{reason}", place.text)?;
                help.as_ref().map_or(Ok(()), |help| write!(out, "\n{help}"))
            }
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::CannotOpen { error, .. } => Some(error),
            Self::Line { .. } | Self::Contradiction { .. } => None,
        }
    }
}

/// Loads the configuration of a command line: its file, then standard input, then its options.
pub fn load(command_line: &CommandLine, files: &mut dyn Files) -> Result<Loaded, LoadError> {
    let mut texts = Vec::new();
    if let Some(path) = &command_line.config_path {
        texts.push((Source::File, files.read(path).map_err(|error| cannot_open(path, error))?));
    }
    if command_line.reads_stdin {
        let text = files.read_stdin().map_err(|error| cannot_open("standard input", error))?;
        texts.push((Source::StandardInput, text));
    }
    texts.push((Source::CommandLine, command_line.options.clone()));
    load_texts(&texts, files)
}

/// Loads the configuration of a text.
pub fn load_text(text: &[u8], files: &mut dyn Files) -> Result<Loaded, LoadError> {
    load_texts(&[(Source::File, text.to_vec())], files)
}

fn load_texts(texts: &[(Source, Vec<u8>)], files: &mut dyn Files) -> Result<Loaded, LoadError> {
    let mut loader = Loader { loaded: Loaded::default(), files, seen: HashMap::new() };
    for (source, text) in texts {
        loader.read_text(text, source, 0)?;
    }
    loader.finish()
}

fn cannot_open(path: &str, error: io::Error) -> LoadError {
    LoadError::CannotOpen { path: path.to_owned(), error }
}

/// The error of a line whose position is not known yet.
struct Problem {
    reason: String,
    help: Option<String>,
}

impl Problem {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), help: None }
    }
}

struct Loader<'f> {
    loaded: Loaded,
    files: &'f mut dyn Files,
    /// The directives in the text, each with its last line.
    seen: HashMap<Id, LinePlace>,
}

impl Loader<'_> {
    fn read_text(&mut self, text: &[u8], source: &Source, depth: usize) -> Result<(), LoadError> {
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let place = LinePlace { source: source.clone(), line: index + 1, text: shown(line) };
            let at_place = |problem: Problem| LoadError::Line {
                place: place.clone(),
                reason: problem.reason,
                help: problem.help,
            };
            let mut arguments = split_arguments(line)
                .map_err(|_| at_place(Problem::new("Unbalanced quotes in configuration line")))?;
            let name = arguments.remove(0).to_ascii_lowercase();
            if name == b"include" && arguments.len() == 1 {
                if depth == INCLUDE_DEPTH_MAX {
                    return Err(at_place(Problem::new(
                        "includes are nested too deeply: at most 16 levels are allowed",
                    )));
                }
                self.include(&String::from_utf8_lossy(&arguments[0]), depth)?;
            } else {
                self.read_line(&name, arguments, &place).map_err(at_place)?;
            }
        }
        Ok(())
    }

    /// Reads the file, or every file that matches the pattern. A pattern without matches is not an error, so
    /// that a directory of additions may be empty. As in Redis, a relative path refers to the current value of
    /// `dir`.
    fn include(&mut self, path: &str, depth: usize) -> Result<(), LoadError> {
        let dir = &self.loaded.config.dir;
        let path = match dir.as_str() {
            "" => path.to_owned(),
            _ if path.starts_with('/') => path.to_owned(),
            dir => format!("{}/{path}", dir.trim_end_matches('/')),
        };
        let paths = if path.contains(['*', '?', '[']) {
            self.files.matching(&path).map_err(|error| cannot_open(&path, error))?
        } else {
            vec![path]
        };
        for path in paths {
            let text = self.files.read(&path).map_err(|error| cannot_open(&path, error))?;
            self.read_text(&text, &Source::Included(path), depth + 1)?;
        }
        Ok(())
    }

    fn read_line(&mut self, name: &[u8], arguments: Vec<Vec<u8>>, place: &LinePlace) -> Result<(), Problem> {
        let text = String::from_utf8_lossy(name);
        if let Some(directive) = find(name) {
            return self.set(directive, &arguments, place);
        }
        if OBSOLETE.contains(&&*text) && arguments.len() == 1 {
            return Ok(());
        }
        let counts = FILE_ONLY.iter().find(|(known, ..)| *known == text);
        if counts.is_some_and(|(_, min, max)| (min..=max).contains(&&arguments.len())) {
            return self.read_file_only(&text, arguments, place);
        }
        if text == "sentinel" {
            return Err(Problem::new("sentinel directive while not in sentinel mode"));
        }
        if text.contains('.') {
            if arguments.is_empty() {
                return Err(Problem::new("Module config specified without value"));
            }
            self.loaded.modules.push(text.into_owned());
            return Ok(());
        }
        let known = counts.map(|(known, ..)| *known);
        let help = suggest(&text).filter(|_| known.is_none()).map(|meant| format!("Did you mean '{meant}'?"));
        Err(Problem { reason: "Bad directive or wrong number of arguments".into(), help })
    }

    fn set(
        &mut self,
        directive: &'static Directive,
        arguments: &[Vec<u8>],
        place: &LinePlace,
    ) -> Result<(), Problem> {
        let occurrence =
            if self.seen.contains_key(&directive.id) { Occurrence::Further } else { Occurrence::First };
        match directive.set_from_line(&mut self.loaded.config, arguments, occurrence) {
            Ok(_) => {
                self.seen.insert(directive.id, place.clone());
                Ok(())
            }
            Err(reason) => {
                let given =
                    arguments.iter().map(|argument| String::from_utf8_lossy(argument)).collect::<Vec<_>>();
                let given = match directive.marks.sensitive {
                    true => "a secret".to_owned(),
                    false => format!("'{}'", given.join(" ")),
                };
                let help =
                    format!("'{}' was given {given}; it takes {}.", directive.name, directive.accepts());
                Err(Problem { reason: reason.into_owned(), help: Some(help) })
            }
        }
    }

    /// Stores a line with the right number of arguments. Modules are refused, because Redis does not start
    /// without a configured module either.
    fn read_file_only(
        &mut self,
        name: &str,
        mut arguments: Vec<Vec<u8>>,
        place: &LinePlace,
    ) -> Result<(), Problem> {
        let place = place.clone();
        match name {
            "user" => self.loaded.users.push(UserLine { arguments, place }),
            "loadmodule" => {
                let path = String::from_utf8_lossy(&arguments[0]);
                return Err(Problem {
                    reason: format!("Modules are not supported by Broadloom: '{path}' can't be loaded."),
                    help: Some("Remove the line if the server may run without it.".to_owned()),
                });
            }
            _ => {
                let to = arguments.swap_remove(1);
                let from = arguments.swap_remove(0);
                self.loaded.renames.push(CommandRename { from, to, place });
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Loaded, LoadError> {
        let default = Config::default();
        let config = &mut self.loaded.config;
        config.apply_dependent_defaults();
        if config.cluster_enabled && config.replicaof.0.is_some() {
            let reason = "replicaof directive not allowed in cluster mode".into();
            return Err(LoadError::Contradiction { reason });
        }
        config.check_admin_access().map_err(|reason| LoadError::Contradiction { reason })?;
        // Only the last line of a directive counts: an option of the command line may override a line of the file.
        let mut refused: Vec<(Id, String)> =
            self.seen.keys().filter_map(|id| Some((*id, id.directive().refusal(config)?))).collect();
        refused.sort_unstable_by_key(|(id, _)| *id);
        if let Some((id, reason)) = refused.into_iter().next() {
            let directive = id.directive();
            let default = String::from_utf8_lossy(&directive.value(&default)).into_owned();
            let default = if default.is_empty() { "\"\"".to_owned() } else { default };
            let help = format!(
                "The server does not start, because it does not support this value. Remove the line, or set '{}' \
                 to its default, {default}.",
                directive.name
            );
            return Err(LoadError::Line { place: self.seen[&id].clone(), reason, help: Some(help) });
        }
        let is_idle = |id: &Id| {
            let directive = id.directive();
            directive.inert.is_some() && directive.value(config) != directive.value(&default)
        };
        self.loaded.inert = self.seen.keys().copied().filter(is_idle).collect();
        self.loaded.inert.sort_unstable();
        Ok(self.loaded)
    }
}

/// The line, as shown in errors.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let name = text.split(|char: char| char.is_ascii_whitespace()).next().unwrap_or_default();
    match find(name.as_bytes()) {
        Some(directive) if directive.marks.sensitive => format!("{name} (redacted)"),
        None if name.eq_ignore_ascii_case("user") => {
            let user = text.split_ascii_whitespace().nth(1).unwrap_or_default();
            format!("{name} {user} (redacted)")
        }
        _ => text.into_owned(),
    }
}

impl Loaded {
    /// The log line about directives without effect; `None` if there are none.
    #[must_use]
    pub fn inert_notice(&self) -> Option<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut add = |reason, name| match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        };
        for directive in self.inert.iter().map(|id| id.directive()) {
            add(directive.inert.unwrap_or_default(), directive.name);
        }
        for module in &self.modules {
            add("there are no modules", module);
        }
        let parts: Vec<String> =
            reasons.iter().map(|(reason, names)| format!("{} ({reason})", names.join(", "))).collect();
        (!parts.is_empty())
            .then(|| format!("These settings are accepted but have no effect: {}", parts.join("; ")))
    }
}
