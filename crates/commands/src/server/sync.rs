//! `PSYNC`, `SYNC` and `REPLCONF`: what replicas send to their primary, and a primary to its replicas.

mod channel;

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::declared_replica::{ChannelForm, DeclaredReplica};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::host::SyncAnswer;
use crate::reply::{Replied, Reply};
use crate::session::{Session, SessionFlags};
use crate::word::Word;

/// `PSYNC replicationid offset [FAILOVER]`
pub const PSYNC: Command = Command::keyless(
    "psync",
    -3,
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_MULTI).union(Flags::NO_ASYNC_LOADING),
    Doc::new(Group::Server, "2.8.0", "An internal command used in replication.").args(SYNC_ARGS),
    psync,
);

/// `SYNC`
pub const SYNC: Command = Command::keyless(
    "sync",
    1,
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_MULTI).union(Flags::NO_ASYNC_LOADING),
    Doc::new(Group::Server, "1.0.0", "An internal command used in replication."),
    sync,
);

/// `REPLCONF option value [option value ...]`
pub const REPLCONF: Command = Command::keyless(
    "replconf",
    -1,
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::ALLOW_BUSY),
    Doc::new(Group::Server, "3.0.0", "An internal command for configuring the replication stream."),
    replconf,
);

const SYNC_ARGS: &[Arg] = &[Arg::string("replicationid"), Arg::integer("offset")];

/// The longest address that a replica may announce, in bytes.
const ADDRESS_SIZE_MAX: usize = 255;

/// Connections whose `SYNC` and `PSYNC` are ignored: those that have asked before, and monitors.
const NO_NEW_REPLICA: SessionFlags = SessionFlags::REPLICA.union(SessionFlags::MONITOR);

const FAILING_OVER: CommandError = CommandError::new("NOMASTERLINK Can't SYNC while failing over");
const NO_DATA: CommandError = CommandError::new("NOMASTERLINK Can't SYNC while not connected with my master");

fn psync(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let takes_over = args.get(3).is_some_and(|word| word.eq_token("failover"));
    if takes_over && !ctx.session.flags.intersects(NO_NEW_REPLICA) {
        ctx.host.take_over(args.at(1))?;
        // The former primary redirects its clients here when it has the reply.
        ctx.report.needs_barrier = true;
    }
    let Some(offset) = parse_i64_strict(args.at(2)) else {
        let peer = &ctx.session.endpoints.peer;
        ctx.host
            .write_server_log(&format!("Replica {peer} asks for synchronization but with a wrong offset"));
        return Err(CommandError::NOT_AN_INTEGER);
    };
    // A replica names the first byte that it lacks; the offset is the number of bytes before it.
    let from = u64::try_from(offset).ok().and_then(|first| first.checked_sub(1));
    synchronise(ctx, from.map(|offset| (args.at(1), offset)), false, reply)
}

fn sync(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    synchronise(ctx, None, true, reply)
}

fn synchronise(
    ctx: &mut Ctx<'_>,
    from: Option<(&[u8], u64)>,
    is_old: bool,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    if ctx.session.flags.intersects(NO_NEW_REPLICA) {
        return Ok(reply.nothing());
    }
    let declared_now = declared(ctx.session);
    declared_now.is_old = is_old;
    let accepts_new_id = declared_now.accepts_new_id;
    let answer = match ctx.host.synchronise(ctx.session, from) {
        SyncAnswer::NoData => return Err(NO_DATA),
        SyncAnswer::FailingOver => return Err(FAILING_OVER),
        // It asks again when the snapshot begins.
        SyncAnswer::Channel(ChannelForm::Valkey) => return Ok(reply.simple("DUALCHANNELSYNC")),
        SyncAnswer::Channel(ChannelForm::Redis) => Some(format!("RDBCHANNELSYNC {}", ctx.session.id)),
        SyncAnswer::Continue(id) if accepts_new_id => Some(format!("CONTINUE {id}")),
        SyncAnswer::Continue(_) => Some("CONTINUE".to_owned()),
        SyncAnswer::Snapshot => None,
    };
    ctx.session.flags.insert(SessionFlags::REPLICA);
    let is_channel = declared(ctx.session).is_channel;
    ctx.session.flags.set(SessionFlags::SNAPSHOT_CHANNEL, is_channel);
    ctx.host.publish(ctx.session);
    Ok(match answer {
        Some(text) => reply.simple(&text),
        None => reply.nothing(),
    })
}

fn replconf(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    let mut at = 1;
    while at < args.len() {
        let (option, value) = (args.at(at), args.at(at + 1));
        match option.to_ascii_lowercase().as_slice() {
            b"listening-port" => {
                let port = parse_i64_strict(value).ok_or(CommandError::NOT_AN_INTEGER)?;
                declared(ctx.session).port = u16::try_from(port).unwrap_or(0);
            }
            b"ip-address" if value.len() > ADDRESS_SIZE_MAX => {
                let size = value.len();
                return Err(CommandError::owned(format!(
                    "ERR REPLCONF ip-address provided by replica instance is too long: {size} bytes"
                )));
            }
            b"ip-address" => {
                let address = String::from_utf8_lossy(value).into_owned();
                declared(ctx.session).address = Some(address).filter(|address| !address.is_empty());
            }
            b"capa" if value.eq_token("eof") => declared(ctx.session).accepts_mark = true,
            b"capa" if value.eq_token("psync2") => declared(ctx.session).accepts_new_id = true,
            b"capa" => channel::note_capability(ctx, value),
            b"rdb-channel" => declared(ctx.session).is_channel = parse_bit(value)?,
            b"main-ch-client-id" => {
                declared(ctx.session).other_client = Some(channel::stream_client(ctx, value)?)
            }
            b"set-rdb-client-id" => {
                declared(ctx.session).other_client = Some(channel::snapshot_client(ctx, value)?)
            }
            b"ack" => {
                acknowledge(ctx, args, at);
                return Ok(reply.nothing());
            }
            b"getack" => {
                ctx.host.acknowledge();
                return Ok(reply.nothing());
            }
            b"rdb-only" => declared(ctx.session).only_snapshot = parse_bit(value)?,
            b"rdb-filter-only" => filter(ctx.session, value)?,
            b"version" => {
                let version = parse_version(value).ok_or_else(|| {
                    let shown = String::from_utf8_lossy(value);
                    CommandError::owned(format!("ERR Unrecognized version format: {shown}"))
                })?;
                declared(ctx.session).version = Some(version);
            }
            _ => {
                let shown = String::from_utf8_lossy(option);
                return Err(CommandError::owned(format!("ERR Unrecognized REPLCONF option: {shown}")));
            }
        }
        at += 2;
    }
    Ok(reply.ok())
}

/// What the session has declared of itself so far.
fn declared(session: &mut Session) -> &mut DeclaredReplica {
    session.replica.get_or_insert_default()
}

/// `REPLCONF ACK offset [FACK offset]`
fn acknowledge(ctx: &mut Ctx<'_>, args: Args<'_>, at: usize) {
    if !ctx.session.flags.contains(SessionFlags::REPLICA) {
        return;
    }
    let offset =
        |index: usize| args.get(index).and_then(parse_i64_strict).and_then(|it| u64::try_from(it).ok());
    let Some(applied) = offset(at + 1) else { return };
    let has_durable = args.get(at + 2).is_some_and(|word| word.eq_token("fack"));
    let durable = if has_durable { offset(at + 3) } else { None };
    ctx.host.acknowledged(ctx.session, applied, durable);
}

fn filter(session: &mut Session, value: &[u8]) -> Result<(), CommandError> {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for word in words {
        if !word.eq_token("functions") {
            let shown = String::from_utf8_lossy(word);
            return Err(CommandError::owned(format!("ERR Unsupported rdb-filter-only option: {shown}")));
        }
        declared(session).includes_functions = true;
    }
    declared(session).is_filtered = true;
    Ok(())
}

fn parse_bit(value: &[u8]) -> Result<bool, CommandError> {
    match parse_i64_strict(value).ok_or(CommandError::NOT_AN_INTEGER)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(CommandError::new("ERR value is out of range, value must between 0 and 1")),
    }
}

/// A version of three numbers.
fn parse_version(text: &[u8]) -> Option<(u32, u32, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split('.').map(|number| number.parse::<u8>().ok());
    let version = (numbers.next()??.into(), numbers.next()??.into(), numbers.next()??.into());
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_three_numbers() {
        assert_eq!(parse_version(b"9.1.255"), Some((9, 1, 255)));
        for text in [&b"9.1"[..], b"9.1.x", b"9.1.256", b"", b"9.1.2.3"] {
            assert_eq!(parse_version(text), None);
        }
    }
}
