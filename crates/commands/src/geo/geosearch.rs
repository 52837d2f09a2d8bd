//! `GEOSEARCH` and `GEOSEARCHSTORE`

use super::arguments::{BY, COUNT, FROM, ORDER, WITHCOORD, WITHDIST, WITHHASH};
use super::search::{SearchCommand, search};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::doc::{Arg, Doc, Group};

/// `GEOSEARCH key [FROMMEMBER member|FROMLONLAT longitude latitude] BYRADIUS radius m|km|ft|mi|BYBOX width height m|km|ft|mi|BYPOLYGON num-vertices longitude latitude [longitude latitude ...] [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]`
pub const GEOSEARCH: Command = Command {
    name: "geosearch",
    arity: -7,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "6.2.0",
        "Returns the members of a geospatial index within a circle, box or polygon.",
    )
    .complexity("O(N+log(M)) for N members in the bounding square of the area, of M in all.")
    .history(&[("7.0.0", "Unit names may be in upper case."), ("9.0.0", "Added `BYPOLYGON`.")])
    .args(&[Arg::key("key", 0), FROM, BY, ORDER, COUNT, WITHCOORD, WITHDIST, WITHHASH]),
    subcommands: &[],
    run: |ctx, args, reply| search(ctx, args, reply, SearchCommand::Search),
};

/// `GEOSEARCHSTORE destination source [FROMMEMBER member|FROMLONLAT longitude latitude] BYRADIUS radius m|km|ft|mi|BYBOX width height m|km|ft|mi|BYPOLYGON num-vertices longitude latitude [longitude latitude ...] [ASC|DESC] [COUNT count [ANY]] [STOREDIST]`
pub const GEOSEARCHSTORE: Command = Command {
    name: "geosearchstore",
    arity: -8,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM),
    categories: Categories::GEO,
    access: Access::Write,
    keys: &[
        KeySpec::first(KeyFlags::OW.union(KeyFlags::UPDATE)),
        KeySpec::at(2, KeyFlags::RO.union(KeyFlags::ACCESS)),
    ],
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "6.2.0",
        "Stores the members of a geospatial index within a circle, box or polygon in a key.",
    )
    .complexity("O(N+log(M)) for N members in the bounding square of the area, of M in all.")
    .history(&[("7.0.0", "Unit names may be in upper case."), ("9.0.0", "Added `BYPOLYGON`.")])
    .args(&[
        Arg::key("destination", 0),
        Arg::key("source", 1),
        FROM,
        BY,
        ORDER,
        COUNT,
        Arg::word("storedist", "STOREDIST").optional(),
    ]),
    subcommands: &[],
    run: |ctx, args, reply| search(ctx, args, reply, SearchCommand::SearchStore),
};
