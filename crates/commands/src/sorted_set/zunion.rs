//! `ZUNION` and `ZUNIONSTORE`

use super::combine::{Operation, answer, find_counted, store};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::doc::{Arg, Doc, Group};

/// `ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE <SUM|MIN|MAX>] [WITHSCORES]`
pub const ZUNION: Command = Command {
    name: "zunion",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec {
        custom: Some(|args, found| find_counted(args, 1, found)),
        ..KeySpec::counted(1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))
    }],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "6.2.0", "Returns the union of sorted sets.")
        .complexity("O(N)+O(M*log(M)) for inputs of N members together and M results.")
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
    run: |ctx, args, reply| answer(ctx, args, reply, Operation::Union),
};

/// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE <SUM|MIN|MAX>]`
pub const ZUNIONSTORE: Command = Command {
    name: "zunionstore",
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
    doc: Doc::new(Group::SortedSet, "2.0.0", "Stores the union of sorted sets in a key.")
        .complexity("O(N)+O(M*log(M)) for inputs of N members together and M results.")
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
    run: |ctx, args, reply| store(ctx, args, reply, Operation::Union, "zunionstore"),
};
