//! State of the calling connection.

use wire::request::Args;

use super::{OWN_STATE_FLAGS, on_or_off};
use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;
use crate::word::Word;

const ON_OFF: Arg = Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")]);
const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// `CLIENT ID`
pub const ID: Command = Command::keyless(
    "id",
    2,
    OWN_STATE_FLAGS,
    Doc::new(Group::Connection, "5.0.0", "Returns the ID of the connection."),
    |ctx, _, reply| Ok(reply.integer(ctx.session.id as i64)),
)
.add_categories(Categories::CONNECTION);

/// `CLIENT INFO`
pub const INFO: Command = Command::keyless(
    "info",
    2,
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::KEEPS_CACHING),
    Doc::new(Group::Connection, "6.2.0", "Returns the CLIENT LIST line of this connection."),
    |ctx, _, reply| {
        let line = format!("{}\n", ctx.host.client_info(ctx.session));
        Ok(reply.verbatim(b"txt", line.as_bytes()))
    },
)
.add_categories(Categories::CONNECTION)
.tips(&["nondeterministic_output"]);

/// `CLIENT GETNAME`
pub const GETNAME: Command = Command::keyless(
    "getname",
    2,
    OWN_STATE_FLAGS,
    Doc::new(Group::Connection, "2.6.9", "Returns the name of the connection."),
    |ctx, _, reply| {
        Ok(if ctx.session.names.client.is_empty() {
            reply.null()
        } else {
            reply.bulk(&ctx.session.names.client)
        })
    },
)
.add_categories(Categories::CONNECTION);

/// `CLIENT SETNAME connection-name`
pub const SETNAME: Command = Command::keyless(
    "setname",
    3,
    OWN_STATE_FLAGS,
    Doc::new(Group::Connection, "2.6.9", "Sets the name of the connection.")
        .args(&[Arg::string("connection-name")]),
    |ctx, args, reply| {
        check_name(args.at(2))?;
        ctx.session.names.client = args.at(2).to_vec();
        ctx.host.publish(ctx.session);
        Ok(reply.ok())
    },
)
.add_categories(Categories::CONNECTION)
.tips(EVERYWHERE);

/// `CLIENT SETINFO LIB-NAME|LIB-VER value`
pub const SETINFO: Command = Command::keyless(
    "setinfo",
    4,
    OWN_STATE_FLAGS,
    Doc::new(Group::Connection, "7.2.0", "Sets the name or version of the client library of the connection.")
        .args(&[Arg::one_of(
            "attr",
            &[Arg::string("libname").token("LIB-NAME"), Arg::string("libver").token("LIB-VER")],
        )]),
    set_info,
)
.add_categories(Categories::CONNECTION)
.tips(EVERYWHERE);

fn set_info(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (attribute, value) = (args.at(2), args.at(3));
    let field = if attribute.eq_token("lib-name") {
        &mut ctx.session.names.library
    } else if attribute.eq_token("lib-ver") {
        &mut ctx.session.names.library_version
    } else {
        return Err(CommandError::quote("ERR Unrecognized option '", attribute, "'"));
    };
    if !is_one_word(value) {
        let attribute = String::from_utf8_lossy(attribute);
        return Err(CommandError::owned(format!(
            "ERR {attribute} cannot contain spaces, newlines or special characters."
        )));
    }
    *field = value.to_vec();
    ctx.host.publish(ctx.session);
    Ok(reply.ok())
}

/// `CLIENT REPLY ON|OFF|SKIP`
pub const REPLY: Command = Command::keyless(
    "reply",
    3,
    OWN_STATE_FLAGS.union(Flags::NO_MULTI),
    Doc::new(Group::Connection, "3.2.0", "Sets whether the server replies to the connection's commands.")
        .args(&[Arg::one_of(
            "action",
            &[Arg::word("on", "ON"), Arg::word("off", "OFF"), Arg::word("skip", "SKIP")],
        )]),
    set_reply,
)
.add_categories(Categories::CONNECTION);

fn set_reply(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let flags = &mut ctx.session.flags;
    match up_to_nul(args.at(2)).to_ascii_lowercase().as_slice() {
        b"on" => {
            flags.remove(SessionFlags::REPLY_OFF | SessionFlags::REPLY_SKIP | SessionFlags::REPLY_SKIP_NEXT);
            Ok(reply.ok())
        }
        b"off" => {
            flags.insert(SessionFlags::REPLY_OFF);
            Ok(reply.nothing())
        }
        b"skip" => {
            if !flags.contains(SessionFlags::REPLY_OFF) {
                flags.insert(SessionFlags::REPLY_SKIP_NEXT);
            }
            Ok(reply.nothing())
        }
        _ => Err(CommandError::SYNTAX),
    }
}

/// `CLIENT NO-EVICT ON|OFF`
pub const NO_EVICT: Command = Command::keyless(
    "no-evict",
    3,
    OWN_STATE_FLAGS.union(Flags::ADMIN),
    Doc::new(Group::Connection, "7.0.0", "Sets whether the connection is exempt from client eviction.")
        .args(&[ON_OFF]),
    |ctx, args, reply| {
        ctx.session.flags.set(SessionFlags::NO_EVICT, on_or_off(args.at(2))?);
        ctx.host.publish(ctx.session);
        Ok(reply.ok())
    },
)
.add_categories(Categories::CONNECTION);

/// `CLIENT NO-TOUCH ON|OFF`
pub const NO_TOUCH: Command = Command::keyless(
    "no-touch",
    3,
    OWN_STATE_FLAGS,
    Doc::new(
        Group::Connection,
        "7.2.0",
        "Sets whether the connection's commands update the last access time of keys.",
    )
    .args(&[ON_OFF]),
    |ctx, args, reply| {
        ctx.session.flags.set(SessionFlags::NO_TOUCH, on_or_off(args.at(2))?);
        Ok(reply.ok())
    },
)
.add_categories(Categories::CONNECTION);

/// `CLIENT CAPA capability ...`
pub const CAPA: Command = Command::keyless(
    "capa",
    -3,
    OWN_STATE_FLAGS,
    Doc::new(Group::Connection, "8.0.0", "Declares capabilities of the client. Unknown ones are ignored.")
        .args(&[Arg::string("capability").multiple()]),
    |ctx, args, reply| {
        if args.tail(2).iter().any(|word| word.eq_token("redirect")) {
            ctx.session.options.follows_redirects = true;
        }
        ctx.host.publish(ctx.session);
        Ok(reply.ok())
    },
)
.add_categories(Categories::CONNECTION);

/// `CLIENT IMPORT-SOURCE ON|OFF`
pub const IMPORT_SOURCE: Command = Command::keyless(
    "import-source",
    3,
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::KEEPS_CACHING),
    Doc::new(
        Group::Connection,
        "8.1.0",
        "Sets whether the connection is importing data from another server.",
    )
    .args(&[ON_OFF]),
    |ctx, args, reply| {
        if !ctx.config.import_mode && !args.at(2).eq_token("off") {
            return Err(CommandError::new("ERR Server is not in import mode"));
        }
        ctx.session.options.is_import_source = on_or_off(args.at(2))?;
        ctx.host.publish(ctx.session);
        Ok(reply.ok())
    },
)
.add_categories(Categories::CONNECTION);

/// Rejects a name that would break the format of `CLIENT LIST`.
pub(in crate::connection) fn check_name(name: &[u8]) -> Result<(), CommandError> {
    if is_one_word(name) {
        return Ok(());
    }
    Err(CommandError::new("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn is_one_word(text: &[u8]) -> bool {
    up_to_nul(text).iter().all(u8::is_ascii_graphic)
}
