//! The documentation part of a [`Command`](crate::command::Command): what `COMMAND DOCS` answers.
//!
//! Everything is `const` and says what a client library or a command line wants for completion and help.

/// Documentation of one command or subcommand.
#[derive(Clone, Copy)]
pub struct Doc {
    /// One sentence.
    pub summary: &'static str,
    /// The version of Redis (or Valkey) that had it first.
    pub since: &'static str,
    /// The family it belongs to.
    pub group: Group,
    /// Time complexity.
    pub complexity: &'static str,
    /// It concerns the server's inside, not its users.
    pub is_internal: bool,
    /// What to use instead, where the command is deprecated: since when, and what.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Version and change, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// Arguments, in order.
    pub args: &'static [Arg],
}

impl Doc {
    /// Documentation with only the parts every command has.
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

    /// With this complexity instead of O(1).
    #[must_use]
    pub const fn complexity(mut self, complexity: &'static str) -> Self {
        self.complexity = complexity;
        self
    }

    /// With these arguments.
    #[must_use]
    pub const fn args(mut self, args: &'static [Arg]) -> Self {
        self.args = args;
        self
    }

    /// With this history.
    #[must_use]
    pub const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Self {
        self.history = history;
        self
    }

    /// Of the server's inside.
    #[must_use]
    pub const fn internal(mut self) -> Self {
        self.is_internal = true;
        self
    }

    /// Deprecated since a version, in favour of something else.
    #[must_use]
    pub const fn deprecated(mut self, since: &'static str, instead: &'static str) -> Self {
        self.deprecated = Some((since, instead));
        self
    }
}

/// Command families, as `COMMAND DOCS` names them.
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
    /// The name on the wire.
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

/// Kind of an argument, as `COMMAND DOCS` names it.
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
    /// The name on the wire.
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
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgType,
    /// For a key: the index of its spec in [`Command::keys`](crate::command::Command::keys).
    pub key_spec: Option<u8>,
    /// What syntax lines have for it, where that isn't its name.
    pub shown: Option<&'static str>,
    /// The word before it, or the word that it is.
    pub token: Option<&'static str>,
    /// Deprecated since this version.
    pub deprecated: Option<&'static str>,
    /// May be left out.
    pub optional: bool,
    /// May be repeated.
    pub multiple: bool,
    /// The token is repeated with it.
    pub multiple_token: bool,
    /// The version that had it first, where later than the command's.
    pub since: Option<&'static str>,
    /// Parts of a block or choices of a one-of.
    pub children: &'static [Arg],
}

impl Arg {
    /// An argument of some kind.
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

    /// A key, found by the command's key spec `spec`.
    #[must_use]
    pub const fn key(name: &'static str, spec: u8) -> Self {
        let mut arg = Self::new(name, ArgType::Key);
        arg.key_spec = Some(spec);
        arg
    }

    /// A string.
    #[must_use]
    pub const fn string(name: &'static str) -> Self {
        Self::new(name, ArgType::String)
    }

    /// An integer.
    #[must_use]
    pub const fn integer(name: &'static str) -> Self {
        Self::new(name, ArgType::Integer)
    }

    /// A word that stands for itself.
    #[must_use]
    pub const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, ArgType::PureToken).token(token)
    }

    /// One of several.
    #[must_use]
    pub const fn one_of(name: &'static str, children: &'static [Arg]) -> Self {
        let mut arg = Self::new(name, ArgType::OneOf);
        arg.children = children;
        arg
    }

    /// Several together.
    #[must_use]
    pub const fn block(name: &'static str, children: &'static [Arg]) -> Self {
        let mut arg = Self::new(name, ArgType::Block);
        arg.children = children;
        arg
    }

    /// Shown by another text than its name.
    #[must_use]
    pub const fn shown(mut self, text: &'static str) -> Self {
        self.shown = Some(text);
        self
    }

    /// With a word before it.
    #[must_use]
    pub const fn token(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }

    /// May be left out.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// May be repeated.
    #[must_use]
    pub const fn multiple(mut self) -> Self {
        self.multiple = true;
        self
    }

    /// May be repeated, each time with its token.
    #[must_use]
    pub const fn multiple_token(mut self) -> Self {
        self.multiple = true;
        self.multiple_token = true;
        self
    }

    /// Deprecated since this version.
    #[must_use]
    pub const fn deprecated(mut self, version: &'static str) -> Self {
        self.deprecated = Some(version);
        self
    }

    /// First in this version.
    #[must_use]
    pub const fn since(mut self, version: &'static str) -> Self {
        self.since = Some(version);
        self
    }
}
