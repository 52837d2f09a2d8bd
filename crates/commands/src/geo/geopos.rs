//! `GEOPOS`, `GEOHASH` and `GEODIST`

use collections::SortedSet;
use wire::request::Args;

use super::arguments::{UNIT, parse_unit};
use super::geohash::Point;
use super::replies::{write_coordinates, write_distance};
use super::shape::distance;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `GEOPOS key [member [member ...]]`
pub const GEOPOS: Command = Command {
    name: "geopos",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Geo, "3.2.0", "Returns the coordinates of members of a geospatial index.")
        .complexity("O(1) for each member.")
        .args(&[Arg::key("key", 0), Arg::string("member").optional().multiple()]),
    subcommands: &[],
    run: run_geopos,
};

/// `GEOHASH key [member [member ...]]`
pub const GEOHASH: Command = Command {
    name: "geohash",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Geo, "3.2.0", "Returns the positions of members as geohash strings.")
        .complexity("O(1) for each member.")
        .args(&[Arg::key("key", 0), Arg::string("member").optional().multiple()]),
    subcommands: &[],
    run: run_geohash,
};

/// `GEODIST key member1 member2 [m|km|ft|mi]`
pub const GEODIST: Command = Command {
    name: "geodist",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::GEO,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "3.2.0",
        "Returns the distance between two geospatial index members in a unit.",
    )
    .args(&[Arg::key("key", 0), Arg::string("member1"), Arg::string("member2"), UNIT.optional()]),
    subcommands: &[],
    run: run_geodist,
};

/// Returns the position of a member.
fn place(ctx: &Ctx<'_>, set: Option<&SortedSet>, member: &[u8]) -> Option<Point> {
    set?.score(ctx.alloc_context(ctx.key(0)), member).map(Point::of_score)
}

fn run_geopos(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (set, members) = (ctx.find::<SortedSet>(ctx.key(0))?, args.tail(2));
    let mut out = reply.array(members.len());
    for member in members.iter() {
        match place(ctx, set, member) {
            Some(point) => write_coordinates(&mut out, point),
            None => out.null_array(),
        }
    }
    Ok(out.done())
}

fn run_geohash(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (set, members) = (ctx.find::<SortedSet>(ctx.key(0))?, args.tail(2));
    let mut out = reply.array(members.len());
    for member in members.iter() {
        match place(ctx, set, member) {
            Some(point) => out.bulk(&point.text()),
            None => out.null(),
        }
    }
    Ok(out.done())
}

fn run_geodist(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let unit = match args.get(4) {
        None => 1.0,
        Some(_) if args.len() > 5 => return Err(CommandError::SYNTAX),
        Some(name) => parse_unit(name)?,
    };
    let set = ctx.find::<SortedSet>(ctx.key(0))?;
    let Some((a, b)) = place(ctx, set, args.at(2)).zip(place(ctx, set, args.at(3))) else {
        return Ok(reply.null());
    };
    let mut out = reply.parts();
    write_distance(&mut out, distance(a, b) / unit);
    Ok(out.done())
}
