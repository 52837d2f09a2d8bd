//! `ZDIFF` and `ZDIFFSTORE`

use super::combine::{Operation, answer, find_counted, store};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::doc::{Arg, Doc, Group};

/// `ZDIFF numkeys key [key ...] [WITHSCORES]`
pub const ZDIFF: Command = Command {
    name: "zdiff",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec {
        custom: Some(|args, found| find_counted(args, 1, found)),
        ..KeySpec::counted(1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))
    }],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "6.2.0",
        "Returns the difference between the first sorted set and the other sorted sets.",
    )
    .complexity("O(L+(N-K)*log(N)) for inputs of L members together, the first with N, and K results.")
    .args(&[
        Arg::integer("numkeys"),
        Arg::key("key", 0).multiple(),
        Arg::word("withscores", "WITHSCORES").optional(),
    ]),
    subcommands: &[],
    run: |ctx, args, reply| answer(ctx, args, reply, Operation::Diff),
};

/// `ZDIFFSTORE destination numkeys key [key ...]`
pub const ZDIFFSTORE: Command = Command {
    name: "zdiffstore",
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
    doc: Doc::new(
        Group::SortedSet,
        "6.2.0",
        "Stores the difference between the first sorted set and the other sorted sets in a key.",
    )
    .complexity("O(L+(N-K)*log(N)) for inputs of L members together, the first with N, and K results.")
    .args(&[Arg::key("destination", 0), Arg::integer("numkeys"), Arg::key("key", 1).multiple()]),
    subcommands: &[],
    run: |ctx, args, reply| store(ctx, args, reply, Operation::Diff, "zdiffstore"),
};
