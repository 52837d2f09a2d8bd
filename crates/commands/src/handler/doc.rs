//! The documentation of a [`Command`](crate::command::Command), as `COMMAND DOCS` returns it.
//!
//! Everything is `const`. Client libraries and command-line tools use it for completion and help.

/// Documentation of one command or subcommand.
#[derive(Clone, Copy)]
pub struct Doc {
    /// One sentence.
    pub summary: &'static str,
    /// The first version of Redis (or Valkey) that has the command.
    pub since: &'static str,
    /// The command family.
    pub group: Group,
    /// Time complexity.
    pub complexity: &'static str,
    /// Whether the command concerns server internals, not users.
    pub is_internal: bool,
    /// For a deprecated command: the version, and the replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Version and change, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// Arguments, in order.
    pub args: &'static [Arg],
}

impl Doc {
    /// Creates documentation with the parts that every command has.
    #[must_use]
    pub const fn new(group: Group, since: &'static str, summary: &'static str) -> Self {
        Self {
            summary,
            since,
            group,
            complexity: "O(1)",
            is_internal: false,
            deprecated: None,
            history: &[],
            args: &[],
        }
    }

    /// Sets the complexity, which is O(1) by default.
    #[must_use]
    pub const fn complexity(mut self, complexity: &'static str) -> Self {
        self.complexity = complexity;
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub const fn args(mut self, args: &'static [Arg]) -> Self {
        self.args = args;
        self
    }

    /// Sets the history.
    #[must_use]
    pub const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Self {
        self.history = history;
        self
    }

    /// Marks the command as internal.
    #[must_use]
    pub const fn internal(mut self) -> Self {
        self.is_internal = true;
        self
    }

    /// Marks the command as deprecated since a version, in favour of `instead`.
    #[must_use]
    pub const fn deprecated(mut self, since: &'static str, instead: &'static str) -> Self {
        self.deprecated = Some((since, instead));
        self
    }
}

/// Command families, as named by `COMMAND DOCS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Group {
    Bitmap,
    Cluster,
    Connection,
    Generic,
    Geo,
    Hash,
    Hyperloglog,
    List,
    Pubsub,
    Scripting,
    Server,
    Set,
    SortedSet,
    Stream,
    String,
    Transactions,
}

impl Group {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bitmap => "bitmap",
            Self::Cluster => "cluster",
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Geo => "geo",
            Self::Hash => "hash",
            Self::Hyperloglog => "hyperloglog",
            Self::List => "list",
            Self::Pubsub => "pubsub",
            Self::Scripting => "scripting",
            Self::Server => "server",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Stream => "stream",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }
}

/// Argument types, as named by `COMMAND DOCS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ArgType {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl ArgType {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Key => "key",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

/// One argument in a command's documentation.
#[derive(Clone, Copy)]
pub struct Arg {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: ArgType,
    /// For a key: the index of its spec in [`Command::keys`](crate::command::Command::keys).
    pub key_spec: Option<u8>,
    /// The text in syntax lines, if it differs from the name.
    pub shown: Option<&'static str>,
    /// The token before the argument, or the token itself.
    pub token: Option<&'static str>,
    /// The version since which it is deprecated.
    pub deprecated: Option<&'static str>,
    /// Whether it may be omitted.
    pub optional: bool,
    /// Whether it may be repeated.
    pub multiple: bool,
    /// Whether the token is repeated with each value.
    pub multiple_token: bool,
    /// The first version that has it, if later than the command's.
    pub since: Option<&'static str>,
    /// The parts of a block, or the alternatives of a one-of.
    pub children: &'static [Arg],
}

impl Arg {
    /// Creates an argument of a type.
    #[must_use]
    pub const fn new(name: &'static str, kind: ArgType) -> Self {
        Self {
            name,
            kind,
            key_spec: None,
            shown: None,
            token: None,
            deprecated: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            since: None,
            children: &[],
        }
    }

    /// Creates a key, found by the command's key spec `spec`.
    #[must_use]
    pub const fn key(name: &'static str, spec: u8) -> Self {
        let mut arg = Self::new(name, ArgType::Key);
        arg.key_spec = Some(spec);
        arg
    }

    /// Creates a string argument.
    #[must_use]
    pub const fn string(name: &'static str) -> Self {
        Self::new(name, ArgType::String)
    }

    /// Creates an integer argument.
    #[must_use]
    pub const fn integer(name: &'static str) -> Self {
        Self::new(name, ArgType::Integer)
    }

    /// Creates a pure token.
    #[must_use]
    pub const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, ArgType::PureToken).token(token)
    }

    /// Creates a choice of alternatives.
    #[must_use]
    pub const fn one_of(name: &'static str, children: &'static [Arg]) -> Self {
        let mut arg = Self::new(name, ArgType::OneOf);
        arg.children = children;
        arg
    }

    /// Creates a block of arguments.
    #[must_use]
    pub const fn block(name: &'static str, children: &'static [Arg]) -> Self {
        let mut arg = Self::new(name, ArgType::Block);
        arg.children = children;
        arg
    }

    /// Sets the key spec: also of the number of fields of a hash, which Valkey describes so.
    #[must_use]
    pub const fn of_key(mut self, spec: u8) -> Self {
        self.key_spec = Some(spec);
        self
    }

    /// Sets the text in syntax lines.
    #[must_use]
    pub const fn shown(mut self, text: &'static str) -> Self {
        self.shown = Some(text);
        self
    }

    /// Sets the token before the argument.
    #[must_use]
    pub const fn token(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }

    /// Makes it optional.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Makes it repeatable.
    #[must_use]
    pub const fn multiple(mut self) -> Self {
        self.multiple = true;
        self
    }

    /// Makes it repeatable together with its token.
    #[must_use]
    pub const fn multiple_token(mut self) -> Self {
        self.multiple = true;
        self.multiple_token = true;
        self
    }

    /// Sets the version since which it is deprecated.
    #[must_use]
    pub const fn deprecated(mut self, version: &'static str) -> Self {
        self.deprecated = Some(version);
        self
    }

    /// Sets the first version that has it.
    #[must_use]
    pub const fn since(mut self, version: &'static str) -> Self {
        self.since = Some(version);
        self
    }
}
