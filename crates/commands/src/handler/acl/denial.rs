//! Why a request is denied, with the texts of Valkey, and the entries of `ACL LOG`.

use wire::request::Args;

use crate::error::CommandError;

/// The missing permission for a request. In ascending order of precedence among several selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingPermission {
    /// The database.
    Database,
    /// The command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// The user that a client's certificate names. Not a denied request, but listed in `ACL LOG`.
    Certificate,
}

/// A denied request: the missing permission, and the argument that requires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denial {
    /// The missing permission.
    pub missing: MissingPermission,
    /// The index of the argument; 0: the command.
    pub argument: usize,
}

/// The context of a denied request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DenialContext {
    Toplevel,
    Multi,
    Lua,
}

/// A denied request.
#[derive(Clone, Copy, Debug)]
pub struct DenialEvent<'a> {
    /// The missing permission; `None`: an authentication failed.
    pub missing: Option<MissingPermission>,
    /// The context of the request.
    pub context: DenialContext,
    /// The command, key, channel or database.
    pub object: &'a [u8],
    /// The name of the user.
    pub user: &'a [u8],
}

/// An entry of `ACL LOG`: a denied request, or several equal ones.
#[derive(Clone, Debug)]
pub struct LoggedDenial {
    /// Number of requests.
    pub count: u64,
    /// The missing permission; `None`: an authentication failed.
    pub missing: Option<MissingPermission>,
    /// The context of the requests.
    pub context: DenialContext,
    /// The command, key, channel or database.
    pub object: Vec<u8>,
    /// The name of the user.
    pub user: Vec<u8>,
    /// The connection of the last request, as in `CLIENT LIST`.
    pub client: Vec<u8>,
    /// The number of the entry.
    pub id: u64,
    /// Unix time of the first request, in milliseconds.
    pub created_ms: i64,
    /// Unix time of the last request, in milliseconds.
    pub updated_ms: i64,
}

impl Denial {
    /// Returns the error for the client: `user` and the command's full `name`, but no keys or channels.
    #[must_use]
    pub fn error(self, user: &[u8], name: &str) -> CommandError {
        CommandError::quoting(match self.missing {
            MissingPermission::Command => [b"NOPERM ", &lacks_command(user, name)[..]].concat(),
            MissingPermission::Key => b"NOPERM No permissions to access a key".to_vec(),
            MissingPermission::Channel => b"NOPERM No permissions to access a channel".to_vec(),
            MissingPermission::Database => b"NOPERM No permissions to access database".to_vec(),
            MissingPermission::Certificate => b"NOPERM No such user".to_vec(),
        })
    }

    /// Returns the error for a request that was permitted when it was queued, and is denied in `EXEC`.
    #[must_use]
    pub fn error_in_exec(self) -> CommandError {
        let reason = match self.missing {
            MissingPermission::Command => "no permission to execute the command or subcommand",
            MissingPermission::Key => "no permission to touch the specified keys",
            MissingPermission::Channel => "no permission to access one of the channels used as arguments",
            MissingPermission::Database | MissingPermission::Certificate => "no permission",
        };
        CommandError::owned(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {reason}"
        ))
    }

    /// Returns the reason for an administrator, with the argument (`ACL DRYRUN`).
    #[must_use]
    pub fn explanation(self, user: &[u8], name: &str, args: Args<'_>) -> Vec<u8> {
        let argument = args.get(self.argument).unwrap_or_default();
        let lacks = [b"User ", user, b" has no permissions to access "].concat();
        match self.missing {
            MissingPermission::Command => lacks_command(user, name),
            MissingPermission::Key => [&lacks, &b"the '"[..], argument, b"' key"].concat(),
            MissingPermission::Channel => [&lacks, &b"the '"[..], argument, b"' channel"].concat(),
            MissingPermission::Database => [&lacks, &b"database "[..], argument].concat(),
            MissingPermission::Certificate => [&lacks, &b"the server"[..]].concat(),
        }
    }

    /// Returns the object that `ACL LOG` shows.
    #[must_use]
    pub fn object(self, name: &str, args: Args<'_>) -> Vec<u8> {
        match self.missing {
            MissingPermission::Command => name.as_bytes().to_vec(),
            MissingPermission::Database if self.argument == 0 => name.as_bytes().to_vec(),
            _ => args.get(self.argument).unwrap_or_default().to_vec(),
        }
    }
}

fn lacks_command(user: &[u8], name: &str) -> Vec<u8> {
    [b"User ", user, b" has no permissions to run the '", name.as_bytes(), b"' command"].concat()
}
