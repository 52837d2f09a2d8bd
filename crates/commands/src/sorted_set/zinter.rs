//! `ZINTER`, `ZINTERSTORE` and `ZINTERCARD`

use super::combine::{Inputs, Operation, answer, find_counted, store};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::doc::{Arg, Doc, Group};

/// `ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE <SUM|MIN|MAX>] [WITHSCORES]`
pub const ZINTER: Command = Command {
    name: "zinter",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec {
        custom: Some(|args, found| find_counted(args, 1, found)),
        ..KeySpec::counted(1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))
    }],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "6.2.0", "Returns the intersection of sorted sets.")
        .complexity("O(N*K)+O(M*log(M)) for K inputs, the smallest with N members, and M results.")
        .args(&[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of(
                "aggregate",
                &[Arg::word("sum", "SUM"), Arg::word("min", "MIN"), Arg::word("max", "MAX")],
            )
            .token("AGGREGATE")
            .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ]),
    subcommands: &[],
    run: |ctx, args, reply| answer(ctx, args, reply, Operation::Inter),
};

/// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE <SUM|MIN|MAX>]`
pub const ZINTERSTORE: Command = Command {
    name: "zinterstore",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[
        KeySpec::first(KeyFlags::OW.union(KeyFlags::UPDATE)),
        KeySpec {
            custom: Some(|args, found| find_counted(args, 2, found)),
            ..KeySpec::counted(2, 1, KeyFlags::RO.union(KeyFlags::ACCESS))
        },
    ],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.0.0", "Stores the intersection of sorted sets in a key.")
        .complexity("O(N*K)+O(M*log(M)) for K inputs, the smallest with N members, and M results.")
        .args(&[
            Arg::key("destination", 0),
            Arg::integer("numkeys"),
            Arg::key("key", 1).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of(
                "aggregate",
                &[Arg::word("sum", "SUM"), Arg::word("min", "MIN"), Arg::word("max", "MAX")],
            )
            .token("AGGREGATE")
            .optional(),
        ]),
    subcommands: &[],
    run: |ctx, args, reply| store(ctx, args, reply, Operation::Inter, "zinterstore"),
};

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
pub const ZINTERCARD: Command = Command {
    name: "zintercard",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec {
        custom: Some(|args, found| find_counted(args, 1, found)),
        ..KeySpec::counted(1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))
    }],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "7.0.0", "Returns the size of the intersection of sorted sets.")
        .complexity("O(N*K) for K inputs, the smallest with N members.")
        .args(&[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("limit").token("LIMIT").optional(),
        ]),
    subcommands: &[],
    run: |ctx, args, reply| {
        let count = Inputs::parse(ctx, args, 1, Operation::InterCard)?.count_common();
        Ok(reply.integer(count as i64))
    },
};
