//! Finds a command by its name, ignoring case. Runs once per request, so it must take only a few nanoseconds.
//!
//! Open addressing by the name's letters packed into a word. For names of up to eight bytes the packed word
//! alone decides; this is exact because such names consist of letters only (tested).

use std::collections::{HashMap, HashSet};

use super::COMMANDS;
use crate::command::{Command, Flags};
use crate::peer_names;
pub use crate::resolved_command::{CommandId, PlanKind, ResolvedCommand};
use crate::word::Word;

/// All commands of the table, indexed by name.
pub struct Index {
    places: Box<[IndexPlace; PLACE_COUNT]>,
}

#[derive(Clone, Copy)]
struct IndexPlace {
    packed: u64,
    len: usize,
    /// Whether the packed form and the length identify the name: it is short and has letters only.
    packed_is_exact: bool,
    found: Option<ResolvedCommand>,
}

const PLACE_BITS: u32 = 10;
const PLACE_COUNT: usize = 1 << PLACE_BITS;

/// Maximum bytes of a packed name.
const PACKED_SIZE: usize = 8;

impl Index {
    /// Creates an index of the whole table.
    #[must_use]
    pub fn new() -> Self {
        Self::renamed(std::iter::empty())
    }

    /// Creates an index with renamed commands, see [`Names::rename`]. Invalid pairs of names are ignored.
    #[must_use]
    pub fn renamed<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let names = names_by_place(pairs);
        let mut index = Self::empty();
        for (place, (command, id)) in commands_with_ids().enumerate() {
            match names.get(&place) {
                Some(name) if name == command.name => index.insert(command, id),
                None => {}
                Some(new) => index.insert(renamed_command(command, new), id),
            }
        }
        index
    }

    /// Creates an index for the requests of a log: of the commands' own names, which our log has, and of the new names of
    /// renamed commands, which the logs of other servers may have.
    #[must_use]
    pub fn of_log<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let names = names_by_place(pairs);
        let mut index = Self::new();
        for (place, (command, id)) in commands_with_ids().enumerate() {
            if let Some(new) = names.get(&place).filter(|new| index.find(new.as_bytes()).is_none()) {
                index.insert(renamed_command(command, new), id);
            }
        }
        index
    }

    fn empty() -> Self {
        let place = IndexPlace { packed: 0, len: 0, packed_is_exact: false, found: None };
        Self { places: Box::new([place; PLACE_COUNT]) }
    }

    fn insert(&mut self, command: &'static Command, id: u16) {
        let name = command.name.as_bytes();
        let packed = pack(name);
        let mut place = place_of(packed, name.len());
        while self.places[place].found.is_some() {
            place = (place + 1) % PLACE_COUNT;
        }
        let found = ResolvedCommand { command, id: CommandId(id), plan_kind: PlanKind::of(command) };
        let packed_is_exact = name.len() <= PACKED_SIZE && name.iter().all(u8::is_ascii_lowercase);
        self.places[place] = IndexPlace { packed, len: name.len(), packed_is_exact, found: Some(found) };
    }

    /// Returns the command with this name.
    #[must_use]
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<ResolvedCommand> {
        let packed = pack(name);
        let mut at = place_of(packed, name.len());
        loop {
            let place = &self.places[at];
            let found = place.found.as_ref()?;
            if place.packed == packed
                && place.len == name.len()
                && (place.packed_is_exact || is_named(found.command, name))
            {
                return Some(*found);
            }
            at = (at + 1) % PLACE_COUNT;
        }
    }

    /// Returns the subcommand of a container with this name.
    #[must_use]
    pub fn find_sub(&self, container: ResolvedCommand, word: &[u8]) -> Option<ResolvedCommand> {
        let subcommands = container.command.subcommands;
        let position = subcommands.iter().position(|sub| word.eq_token(sub.name))?;
        let is_public = !container.command.public_subcommands().is_empty();
        let id = if is_public { CommandId(container.id.0 + 1 + position as u16) } else { container.id };
        Some(ResolvedCommand { command: &subcommands[position], id, plan_kind: PlanKind::Other })
    }
}

/// The commands of the table with their numbers.
fn commands_with_ids() -> impl Iterator<Item = (&'static Command, u16)> {
    COMMANDS.iter().scan(0, |next, command| {
        let id = *next;
        *next += 1 + command.public_subcommands().len() as u16;
        Some((*command, id))
    })
}

/// The names of the commands after renaming, by their places in the table.
fn names_by_place<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HashMap<usize, String> {
    let mut names = Names::new();
    for (old, new) in pairs {
        let _ = names.rename(old, new);
    }
    names.places.into_iter().filter_map(|(name, place)| Some((place?, name))).collect()
}

/// A command with another name. It lives as long as the process, like the table.
fn renamed_command(command: &Command, new: &str) -> &'static Command {
    let name: &'static str = Box::leak(new.to_owned().into_boxed_str());
    let subcommands = command.subcommands.iter().map(|sub| sub.add_flags(Flags::RENAMED));
    let subcommands: &'static [Command] = Box::leak(subcommands.collect());
    Box::leak(Box::new(Command { name, subcommands, ..command.add_flags(Flags::RENAMED) }))
}

/// The names of all commands, in lower case.
pub struct Names {
    /// Each name with the place of its command in the table; a renamed command that only other servers have has none.
    places: HashMap<String, Option<usize>>,
    /// The commands that only other servers have and that were renamed.
    foreign_renamed: HashSet<String>,
}

impl Names {
    /// Returns the original names.
    #[must_use]
    pub fn new() -> Self {
        let named = |(place, command): (usize, &&Command)| (command.name.to_owned(), Some(place));
        Self { places: COMMANDS.iter().enumerate().map(named).collect(), foreign_renamed: HashSet::new() }
    }

    /// Renames the command with the current name `old`; an empty new name removes the command. A command that only
    /// other servers have can be renamed, too, without an effect.
    ///
    /// # Errors
    /// If there is no such command, or another command has the new name.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), &'static str> {
        let lower = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
        let (old, new) = (lower(old), lower(new));
        let place = match self.places.remove(&old) {
            Some(place) => place,
            None if is_foreign(&old) && self.foreign_renamed.insert(old) => None,
            None => return Err("No such command in rename-command"),
        };
        let is_taken = is_foreign(&new) && !self.foreign_renamed.contains(&new);
        if !new.is_empty() && (is_taken || self.places.insert(new, place).is_some()) {
            return Err("Target command name already exists");
        }
        Ok(())
    }
}

/// Whether this is a command, not a subcommand, that only other servers have.
fn is_foreign(name: &str) -> bool {
    !name.contains('|') && peer_names::is_command(name.as_bytes())
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(never)]
fn is_named(command: &Command, name: &[u8]) -> bool {
    command.name.as_bytes().eq_ignore_ascii_case(name)
}

/// Packs the letters of a name in lower case, or the first and last four of a longer one.
#[inline(always)]
fn pack(name: &[u8]) -> u64 {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    if let (Some(head), Some(tail)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        let (head, tail) = (u64::from(u32::from_le_bytes(*head)), u64::from(u32::from_le_bytes(*tail)));
        return (head | tail << 32) | LOWER;
    }
    match *name {
        [] => 0,
        [only] => u64::from(only) | LOWER,
        [first, second] => u64::from(u16::from_le_bytes([first, second])) | LOWER,
        [first, second, third, ..] => u64::from(u32::from_le_bytes([first, second, third, 0])) | LOWER,
    }
}

#[inline]
fn place_of(packed: u64, len: usize) -> usize {
    ((packed ^ len as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::NUMBERED;

    #[test]
    fn every_command_is_found_by_its_name() {
        let index = Index::new();
        for (number, (full_name, command)) in NUMBERED.iter().enumerate() {
            let mut words = full_name.split('|');
            let name = words.next().expect("a split has a first part");
            let mut found = index.find(name.to_uppercase().as_bytes()).expect("in the table");
            if let Some(word) = words.next() {
                found = index.find_sub(found, word.as_bytes()).expect("in its container");
            }
            assert!(std::ptr::eq(found.command, *command), "{full_name}");
            assert_eq!(found.id.0 as usize, number);
        }
    }

    #[test]
    fn commands_are_found_by_their_last_name() {
        let renames: [(&[u8], &[u8]); 4] =
            [(b"PING", b"Other"), (b"other", b"vping"), (b"get", b""), (b"nope", b"x")];
        let index = Index::renamed(renames.into_iter());
        let name_of =
            |name: &str| index.find(name.as_bytes()).map(|found| NUMBERED[found.id.0 as usize].0.clone());
        assert_eq!(name_of("VPING").as_deref(), Some("ping"));
        assert_eq!(name_of("set").as_deref(), Some("set"));
        for gone in ["ping", "other", "get", "x"] {
            assert_eq!(name_of(gone), None);
        }
        let mut names = Names::new();
        assert_eq!(names.rename(b"nope", b"x"), Err("No such command in rename-command"));
        assert_eq!(names.rename(b"get", b"SET"), Err("Target command name already exists"));
    }

    #[test]
    fn the_requests_of_a_log_have_any_name_of_their_commands() {
        let renames: [(&[u8], &[u8]); 4] =
            [(b"set", b"put"), (b"del", b""), (b"get", b"set"), (b"xgroup", b"groups")];
        let (index, of_log) = (Index::renamed(renames.into_iter()), Index::of_log(renames.into_iter()));
        let name_of =
            |name: &str| of_log.find(name.as_bytes()).map(|found| NUMBERED[found.id.0 as usize].0.as_str());
        for (name, found) in
            [("put", "set"), ("set", "set"), ("del", "del"), ("get", "get"), ("groups", "xgroup")]
        {
            assert_eq!(name_of(name), Some(found), "{name}");
        }
        let container = index.find(b"groups").expect("renamed");
        let sub = index.find_sub(container, b"create").expect("a subcommand");
        assert!(sub.command.flags.contains(Flags::RENAMED));
        assert_eq!(NUMBERED[sub.id.0 as usize].0, "xgroup|create");
    }

    #[test]
    fn commands_of_other_servers_can_be_renamed_and_stay_unknown() {
        let renames: [(&[u8], &[u8]); 5] = [
            (b"STRALGO", b""),
            (b"trimslots", b"other"),
            (b"JSON.SET", b""),
            (b"other", b"third"),
            (b"get", b"trimslots"),
        ];
        let index = Index::renamed(renames.into_iter());
        for name in ["stralgo", "other", "third", "json.set"] {
            assert!(index.find(name.as_bytes()).is_none(), "{name}");
        }
        assert_eq!(
            index.find(b"trimslots").map(|found| NUMBERED[found.id.0 as usize].0.as_str()),
            Some("get")
        );
        let mut names = Names::new();
        assert_eq!(names.rename(b"sflush", b""), Ok(()));
        for (old, new, error) in [
            ("sflush", "", "No such command in rename-command"),
            ("backup|start", "x", "No such command in rename-command"),
            ("set", "stralgo", "Target command name already exists"),
            ("trimslots", "GET", "Target command name already exists"),
        ] {
            assert_eq!(names.rename(old.as_bytes(), new.as_bytes()), Err(error), "{old} {new}");
        }
    }

    #[test]
    fn unknown_names_are_not_found() {
        let index = Index::new();
        for name in [
            "",
            "g",
            "ge",
            "gett",
            "no-such-command",
            "set\0",
            "S\u{5}T",
            "get ",
            "getgetgetget",
            "sort\u{7f}ro",
        ] {
            assert!(index.find(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    #[test]
    fn the_index_is_sparse_enough() {
        assert!(COMMANDS.len() * 3 < PLACE_COUNT, "make PLACE_BITS larger");
    }
}
