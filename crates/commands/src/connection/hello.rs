//! `HELLO`

use wire::number::parse_i64_strict;
use wire::reply::Protocol;
use wire::request::Args;

use super::{auth, client};
use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::identity;
use crate::reply::{Replied, Reply};

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
pub const COMMAND: Command = Command::keyless(
    "hello",
    -1,
    Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::NO_AUTH)
        .union(Flags::ALLOW_BUSY)
        .union(Flags::SESSION),
    Doc::new(
        Group::Connection,
        "6.0.0",
        "Negotiates the protocol version and returns information about the server.",
    )
    .history(&[
        ("6.2.0", "Without a version, the protocol of the connection stays unchanged."),
        ("8.1.0", "Returns the availability zone if one is configured."),
    ])
    .args(&[Arg::block(
        "arguments",
        &[
            Arg::integer("protover"),
            Arg::block("auth", &[Arg::string("username"), Arg::string("password")]).token("AUTH").optional(),
            Arg::string("clientname").token("SETNAME").optional(),
        ],
    )
    .optional()]),
    run,
)
.add_categories(Categories::CONNECTION);

const NOT_AN_INTEGER: CommandError =
    CommandError::new("ERR Protocol version is not an integer or out of range");
const UNSUPPORTED: CommandError = CommandError::new("NOPROTO unsupported protocol version");
const NO_AUTH: CommandError = CommandError::new(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
     <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
     same time",
);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let protocol = match args.get(1).map(|version| parse_i64_strict(version).ok_or(NOT_AN_INTEGER)) {
        None => None,
        Some(version) => match version? {
            2 => Some(Protocol::Resp2),
            3 => Some(Protocol::Resp3),
            _ => return Err(UNSUPPORTED),
        },
    };
    let mut credentials = None;
    let mut name = None;
    let mut at = 2;
    while let Some(option) = args.get(at) {
        match (up_to_nul(option).to_ascii_lowercase().as_slice(), args.get(at + 1), args.get(at + 2)) {
            (b"auth", Some(user), Some(password)) => {
                credentials = Some((user, password));
                at += 3;
            }
            (b"setname", Some(wanted), _) => {
                client::check_name(wanted)?;
                name = Some(wanted);
                at += 2;
            }
            _ => return Err(CommandError::quote("ERR Syntax error in HELLO option '", option, "'")),
        }
    }
    if let Some((user, password)) = credentials {
        auth::authenticate(ctx, user, password)?;
    }
    if !ctx.session.login.is_authenticated {
        return Err(NO_AUTH);
    }
    if let Some(name) = name {
        ctx.session.names.client = name.to_vec();
    }
    ctx.session.protocol = protocol.unwrap_or(ctx.session.protocol);
    ctx.host.publish(ctx.session);
    Ok(answer(ctx, reply))
}

fn answer(ctx: &Ctx<'_>, reply: Reply<'_>) -> Replied {
    let (server, version) = identity::name_and_version(ctx.config.extended_redis_compatibility);
    let zone = ctx.config.availability_zone.as_bytes();
    let mut out = reply.parts();
    out.set_protocol(ctx.session.protocol);
    out.map(7 + usize::from(!zone.is_empty()));
    out.bulk(b"server");
    out.bulk(server.as_bytes());
    out.bulk(b"version");
    out.bulk(version.as_bytes());
    out.bulk(b"proto");
    out.integer(if ctx.session.protocol == Protocol::Resp3 { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(ctx.session.id as i64);
    out.bulk(b"mode");
    out.bulk(b"standalone");
    out.bulk(b"role");
    out.bulk(if ctx.host.replica_role().is_some() { b"replica" } else { b"master" });
    out.bulk(b"modules");
    out.array(0);
    if !zone.is_empty() {
        out.bulk(b"availability_zone");
        out.bulk(zone);
    }
    out.done()
}
