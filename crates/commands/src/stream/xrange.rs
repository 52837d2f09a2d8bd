//! `XRANGE` and `XREVRANGE`

use collections::stream::{Stream, StreamId};
use wire::request::Args;

use super::entries::write_entries;
use super::ids::{parse_end, parse_start};
use super::parse_count;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `XRANGE key start end [COUNT count]`
pub const XRANGE: Command = Command {
    name: "xrange",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::STREAM,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Stream, "5.0.0", "Returns the entries of a stream in a range of IDs.")
        .complexity("O(N) for N returned entries.")
        .history(&[("6.2.0", "Added exclusive ends.")])
        .args(&[
            Arg::key("key", 0),
            Arg::string("start"),
            Arg::string("end"),
            Arg::integer("count").token("COUNT").optional(),
        ]),
    subcommands: &[],
    run: |ctx, args, reply| {
        let range = parse_start(args.at(2)).and_then(|start| Ok((start, parse_end(args.at(3))?)))?;
        answer(ctx, args, range, Direction::Up, reply)
    },
};

/// `XREVRANGE key end start [COUNT count]`
pub const XREVRANGE: Command = Command {
    name: "xrevrange",
    doc: Doc::new(Group::Stream, "5.0.0", "Returns the entries of a stream in a range of IDs, newest first.")
        .complexity("O(N) for N returned entries.")
        .history(&[("6.2.0", "Added exclusive ends.")])
        .args(&[
            Arg::key("key", 0),
            Arg::string("end"),
            Arg::string("start"),
            Arg::integer("count").token("COUNT").optional(),
        ]),
    run: |ctx, args, reply| {
        let range = parse_start(args.at(3)).and_then(|start| Ok((start, parse_end(args.at(2))?)))?;
        answer(ctx, args, range, Direction::Down, reply)
    },
    ..XRANGE
};

enum Direction {
    Up,
    Down,
}

fn answer(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    (start, end): (StreamId, StreamId),
    direction: Direction,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let mut count = None;
    let mut options = args.tail(4).iter();
    while let Some(word) = options.next() {
        let operand = options.next().filter(|_| word.eq_token("count"));
        count = Some(parse_count(operand.ok_or(CommandError::SYNTAX)?)?);
    }
    let Some(stream) = ctx.find::<Stream>(ctx.key(0))? else { return Ok(reply.array(0).done()) };
    if count == Some(0) {
        return Ok(reply.null_array());
    }
    let (mut out, shared_replies) = (reply.parts(), &ctx.report.shared_replies);
    match direction {
        Direction::Up => write_entries(&mut out, stream.range(start, end), count, shared_replies),
        Direction::Down => write_entries(&mut out, stream.range_down(start, end), count, shared_replies),
    }
    Ok(out.done())
}
