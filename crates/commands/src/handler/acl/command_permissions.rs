//! The commands that a selector allows, and the rules that yield them.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::catalogue::{COMMAND_COUNT_MAX, Catalogue};
use super::rule_error::RuleError;
use crate::command::Categories;
use crate::error::up_to_nul;
use crate::peer_names;
use crate::resolved_command::CommandId;
use crate::word::Word;

/// The commands of a selector.
///
/// Invariants:
/// 1. `rules`, applied after `+@all` or `-@all`, yield `allowed` and `first_args`.
/// 2. No two rules name the same command or category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandPermissions {
    allowed: CommandSet,
    /// Whether the rules begin with `+@all`: commands of later versions are then allowed, too.
    starts_with_all: bool,
    /// For a command that is not allowed, by number: the first arguments with which it is.
    first_args: BTreeMap<u16, IndexSet<Vec<u8>>>,
    /// Whether each rule allows, by its name in lower case: a full name, a category with its `@`, or a command with a first
    /// argument.
    rules: IndexMap<Vec<u8>, bool>,
}

/// Commands by number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandSet([u64; COMMAND_COUNT_MAX / 64]);

impl CommandSet {
    const NONE: Self = Self([0; COMMAND_COUNT_MAX / 64]);
    const ALL: Self = Self([u64::MAX; COMMAND_COUNT_MAX / 64]);

    #[inline]
    fn contains(&self, id: CommandId) -> bool {
        self.0[usize::from(id.0 / 64)] & (1 << (id.0 % 64)) != 0
    }

    fn set(&mut self, number: u16, allows: bool) {
        let (word, bit) = (&mut self.0[usize::from(number / 64)], 1 << (number % 64));
        *word = if allows { *word | bit } else { *word & !bit };
    }
}

impl CommandPermissions {
    /// Creates the permissions for all commands, or to none.
    pub(super) fn new(allows: bool) -> Self {
        Self {
            allowed: if allows { CommandSet::ALL } else { CommandSet::NONE },
            starts_with_all: allows,
            first_args: BTreeMap::new(),
            rules: IndexMap::new(),
        }
    }

    /// Whether every command is allowed.
    pub(super) fn has_all(&self) -> bool {
        self.allowed == CommandSet::ALL
    }

    /// Whether a command is allowed with this first argument.
    #[inline]
    pub(super) fn allows(&self, id: CommandId, first_arg: Option<&[u8]>) -> bool {
        self.allowed.contains(id) || (!self.first_args.is_empty() && self.allows_first_arg(id, first_arg))
    }

    fn allows_first_arg(&self, id: CommandId, first_arg: Option<&[u8]>) -> bool {
        let (Some(allowed), Some(given)) = (self.first_args.get(&id.0), first_arg) else { return false };
        allowed.iter().any(|allowed| given.eq_token(allowed))
    }

    /// Applies a rule, given as its name and whether it begins with `+` (`allows`) or `-`.
    pub(super) fn apply(&mut self, allows: bool, name: &[u8], commands: &Catalogue) -> Result<(), RuleError> {
        let name = up_to_nul(name);
        if let Some(category) = name.strip_prefix(b"@") {
            return self.apply_category(allows, category, commands);
        }
        if let Some(id) = commands.find(name) {
            self.set(id, allows, commands);
            self.note_rule(allows, commands.name(id).as_bytes());
            return Ok(());
        }
        if peer_names::is_command(name) {
            self.note_rule(allows, name);
            return Ok(());
        }
        let bar = name.iter().rposition(|byte| *byte == b'|').filter(|_| allows);
        let (container, first_arg) = match bar {
            Some(bar) => (&name[..bar], &name[bar + 1..]),
            None => return Err(RuleError::UnknownCommand),
        };
        let id = commands.find(container);
        if id.is_none() && !peer_names::is_command(container) {
            return Err(RuleError::UnknownCommand);
        }
        if container.contains(&b'|') {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if first_arg.is_empty() {
            return Err(RuleError::Syntax);
        }
        let has_subcommands = |id| !commands.subcommands(id).is_empty();
        if id.map_or_else(|| peer_names::is_container(container), has_subcommands) {
            return Err(RuleError::UnknownCommand);
        }
        if let Some(id) = id {
            self.first_args.entry(id.0).or_default().insert(first_arg.to_ascii_lowercase());
        }
        let name = name.to_ascii_lowercase();
        self.rules.shift_remove(&name);
        self.rules.insert(name, true);
        Ok(())
    }

    fn apply_category(&mut self, allows: bool, name: &[u8], commands: &Catalogue) -> Result<(), RuleError> {
        if name.eq_token("all") {
            *self = Self::new(allows);
            return Ok(());
        }
        let category = match Categories::by_name(name) {
            Some(category) => category,
            None if peer_names::is_category(name) => Categories::empty(),
            None => return Err(RuleError::UnknownCommand),
        };
        for id in commands.ids().filter(|id| commands.command(*id).categories().intersects(category)) {
            self.set(id, allows, commands);
        }
        self.note_rule(allows, &[b"@", name].concat());
        Ok(())
    }

    /// Allows or forbids a command with its subcommands.
    fn set(&mut self, id: CommandId, allows: bool, commands: &Catalogue) {
        self.allowed.set(id.0, allows);
        self.first_args.remove(&id.0);
        commands.subcommands(id).for_each(|sub| self.allowed.set(sub, allows));
    }

    /// Records a rule, which replaces the earlier ones for the same command, its subcommands and first arguments.
    fn note_rule(&mut self, allows: bool, name: &[u8]) {
        let name = name.to_ascii_lowercase();
        let is_replaced =
            |rule: &[u8]| rule.strip_prefix(&name[..]).is_some_and(|rest| rest.is_empty() || rest[0] == b'|');
        self.rules.retain(|rule, _| !is_replaced(rule));
        self.rules.insert(name, allows);
    }

    /// Appends the rules as text.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.starts_with_all { b"+@all" } else { b"-@all" });
        for (name, allows) in &self.rules {
            out.extend_from_slice(if *allows { b" +" } else { b" -" });
            out.extend_from_slice(name);
        }
    }
}
