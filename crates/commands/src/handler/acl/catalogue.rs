//! The commands that ACL rules can name, by number, and the databases and channels that requests name in their arguments.

use std::collections::HashMap;
use std::ops::Range;

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Categories, Command, Flags, KeyFlags};
use crate::resolved_command::CommandId;
use crate::word::Word;

/// The databases that a command accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Databases {
    /// The database of the session, if the command accesses data.
    Current,
    /// All.
    All,
    /// The databases at these argument indexes, and the session's database for the keys.
    At(&'static [usize]),
    /// The database after each option `DB`, and the session's database for the keys.
    AfterWord,
}

/// Commands that name databases. All others use [`Databases::Current`].
static NAMED_DATABASES: &[(&str, Databases)] = &[
    ("copy", Databases::AfterWord),
    ("flushall", Databases::All),
    ("move", Databases::At(&[2])),
    ("select", Databases::At(&[1])),
    ("swapdb", Databases::At(&[1, 2])),
];

/// The index of the first option of `COPY`.
const COPY_OPTIONS_AT: usize = 3;

/// Maximum number of commands and subcommands: the size of a user's permission bitmap.
pub(super) const COMMAND_COUNT_MAX: usize = 1024;

/// The command table as rules and checks use it.
pub struct Catalogue {
    entries: &'static [(String, &'static Command)],
    numbers: HashMap<&'static str, u16>,
    databases: HashMap<u16, Databases>,
}

impl Catalogue {
    /// Returns the catalogue of all commands and subcommands, with their full names, by number.
    ///
    /// # Panics
    /// If there are more than `COMMAND_COUNT_MAX`, or a command that names databases is missing.
    #[must_use]
    pub fn new(entries: &'static [(String, &'static Command)]) -> Self {
        assert!(entries.len() <= COMMAND_COUNT_MAX, "make COMMAND_COUNT_MAX larger");
        let numbered = entries.iter().enumerate();
        let numbers: HashMap<_, _> =
            numbered.map(|(number, (name, _))| (name.as_str(), number as u16)).collect();
        let databases = NAMED_DATABASES.iter().map(|(name, databases)| (numbers[name], *databases)).collect();
        Self { entries, numbers, databases }
    }

    /// Returns the number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the command with this full name (`config|get`), in any case.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        let name = String::from_utf8(name.to_ascii_lowercase()).ok()?;
        self.numbers.get(name.as_str()).map(|number| CommandId(*number))
    }

    /// Returns the full name of a command, which renaming does not change.
    #[must_use]
    pub fn name(&self, id: CommandId) -> &'static str {
        &self.entries[usize::from(id.0)].0
    }

    /// Returns a command, under its original name.
    #[must_use]
    pub fn command(&self, id: CommandId) -> &'static Command {
        self.entries[usize::from(id.0)].1
    }

    /// Whether it is a subcommand.
    pub(super) fn is_subcommand(&self, id: CommandId) -> bool {
        self.name(id).contains('|')
    }

    /// Returns the numbers of a command's subcommands.
    pub(super) fn subcommands(&self, id: CommandId) -> Range<u16> {
        let first = id.0 + 1;
        let count = if self.is_subcommand(id) { 0 } else { self.command(id).public_subcommands().len() };
        first..first + count as u16
    }

    /// Returns all numbers.
    pub(super) fn ids(&self) -> impl Iterator<Item = CommandId> + use<> {
        (0..self.entries.len() as u16).map(CommandId)
    }

    /// Returns the databases that a command accesses.
    pub(super) fn databases(&self, id: CommandId) -> Databases {
        self.databases.get(&id.0).copied().unwrap_or(Databases::Current)
    }
}

impl Databases {
    /// Returns the argument indexes of the databases that a request names, with their numbers. Returns nothing if
    /// any of them is invalid: the handler then reports the error.
    pub(super) fn named(self, args: Args<'_>, db_count: usize) -> Vec<(usize, u32)> {
        let database = |at: usize| {
            let number = parse_i64_strict(args.get(at)?)?;
            let number = u32::try_from(number).ok().filter(|number| (*number as usize) < db_count)?;
            Some((at, number))
        };
        match self {
            Self::Current | Self::All => Some(Vec::new()),
            Self::At(indexes) => indexes.iter().map(|at| database(*at)).collect(),
            Self::AfterWord => databases_of_copy(args).into_iter().map(database).collect(),
        }
        .unwrap_or_default()
    }
}

/// Returns the argument indexes of all database numbers of `COPY`, although only the last one has an effect.
fn databases_of_copy(args: Args<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = COPY_OPTIONS_AT;
    while let Some(word) = args.get(at) {
        if word.eq_token("replace") {
            at += 1;
        } else if word.eq_token("db") && at + 1 < args.len() {
            found.push(at + 1);
            at += 2;
        } else {
            return Vec::new();
        }
    }
    found
}

/// Whether a command has arguments that are keys.
pub(super) fn has_keys(command: &Command) -> bool {
    command.keys.iter().any(|spec| !spec.flags.contains(KeyFlags::NOT_KEY))
}

/// Whether a command accesses the data of a database.
pub(super) fn accesses_data(command: &Command) -> bool {
    let data = Categories::KEYSPACE | Categories::READ | Categories::WRITE;
    command.categories().intersects(data) || has_keys(command)
}

/// Returns the argument indexes of the channels that a request needs permission for. Unsubscribing needs none.
pub(super) fn channels(command: &Command, args: Args<'_>) -> Range<usize> {
    if command.flags.contains(Flags::PUBLISHES) {
        1..2.min(args.len())
    } else if command.flags.contains(Flags::SUBSCRIBES) {
        1..args.len()
    } else {
        0..0
    }
}
