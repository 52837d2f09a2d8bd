//! Errors in ACL rules, in the words of Valkey.

/// Why a rule is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No such command or category.
    UnknownCommand,
    /// The rule has no valid form.
    Syntax,
    /// A key pattern after `allkeys` or `~*`.
    KeysAfterAll,
    /// A channel pattern after `allchannels` or `&*`.
    ChannelsAfterAll,
    /// The password to remove does not exist.
    NoSuchPassword,
    /// Not a password hash.
    NotAHash,
    /// The user is defined twice.
    DuplicateUser,
    /// A rule that names a first argument of a subcommand.
    FirstArgOfSubcommand,
    /// A database number that is negative or above the largest C `int`.
    DatabaseOutOfRange,
}

impl RuleError {
    /// Returns the text for replies and logs, without a code.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::UnknownCommand => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::NotAHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::DuplicateUser => "Duplicate user found. A user can only be defined once in config files",
            Self::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Self::DatabaseOutOfRange => "The provided database ID is out of range",
        }
    }
}
