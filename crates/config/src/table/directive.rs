//! An entry of the table, and finding it by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::quote::split_arguments;
use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Occurrence, Setting};
use crate::table::{Config, DIRECTIVES, Id};

/// Properties of a directive besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Cannot be changed at run time.
    pub immutable: bool,
    /// `CONFIG GET` shows it by its exact name only.
    pub hidden: bool,
    /// The value is not logged.
    pub sensitive: bool,
    /// `CONFIG SET` changes it only if `enable-protected-configs` allows it.
    pub protected: bool,
    /// Setting it counts as a change even if the value is equal: it names a file whose content may have changed.
    pub volatile: bool,
    /// Cannot be changed while the server loads its data.
    pub deny_loading: bool,
    /// The value is not cut at a NUL byte.
    pub whole: bool,
    /// Can be enabled at start only, but disabled at any time.
    pub start_only: bool,
    /// Cannot be changed at run time, but `CONFIG SET` accepts the current value. Tools that write back all
    /// values skip Redis's immutable directives, but not ours.
    pub fixed: bool,
}

impl Marks {
    pub(crate) const NONE: Self = Self {
        immutable: false,
        hidden: false,
        sensitive: false,
        protected: false,
        volatile: false,
        deny_loading: false,
        whole: false,
        start_only: false,
        fixed: false,
    };
}

/// Assigns the value of the arguments to a directive's field. Returns whether it is new.
pub(crate) type Assign = fn(&mut Config, &Rule, &[&[u8]], Occurrence) -> Result<bool, Reason>;

/// A directive, without a value.
pub struct Directive {
    /// The identifier.
    pub id: Id,
    /// The name, in lower case.
    pub name: &'static str,
    /// Other names, in lower case.
    pub aliases: &'static [&'static str],
    /// The meaning, or the reason why it has none.
    pub doc: &'static str,
    /// The reason why it has no effect; `None` if it has an effect.
    pub inert: Option<&'static str>,
    /// The consequence of ignoring it, in sentences. Every value but the default is refused.
    pub refused: Option<&'static str>,
    /// Visibility and mutability.
    pub marks: Marks,
    /// Accepted values, beyond those implied by the type.
    pub rule: Rule,
    pub(crate) is_list: bool,
    pub(crate) assign: Assign,
    pub(crate) print: fn(&Config, &Rule) -> Vec<u8>,
    pub(crate) file_lines: fn(&Config, &Rule, &Config) -> FileLines,
    pub(crate) describe: fn(&Rule) -> String,
}

impl Directive {
    /// The value in this configuration, as `CONFIG GET` shows it.
    #[must_use]
    pub fn value(&self, config: &Config) -> Vec<u8> {
        (self.print)(config, &self.rule)
    }

    /// The reason why the value in this configuration is refused although it is valid; `None` if it is not
    /// refused.
    pub(crate) fn refusal(&self, config: &Config) -> Option<String> {
        let (consequence, reason) = (self.refused?, self.inert?);
        let value = self.value(config);
        (value != self.value(&Config::default())).then(|| {
            let value = String::from_utf8_lossy(&value);
            format!(
                "'{} {value}' is not supported by this version of Broadloom: {reason}. {consequence}",
                self.name
            )
        })
    }

    /// The accepted values, in words that follow "takes".
    #[must_use]
    pub fn accepts(&self) -> String {
        (self.describe)(&self.rule)
    }

    /// Assigns the value of `args`. Returns whether it is new.
    pub(crate) fn set(
        &self,
        config: &mut Config,
        args: &[&[u8]],
        occurrence: Occurrence,
    ) -> Result<bool, Reason> {
        if !self.is_list && args.len() != 1 {
            return Err("wrong number of arguments".into());
        }
        let texts: Vec<&[u8]> = args.iter().map(|arg| self.text_of(arg)).collect();
        (self.assign)(config, &self.rule, &texts, occurrence).map(|changed| changed || self.marks.volatile)
    }

    /// The significant part of an argument: most values are C strings in Redis, which end at a NUL byte.
    fn text_of<'a>(&self, arg: &'a [u8]) -> &'a [u8] {
        let is_whole = self.marks.whole || matches!(self.rule, Rule::Int { .. });
        let end = arg.iter().position(|&byte| byte == 0).filter(|_| !is_whole);
        &arg[..end.unwrap_or(arg.len())]
    }

    /// [`Self::set`] for a line of a file, where a list may also be one quoted argument.
    pub(crate) fn set_from_line(
        &self,
        config: &mut Config,
        args: &[Vec<u8>],
        occurrence: Occurrence,
    ) -> Result<bool, Reason> {
        match args {
            [only] if self.is_list && !only.is_empty() => {
                let parts = split_arguments(only).map_err(|_| "Unbalanced quotes in configuration line")?;
                self.set(config, &parts.iter().map(Vec::as_slice).collect::<Vec<_>>(), occurrence)
            }
            _ => self.set(config, &args.iter().map(Vec::as_slice).collect::<Vec<_>>(), occurrence),
        }
    }
}

/// The implementation of every [`Directive::assign`].
pub(crate) fn assign<T: Setting>(
    field: &mut T,
    rule: &Rule,
    args: &[&[u8]],
    occurrence: Occurrence,
) -> Result<bool, Reason> {
    let value = T::parse(rule, args, Before { current: field, occurrence })?;
    let changed = value != *field;
    *field = value;
    Ok(changed)
}

/// A name or alias of a directive.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub text: &'static str,
    pub directive: &'static Directive,
}

/// Every name and alias, in alphabetical order.
pub(crate) static NAMES: LazyLock<Vec<Name>> = LazyLock::new(|| {
    let names = |directive: &'static Directive| {
        let texts = std::iter::once(&directive.name).chain(directive.aliases);
        texts.map(move |text| Name { text, directive })
    };
    let mut names: Vec<Name> = DIRECTIVES.iter().flat_map(names).collect();
    names.sort_unstable_by_key(|name| name.text);
    names
});

static BY_NAME: LazyLock<HashMap<&'static str, Name>> =
    LazyLock::new(|| NAMES.iter().map(|name| (name.text, *name)).collect());

/// Finds a directive by name or alias, in any case.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Directive> {
    find_name(name).map(|name| name.directive)
}

pub(crate) fn find_name(name: &[u8]) -> Option<Name> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    BY_NAME.get(name.as_str()).copied()
}

/// The known name that is most similar to an unknown one.
pub(crate) fn suggest(unknown: &str) -> Option<&'static str> {
    let unknown = unknown.to_ascii_lowercase().replace('_', "-");
    // One typing error for every four letters. A larger distance would suggest unrelated names.
    let distance_max = (unknown.len() / 4).clamp(1, 4);
    NAMES
        .iter()
        .map(|name| (strsim::osa_distance(&unknown, name.text), name.text))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= distance_max)
        .map(|(_, name)| name)
}
