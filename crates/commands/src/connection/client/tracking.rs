//! Client-side caching: not there yet, so it is off, and says so.

use wire::request::Args;

use super::{ITSELF, on_or_off};
use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

const ON_OFF: Arg = Arg::one_of("status", &[Arg::word("on", "ON"), Arg::word("off", "OFF")]);

/// `CLIENT TRACKING ON|OFF ...`
pub const TRACKING: Command = Command::keyless(
    "tracking",
    -3,
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE),
    Doc::new(Group::Connection, "6.0.0", "Turns client-side caching on or off.").args(&[
        ON_OFF,
        Arg::integer("client-id").token("REDIRECT").optional(),
        Arg::string("prefix").token("PREFIX").optional().multiple_token(),
        Arg::word("bcast", "BCAST").optional(),
        Arg::word("optin", "OPTIN").optional(),
        Arg::word("optout", "OPTOUT").optional(),
        Arg::word("noloop", "NOLOOP").optional(),
    ]),
    |_, args, reply| match on_or_off(args.at(2))? {
        false => Ok(reply.ok()),
        true => {
            Err(CommandError::new("ERR Client-side caching is not supported by this version of Broadloom"))
        }
    },
)
.categories_too(Categories::CONNECTION);

/// `CLIENT CACHING YES|NO`
pub const CACHING: Command = Command::keyless(
    "caching",
    3,
    ITSELF,
    Doc::new(Group::Connection, "6.0.0", "Says whether to track the keys of the next command.")
        .args(&[Arg::one_of("mode", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])]),
    |_, _, _| {
        Err(CommandError::new(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ))
    },
)
.categories_too(Categories::CONNECTION);

/// `CLIENT GETREDIR`
pub const GETREDIR: Command = Command::keyless(
    "getredir",
    2,
    ITSELF,
    Doc::new(Group::Connection, "6.0.0", "Returns the connection that invalidations go to; -1 is none."),
    |_, _, reply| Ok(reply.integer(-1)),
)
.categories_too(Categories::CONNECTION);

/// `CLIENT TRACKINGINFO`
pub const TRACKINGINFO: Command = Command::keyless(
    "trackinginfo",
    2,
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE),
    Doc::new(Group::Connection, "6.2.0", "Returns the state of client-side caching on the connection."),
    tracking_info,
)
.categories_too(Categories::CONNECTION);

fn tracking_info(_: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.map(3);
    out.bulk(b"flags");
    out.set(1);
    out.bulk(b"off");
    out.bulk(b"redirect");
    out.integer(-1);
    out.bulk(b"prefixes");
    out.array(0);
    Ok(out.done())
}
