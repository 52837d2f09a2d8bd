//! `GEOSEARCH`, `GEORADIUS` and their variants: one search, whose result is returned or stored.
//!
//! Start reading at [`search`].

use collections::{Collection, SortedSet};
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::arguments::{parse_box, parse_point, parse_radius};
use super::geohash::Point;
use super::replies::{write_coordinates, write_distance};
use super::shape::{Search, SearchArea};
use crate::context::{Ctx, EventClass};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::sorted_set::{ScoreRange, limits, log_stored};
use crate::word::Word;

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchCommand {
    /// `GEORADIUS`, around a point; whether `STORE` is allowed.
    Radius(bool),
    /// `GEORADIUSBYMEMBER`; whether `STORE` is allowed.
    RadiusByMember(bool),
    /// `GEOSEARCH`
    Search,
    /// `GEOSEARCHSTORE`
    SearchStore,
}

impl SearchCommand {
    /// Argument index of the searched key.
    fn source_at(self) -> usize {
        if self == Self::SearchStore { 2 } else { 1 }
    }

    fn is_search(self) -> bool {
        matches!(self, Self::Search | Self::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(self, Self::Radius(true) | Self::RadiusByMember(true))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DistanceOrder {
    None,
    Nearest,
    Farthest,
}

/// The centre of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Member,
    Point,
}

/// Parsed options.
struct SearchOptions {
    centre: Option<Point>,
    origin: Option<Origin>,
    shape: Option<SearchArea>,
    unit: f64,
    with_distance: bool,
    with_hash: bool,
    with_coordinates: bool,
    order: DistanceOrder,
    /// Maximum number of results; 0: all.
    count: usize,
    any: bool,
    /// Argument index of the destination key.
    destination: Option<usize>,
    stores_distance: bool,
}

/// A member that was found.
struct Found<'a> {
    member: &'a [u8],
    score: f64,
    point: Point,
    /// In metres.
    distance: f64,
}

/// Finds the last destination key in the options of `GEORADIUS`.
pub(super) fn find_destination(args: Args<'_>, found: &mut Vec<u32>) {
    let mut index = 5;
    let mut last = None;
    while index + 1 < args.len() {
        let word = args.at(index);
        if word.eq_token("store") || word.eq_token("storedist") {
            index += 1;
            last = Some(index as u32);
        }
        index += 1;
    }
    found.extend(last);
}

/// Searches, and returns or stores the result.
pub(super) fn search(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    form: SearchCommand,
) -> Result<Replied, CommandError> {
    let source = planned_key(ctx, form.source_at()).ok_or(CommandError::SYNTAX)?;
    if form.may_store() || form == SearchCommand::SearchStore {
        ctx.data.expire_if_due(source);
    }
    let set = ctx.find::<SortedSet>(source)?;
    let member_point = |member: &[u8]| match set {
        None => Ok(None),
        Some(set) => match set.score(ctx.alloc_context(source), member) {
            Some(score) => Ok(Some(Point::of_score(score))),
            None => Err(CommandError::quote("ERR member ", member, " does not exist")),
        },
    };
    let options = SearchOptions::parse(args, form, set.is_some(), member_point)?;
    let destination = match options.destination {
        None => None,
        Some(index) => Some(planned_key(ctx, index).ok_or(CommandError::SYNTAX)?),
    };
    let found = match (set, options.shape.clone()) {
        (Some(set), Some(shape)) => options.find(set, shape),
        _ => Vec::new(),
    };
    match destination {
        Some(destination) => {
            let stored = options.stored(ctx, destination, &found);
            store(ctx, destination, stored, form, reply)
        }
        None => Ok(options.answer(&found, reply)),
    }
}

/// Returns the key that is this argument.
fn planned_key<'a>(ctx: &Ctx<'a>, index: usize) -> Option<Key<'a>> {
    ctx.planned.iter().position(|planned| planned.arg as usize == index).map(|position| ctx.key(position))
}

impl SearchOptions {
    /// Parses all arguments. `member_point` returns the position of a member, or `None` if there is no set.
    fn parse(
        args: Args<'_>,
        form: SearchCommand,
        is_there: bool,
        member_point: impl Fn(&[u8]) -> Result<Option<Point>, CommandError>,
    ) -> Result<Self, CommandError> {
        let mut options = Self {
            centre: None,
            origin: None,
            shape: None,
            unit: 1.0,
            with_distance: false,
            with_hash: false,
            with_coordinates: false,
            order: DistanceOrder::None,
            count: 0,
            any: false,
            destination: None,
            stores_distance: false,
        };
        let first = match form {
            SearchCommand::Radius(_) => {
                options.centre = Some(parse_point(args.at(2), args.at(3))?);
                options.set_circle(args.at(4), args.at(5))?;
                6
            }
            SearchCommand::RadiusByMember(_) => {
                options.centre = member_point(args.at(2))?;
                if is_there {
                    options.set_circle(args.at(3), args.at(4))?;
                }
                5
            }
            SearchCommand::Search => 2,
            SearchCommand::SearchStore => {
                options.destination = Some(1);
                3
            }
        };
        let mut index = first;
        while index < args.len() {
            let taken = match options.take_plain(args.at(index), form) {
                true => 1,
                false => options.take_with_operands(args, index, form, &member_point)?,
            };
            index += taken;
        }
        options.check(args, form)?;
        Ok(options)
    }

    fn set_circle(&mut self, radius: &[u8], unit: &[u8]) -> Result<(), CommandError> {
        let (radius, unit) = parse_radius(radius, unit)?;
        (self.shape, self.unit) = (Some(SearchArea::Circle { radius }), unit);
        Ok(())
    }

    /// Whether a word is an option without operands; if so, sets it.
    fn take_plain(&mut self, word: &[u8], form: SearchCommand) -> bool {
        let is = |name: &[u8]| word.eq_token(name);
        match () {
            () if is(b"withdist") => self.with_distance = true,
            () if is(b"withhash") => self.with_hash = true,
            () if is(b"withcoord") => self.with_coordinates = true,
            () if is(b"any") => self.any = true,
            () if is(b"asc") => self.order = DistanceOrder::Nearest,
            () if is(b"desc") => self.order = DistanceOrder::Farthest,
            () if is(b"storedist") && form == SearchCommand::SearchStore => self.stores_distance = true,
            () => return false,
        }
        true
    }

    /// Parses an option with operands. Returns the number of arguments.
    fn take_with_operands(
        &mut self,
        args: Args<'_>,
        index: usize,
        form: SearchCommand,
        member_point: &impl Fn(&[u8]) -> Result<Option<Point>, CommandError>,
    ) -> Result<usize, CommandError> {
        let word = args.at(index);
        let operands = args.tail(index + 1);
        let is = |name: &[u8], operand_count: usize| word.eq_token(name) && operands.len() >= operand_count;
        let is_polygon = matches!(self.shape, Some(SearchArea::Polygon(_)));
        let is_circle = matches!(self.shape, Some(SearchArea::Circle { .. }));
        let is_box = matches!(self.shape, Some(SearchArea::Box { .. }));
        let searches_around = form.is_search() && !is_polygon;
        if is(b"count", 1) {
            let count = parse_i64_strict(operands.at(0)).ok_or(CommandError::NOT_AN_INTEGER)?;
            let count = usize::try_from(count).ok().filter(|count| *count > 0);
            self.count = count.ok_or(CommandError::new("ERR COUNT must be > 0"))?;
            return Ok(2);
        }
        if (is(b"store", 1) || is(b"storedist", 1)) && form.may_store() {
            self.destination = Some(index + 1);
            self.stores_distance = word.eq_token("storedist");
            return Ok(2);
        }
        if is(b"frommember", 1) && searches_around && self.origin != Some(Origin::Point) {
            self.centre = member_point(operands.at(0))?;
            self.origin = Some(Origin::Member);
            return Ok(2);
        }
        if is(b"fromlonlat", 2) && searches_around && self.origin != Some(Origin::Member) {
            self.centre = Some(parse_point(operands.at(0), operands.at(1))?);
            self.origin = Some(Origin::Point);
            return Ok(3);
        }
        if is(b"byradius", 2) && searches_around && !is_box {
            self.set_circle(operands.at(0), operands.at(1))?;
            return Ok(3);
        }
        if is(b"bybox", 3) && searches_around && !is_circle {
            let (width, height, unit) = parse_box(operands.at(0), operands.at(1), operands.at(2))?;
            (self.shape, self.unit) = (Some(SearchArea::Box { width, height }), unit);
            return Ok(4);
        }
        if is(b"bypolygon", 2) && form.is_search() && !is_circle && !is_box && self.origin.is_none() {
            return self.take_polygon(operands);
        }
        Err(CommandError::SYNTAX)
    }

    /// Parses the number of corners and the corners. Returns the number of arguments, including the option.
    fn take_polygon(&mut self, operands: Args<'_>) -> Result<usize, CommandError> {
        const BAD_COUNT: CommandError = CommandError::new("ERR invalid number of vertices");
        const TOO_FEW: CommandError =
            CommandError::new("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
        let count = parse_i64_strict(operands.at(0)).and_then(|count| i32::try_from(count).ok());
        let count = usize::try_from(count.ok_or(BAD_COUNT)?).unwrap_or(0);
        if count < 3 || (operands.len() - 1) / 2 < count {
            return Err(TOO_FEW);
        }
        let corner = |index| parse_point(operands.at(2 * index + 1), operands.at(2 * index + 2));
        let corners = (0..count).map(corner).collect::<Result<Vec<_>, _>>()?;
        (self.shape, self.unit) = (Some(SearchArea::Polygon(corners)), 1.0);
        Ok(2 + 2 * count)
    }

    /// Rejects conflicting or incomplete options.
    fn check(&self, args: Args<'_>, form: SearchCommand) -> Result<(), CommandError> {
        const NO_COUNT: CommandError = CommandError::new("ERR the ANY argument requires COUNT argument");
        let shows_more = self.with_distance || self.with_hash || self.with_coordinates;
        if self.destination.is_some() && shows_more {
            let what = if form == SearchCommand::SearchStore {
                "GEOSEARCHSTORE"
            } else {
                "STORE option in GEORADIUS"
            };
            let text = format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
            return Err(CommandError::owned(text));
        }
        let is_polygon = matches!(self.shape, Some(SearchArea::Polygon(_)));
        if form.is_search() && self.origin.is_none() && !is_polygon {
            let before = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(CommandError::quote(before, args.at(0), ""));
        }
        if form.is_search() && self.shape.is_none() {
            let before = "ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for ";
            return Err(CommandError::quote(before, args.at(0), ""));
        }
        if self.any && self.count == 0 { Err(NO_COUNT) } else { Ok(()) }
    }

    /// Finds the members inside a shape, limited and ordered as requested.
    fn find<'s>(&self, set: &'s SortedSet, shape: SearchArea) -> Vec<Found<'s>> {
        let centre = self.centre.unwrap_or(Point { longitude: 0.0, latitude: 0.0 });
        let mut search = Search { centre, shape, unit: self.unit };
        let mut found = Vec::new();
        let is_enough = |found: &Vec<Found<'_>>| self.any && found.len() >= self.count;
        for cell in search.cells() {
            let (min, max) = (cell.score() as f64, cell.score_end() as f64);
            let ranks = ScoreRange { min, min_is_out: false, max, max_is_out: true }.ranks(set);
            for (member, score) in set.range(ranks.start, ranks.len()) {
                if is_enough(&found) {
                    break;
                }
                let point = Point::of_score(score);
                if let Some(distance) = search.distance_inside(point) {
                    found.push(Found { member, score, point, distance });
                }
            }
        }
        let by_distance = |a: &Found<'_>, b: &Found<'_>| a.distance.total_cmp(&b.distance);
        match self.order {
            // `COUNT` selects the nearest ones, unless `ANY` is given.
            DistanceOrder::None if self.count > 0 && !self.any => found.sort_by(by_distance),
            DistanceOrder::None => {}
            DistanceOrder::Nearest => found.sort_by(by_distance),
            DistanceOrder::Farthest => found.sort_by(|a, b| by_distance(b, a)),
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found
    }

    fn answer(&self, found: &[Found<'_>], reply: Reply<'_>) -> Replied {
        let more_count = [self.with_distance, self.with_hash, self.with_coordinates];
        let more_count = more_count.into_iter().filter(|is_on| *is_on).count();
        let mut out = reply.array(found.len());
        for place in found {
            if more_count > 0 {
                out.array(1 + more_count);
            }
            out.bulk(place.member);
            if self.with_distance {
                write_distance(&mut out, place.distance / self.unit);
            }
            if self.with_hash {
                out.integer(place.score as i64);
            }
            if self.with_coordinates {
                write_coordinates(&mut out, place.point);
            }
        }
        out.done()
    }

    /// Creates the sorted set to store from the result.
    fn stored(&self, ctx: &Ctx<'_>, destination: Key<'_>, found: &[Found<'_>]) -> SortedSet {
        let (alloc, limits) = (ctx.alloc_context(destination), limits(ctx));
        let mut stored = SortedSet::new();
        let value_size_max = found.iter().map(|place| place.member.len()).max().unwrap_or(0);
        stored.prepare(found.len(), value_size_max, limits);
        for place in found {
            let score = if self.stores_distance { place.distance / self.unit } else { place.score };
            stored.insert(alloc, limits, place.member, score);
        }
        stored
    }
}

fn store(
    ctx: &mut Ctx<'_>,
    destination: Key<'_>,
    stored: SortedSet,
    form: SearchCommand,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let len = stored.len();
    if len > 0 {
        // Older servers do not know polygons, which members `ANY` selects depends on the order of the search, and distances
        // depend on the mathematical library.
        log_stored(ctx, destination, &stored);
        ctx.put_object(destination, stored.into_object());
        let event = if form.is_search() { "geosearchstore" } else { "georadiusstore" };
        ctx.changed(EventClass::SortedSet, event, destination);
        ctx.report.dirty += len as u64 - 1;
    } else if ctx.remove(destination) {
        ctx.changed(EventClass::Generic, "del", destination);
        ctx.record_deletion(destination);
    }
    Ok(reply.integer(len as i64))
}
