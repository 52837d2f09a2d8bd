//! Access control lists (ACL): users and their permissions, the check of a request, and the command `ACL`.
//!
//! Plain immutable values: a change creates new [`Users`], which the server publishes with their version. A session
//! keeps its user as of its last check. The command table is accessed only through a [`Catalogue`].
//!
//! | file | holds |
//! |---|---|
//! | `users.rs` | all users, and their changes by `ACL SETUSER`, `DELUSER` and ACL files |
//! | `user.rs` | one user: flags, passwords, selectors |
//! | `selector.rs` | one set of permissions: for commands, keys, channels and databases |
//! | `command_permissions.rs` | the permissions of a selector for commands, and the rules that determine them |
//! | `check.rs` | whether a user may run a request |
//! | `denial.rs` | the denial of a request, with its texts, and the entries of the denial log |
//! | `catalogue.rs` | the commands that rules can name, and the databases and channels of requests |
//! | `login.rs` | the user of a session |
//! | `command.rs` | the command `ACL` |
//!
//! Invariant: the text of a user, applied as rules to a new user, yields the same permissions.

mod catalogue;
mod check;
mod command;
mod command_permissions;
mod denial;
mod login;
mod password;
mod rule_error;
mod selector;
mod user;
mod users;

pub use self::catalogue::Catalogue;
pub(crate) use self::command::COMMAND;
pub use self::denial::{Denial, DenialContext, DenialEvent, LoggedDenial, MissingPermission};
pub use self::password::PasswordHash;
pub use self::rule_error::RuleError;
pub use self::selector::{KeyPattern, Selector};
pub use self::user::{Grammar, User};
pub use self::users::{UserLineError, Users};
