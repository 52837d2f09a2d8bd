//! `AUTH`

use wire::request::Args;

use crate::acl::DenialEvent;
use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `AUTH [username] password`
pub const COMMAND: Command = Command::keyless(
    "auth",
    -2,
    Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NO_AUTH)
        .union(Flags::ALLOW_BUSY)
        .union(Flags::SESSION),
    Doc::new(Group::Connection, "1.0.0", "Authenticates the connection as a user.")
        .complexity("O(N) where N is the number of passwords of the user")
        .history(&[("6.0.0", "Takes a user's name before the password.")])
        .args(&[Arg::string("username").optional().since("6.0.0"), Arg::string("password")]),
    run,
)
.add_categories(Categories::CONNECTION);

const NO_PASSWORD_SET: CommandError = CommandError::new(
    "ERR AUTH <password> called without any password configured for the default user. \
     Are you sure your configuration is correct?",
);
const WRONG: CommandError =
    CommandError::new("WRONGPASS invalid username-password pair or user is disabled.");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    match args.len() {
        2 if ctx.host.users().default_user().has_no_password() => return Err(NO_PASSWORD_SET),
        2 => authenticate(ctx, b"default", args.at(1))?,
        3 => authenticate(ctx, args.at(1), args.at(2))?,
        _ => return Err(CommandError::SYNTAX),
    }
    Ok(reply.ok())
}

/// Authenticates the connection as the user if the password is right.
pub(super) fn authenticate(ctx: &mut Ctx<'_>, name: &[u8], password: &[u8]) -> Result<(), CommandError> {
    let users = ctx.host.users();
    let Some(user) = users.authenticate(name, password) else {
        let context = ctx.session.denial_context();
        let event = DenialEvent { missing: None, context, object: ctx.args.name(), user: name };
        ctx.host.record_denial(ctx.session, &event);
        return Err(WRONG);
    };
    ctx.session.log_in(user, &users);
    ctx.host.publish(ctx.session);
    Ok(())
}
