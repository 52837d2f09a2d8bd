//! `COMMAND` and `COMMAND INFO`: the properties of commands used for dispatch.

use std::sync::OnceLock;

use wire::reply::{Protocol, ReplyBuffer};
use wire::request::Args;

use super::rendered::Rendered;
use super::{FLAGS, ORDER};
use crate::command::{Begin, Categories, Command, Find, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::table::{COMMANDS, find_by_full_name};

/// `COMMAND INFO [command-name ...]`
pub const INFO: Command = Command::keyless(
    "info",
    -2,
    FLAGS,
    Doc::new(Group::Server, "2.8.13", "Returns details of the given commands, or of all.")
        .complexity("O(N) where N is the number of commands given")
        .history(&[("7.0.0", "Without names it returns all commands.")])
        .args(&[Arg::string("command-name").optional().multiple()]),
    run,
)
.add_categories(Categories::CONNECTION)
.tips(ORDER);

/// Replies with the details of all commands.
pub fn all(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    static RENDERED: Rendered = Rendered::new(|out| {
        out.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| write(out, command.name, command));
    });
    Ok(RENDERED.answer(ctx, reply))
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() == 2 {
        return all(ctx, args, reply);
    }
    let mut out = reply.array(args.len() - 2);
    let details = details(out.protocol());
    for name in args.tail(2) {
        let Some((name, command)) = find_by_full_name(name) else {
            out.null();
            continue;
        };
        match COMMANDS.binary_search_by_key(&&*name, |command| command.name) {
            Ok(place) => out.raw(&details[place]),
            Err(_) => write(&mut out, &name, command),
        }
    }
    Ok(out.done())
}

/// The details of each command in the order of the table. Cached, because formatting takes most of the time.
fn details(protocol: Protocol) -> &'static [Vec<u8>] {
    static IN_RESP2: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    static IN_RESP3: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let cache = match protocol {
        Protocol::Resp2 => &IN_RESP2,
        Protocol::Resp3 => &IN_RESP3,
    };
    let details = |command: &&'static Command| {
        let mut text = Vec::new();
        write(&mut ReplyBuffer::new(&mut text, protocol), command.name, command);
        text.shrink_to_fit();
        text
    };
    cache.get_or_init(|| COMMANDS.iter().map(details).collect())
}

fn write(out: &mut ReplyBuffer<'_>, full_name: &str, command: &Command) {
    let places = places(command);
    out.array(10);
    out.bulk(full_name.as_bytes());
    out.integer(command.arity.into());
    write_flags(out, command, places.are_movable);
    out.integer(places.first);
    out.integer(places.last);
    out.integer(places.step);
    let categories = command.categories();
    out.set(categories.iter_names().count());
    for (name, _) in categories.iter_names() {
        out.simple(format!("@{}", name.to_ascii_lowercase()));
    }
    out.set(command.tips.len());
    command.tips.iter().for_each(|tip| out.bulk(tip.as_bytes()));
    out.set(command.keys.len());
    command.keys.iter().for_each(|spec| write_key_spec(out, spec));
    out.array(command.public_subcommands().len());
    for sub in command.public_subcommands() {
        write(out, &format!("{full_name}|{}", sub.name), sub);
    }
}

/// Internal flags.
const UNSHOWN: Flags = Flags::SESSION
    .union(Flags::NO_QUEUE)
    .union(Flags::NO_PAUSE)
    .union(Flags::MOVABLEKEYS)
    .union(Flags::BRIEF)
    .union(Flags::MAY_REPLICATE)
    .union(Flags::PUSH_REPLY)
    .union(Flags::LOG_VERBATIM)
    .union(Flags::LOG_INSTEAD)
    .union(Flags::SHOWS_HEALTH)
    .union(Flags::FOR_SUBSCRIBERS)
    .union(Flags::SELECTS_DB)
    .union(Flags::BEGINS_TRACKING)
    .union(Flags::KEEPS_CACHING)
    .union(Flags::PUBLISHES)
    .union(Flags::SUBSCRIBES)
    .union(Flags::CHANNEL_PATTERNS)
    .union(Flags::SHARD_CHANNELS)
    .union(Flags::FOR_DEBUGGING)
    .union(Flags::PRIVATE_SUBCOMMANDS);

fn write_flags(out: &mut ReplyBuffer<'_>, command: &Command, are_movable: bool) {
    let shown = command.flags.difference(UNSHOWN);
    out.set(shown.iter_names().count() + usize::from(are_movable));
    for (name, _) in shown.iter_names() {
        out.simple(name.to_ascii_lowercase());
    }
    if are_movable {
        out.simple("movablekeys");
    }
}

/// Key positions in the form for clients that do not support key specs.
struct Places {
    first: i64,
    last: i64,
    step: i64,
    /// Whether there are keys at other positions.
    are_movable: bool,
}

/// Returns the range of adjacent keys that the specs describe together.
fn places(command: &Command) -> Places {
    let mut places =
        Places { first: 0, last: 0, step: 0, are_movable: command.flags.contains(Flags::MOVABLEKEYS) };
    for spec in command.keys {
        let (Begin::Index(index), Find::Range { last, step, .. }) = (spec.begin, spec.find) else {
            places.are_movable = true;
            continue;
        };
        let index = i64::from(index);
        let is_next = places.first == 0 || (places.last == index - 1 && step == 1);
        if !is_next || spec.flags.contains(KeyFlags::INCOMPLETE) {
            places.are_movable = true;
        }
        if !is_next {
            continue;
        }
        if places.first == 0 {
            (places.first, places.step) = (index, step.into());
        }
        places.last = if last >= 0 { index + i64::from(last) } else { last.into() };
    }
    places
}

fn write_key_spec(out: &mut ReplyBuffer<'_>, spec: &KeySpec) {
    out.map(3 + usize::from(spec.notes.is_some()));
    if let Some(notes) = spec.notes {
        out.bulk(b"notes");
        out.bulk(notes.as_bytes());
    }
    out.bulk(b"flags");
    write_key_flags(out, spec.flags);
    out.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => write_search(out, "index", &[("index", Value::Number(index.into()))]),
        Begin::Keyword { word, from } => write_search(
            out,
            "keyword",
            &[("keyword", Value::Text(word)), ("startfrom", Value::Number(from.into()))],
        ),
        Begin::Unknown => write_search(out, "unknown", &[]),
    }
    out.bulk(b"find_keys");
    let number = |name, value| (name, Value::Number(value));
    match spec.find {
        Find::Range { last, step, limit } => write_search(
            out,
            "range",
            &[number("lastkey", last.into()), number("keystep", step.into()), number("limit", limit.into())],
        ),
        Find::KeyNum { count_at, first, step } => write_search(
            out,
            "keynum",
            &[
                number("keynumidx", count_at.into()),
                number("firstkey", first.into()),
                number("keystep", step.into()),
            ],
        ),
        Find::Unknown => write_search(out, "unknown", &[]),
    }
}

enum Value {
    Number(i64),
    Text(&'static str),
}

fn write_search(out: &mut ReplyBuffer<'_>, kind: &str, parts: &[(&str, Value)]) {
    out.map(2);
    out.bulk(b"type");
    out.bulk(kind.as_bytes());
    out.bulk(b"spec");
    out.map(parts.len());
    for (name, value) in parts {
        out.bulk(name.as_bytes());
        match value {
            Value::Number(number) => out.integer(*number),
            Value::Text(text) => out.bulk(text.as_bytes()),
        }
    }
}

/// Writes the flags of a key spec: the first four in capitals, by convention.
pub(super) fn write_key_flags(out: &mut ReplyBuffer<'_>, flags: KeyFlags) {
    out.set(flags.iter_names().count());
    let basic = KeyFlags::RW | KeyFlags::RO | KeyFlags::OW | KeyFlags::RM;
    for (name, flag) in flags.iter_names() {
        if basic.contains(flag) {
            out.simple(name);
        } else {
            out.simple(name.to_ascii_lowercase());
        }
    }
}
