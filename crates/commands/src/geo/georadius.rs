//! `GEORADIUS` and `GEORADIUSBYMEMBER`, with their read-only forms.

use super::arguments::{COUNT, ORDER, UNIT, WITHCOORD, WITHDIST, WITHHASH};
use super::search::{SearchCommand, find_destination, search};
use crate::command::{Access, Begin, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::doc::{Arg, ArgType, Doc, Group};

/// Documentation of the destination key.
const STORE: Arg = Arg::one_of(
    "store",
    &[
        Arg::key("storekey", 1).shown("key").token("STORE"),
        Arg::key("storedistkey", 2).shown("key").token("STOREDIST"),
    ],
)
.optional();

/// Documentation of the number of results, with the version that added `ANY`.
const COUNT_WITH_LATER_ANY: Arg = Arg::block(
    "count-block",
    &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional().since("6.2.0")],
)
.optional();

/// The source, and the destinations of `STORE` and `STOREDIST`, which are searched from the argument at `from` on.
const fn stored_keys(from: i32) -> [KeySpec; 3] {
    [
        KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS)),
        KeySpec {
            custom: Some(find_destination),
            begin: Begin::Keyword { word: "STORE", from },
            ..KeySpec::first(DESTINATION)
        },
        KeySpec {
            custom: Some(|_, _| {}),
            begin: Begin::Keyword { word: "STOREDIST", from },
            ..KeySpec::first(DESTINATION)
        },
    ]
}

const DESTINATION: KeyFlags = KeyFlags::OW.union(KeyFlags::UPDATE).union(KeyFlags::VARIABLE_FLAGS);

/// `GEORADIUS key longitude latitude radius m|km|ft|mi [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE storekey|STOREDIST storedistkey]`
pub const GEORADIUS: Command = Command {
    name: "georadius",
    arity: -6,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM),
    categories: Categories::GEO,
    access: Access::Write,
    keys: &stored_keys(6),
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "3.2.0",
        "Returns or stores the members of a geospatial index within a distance of a point.",
    )
    .complexity("O(N+log(M)) for N members in the bounding square of the circle, of M in all.")
    .history(&[("6.2.0", "Added `COUNT` with `ANY`."), ("7.0.0", "Unit names may be in upper case.")])
    .args(&[
        Arg::key("key", 0),
        Arg::new("longitude", ArgType::Double),
        Arg::new("latitude", ArgType::Double),
        Arg::new("radius", ArgType::Double),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_WITH_LATER_ANY,
        ORDER,
        STORE,
    ]),
    subcommands: &[],
    run: |ctx, args, reply| search(ctx, args, reply, SearchCommand::Radius(true)),
};

/// `GEORADIUS_RO key longitude latitude radius m|km|ft|mi [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]`
pub const GEORADIUS_RO: Command = Command {
    name: "georadius_ro",
    arity: -6,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "3.2.10",
        "Returns the members of a geospatial index within a distance of a point.",
    )
    .complexity("O(N+log(M)) for N members in the bounding square of the circle, of M in all.")
    .history(&[("6.2.0", "Added `COUNT` with `ANY`."), ("7.0.0", "Unit names may be in upper case.")])
    .args(&[
        Arg::key("key", 0),
        Arg::new("longitude", ArgType::Double),
        Arg::new("latitude", ArgType::Double),
        Arg::new("radius", ArgType::Double),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_WITH_LATER_ANY,
        ORDER,
    ]),
    subcommands: &[],
    run: |ctx, args, reply| search(ctx, args, reply, SearchCommand::Radius(false)),
};

/// `GEORADIUSBYMEMBER key member radius m|km|ft|mi [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE storekey|STOREDIST storedistkey]`
pub const GEORADIUSBYMEMBER: Command = Command {
    name: "georadiusbymember",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM),
    categories: Categories::GEO,
    access: Access::Write,
    keys: &stored_keys(5),
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "3.2.0",
        "Returns or stores the members of a geospatial index within a distance of a member.",
    )
    .complexity("O(N+log(M)) for N members in the bounding square of the circle, of M in all.")
    .history(&[("6.2.0", "Added `COUNT` with `ANY`."), ("7.0.0", "Unit names may be in upper case.")])
    .args(&[
        Arg::key("key", 0),
        Arg::string("member"),
        Arg::new("radius", ArgType::Double),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT,
        ORDER,
        STORE,
    ]),
    subcommands: &[],
    run: |ctx, args, reply| search(ctx, args, reply, SearchCommand::RadiusByMember(true)),
};

/// `GEORADIUSBYMEMBER_RO key member radius m|km|ft|mi [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]`
pub const GEORADIUSBYMEMBER_RO: Command = Command {
    name: "georadiusbymember_ro",
    arity: -5,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "3.2.10",
        "Returns the members of a geospatial index within a distance of a member.",
    )
    .complexity("O(N+log(M)) for N members in the bounding square of the circle, of M in all.")
    .history(&[("6.2.0", "Added `COUNT` with `ANY`."), ("7.0.0", "Unit names may be in upper case.")])
    .args(&[
        Arg::key("key", 0),
        Arg::string("member"),
        Arg::new("radius", ArgType::Double),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT,
        ORDER,
    ]),
    subcommands: &[],
    run: |ctx, args, reply| search(ctx, args, reply, SearchCommand::RadiusByMember(false)),
};
