//! Arguments of the geo commands: points, distances and units.

use wire::number::parse_f64_decimal;

use super::geohash::{LATITUDE_MAX, LONGITUDE_MAX, Point};
use crate::doc::{Arg, ArgType};
use crate::error::CommandError;
use crate::word::Word;

const NO_UNIT: CommandError = CommandError::new("ERR unsupported unit provided. please use M, KM, FT, MI");

/// Documentation of a distance unit.
pub(super) const UNIT: Arg = Arg::one_of(
    "unit",
    &[Arg::word("m", "M"), Arg::word("km", "KM"), Arg::word("ft", "FT"), Arg::word("mi", "MI")],
);

/// Documentation of the centre of a search.
pub(super) const FROM: Arg = Arg::one_of(
    "from",
    &[
        Arg::string("member").token("FROMMEMBER"),
        Arg::block(
            "fromlonlat",
            &[Arg::new("longitude", ArgType::Double), Arg::new("latitude", ArgType::Double)],
        )
        .token("FROMLONLAT"),
    ],
)
.optional();

/// Documentation of the area of a search.
pub(super) const BY: Arg = Arg::one_of(
    "by",
    &[
        Arg::block("circle", &[Arg::new("radius", ArgType::Double).token("BYRADIUS"), UNIT]),
        Arg::block(
            "box",
            &[Arg::new("width", ArgType::Double).token("BYBOX"), Arg::new("height", ArgType::Double), UNIT],
        ),
        Arg::block(
            "polygon",
            &[
                Arg::integer("num-vertices").token("BYPOLYGON"),
                Arg::block(
                    "vertices",
                    &[Arg::new("longitude", ArgType::Double), Arg::new("latitude", ArgType::Double)],
                )
                .multiple(),
            ],
        )
        .since("9.0.0"),
    ],
);

/// Documentation of the order of results.
pub(super) const ORDER: Arg =
    Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional();

/// Documentation of the number of results.
pub(super) const COUNT: Arg =
    Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()])
        .optional();

/// Documentation of the details that a result contains.
pub(super) const WITHCOORD: Arg = Arg::word("withcoord", "WITHCOORD").optional();
pub(super) const WITHDIST: Arg = Arg::word("withdist", "WITHDIST").optional();
pub(super) const WITHHASH: Arg = Arg::word("withhash", "WITHHASH").optional();

/// Parses a longitude and a latitude.
pub(super) fn parse_point(longitude: &[u8], latitude: &[u8]) -> Result<Point, CommandError> {
    let longitude = parse_f64_decimal(longitude).ok_or(CommandError::NOT_A_FLOAT)?;
    let latitude = parse_f64_decimal(latitude).ok_or(CommandError::NOT_A_FLOAT)?;
    if longitude.abs() > LONGITUDE_MAX || latitude.abs() > LATITUDE_MAX {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(CommandError::owned(text));
    }
    Ok(Point { longitude, latitude })
}

/// Returns the metres in a unit.
pub(super) fn parse_unit(name: &[u8]) -> Result<f64, CommandError> {
    match () {
        () if name.eq_token("m") => Ok(1.0),
        () if name.eq_token("km") => Ok(1000.0),
        () if name.eq_token("ft") => Ok(0.3048),
        () if name.eq_token("mi") => Ok(1609.34),
        () => Err(NO_UNIT),
    }
}

/// Parses a radius and its unit. Returns the radius as given and the metres in the unit.
pub(super) fn parse_radius(radius: &[u8], unit: &[u8]) -> Result<(f64, f64), CommandError> {
    let radius = parse_f64_decimal(radius).ok_or(CommandError::new("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(CommandError::new("ERR radius cannot be negative"));
    }
    Ok((radius, parse_unit(unit)?))
}

/// Parses the width and height of a box and their unit. Returns both as given and the metres in the unit.
pub(super) fn parse_box(width: &[u8], height: &[u8], unit: &[u8]) -> Result<(f64, f64, f64), CommandError> {
    let width = parse_f64_decimal(width).ok_or(CommandError::new("ERR need numeric width"))?;
    let height = parse_f64_decimal(height).ok_or(CommandError::new("ERR need numeric height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::new("ERR height or width cannot be negative"));
    }
    Ok((width, height, parse_unit(unit)?))
}
