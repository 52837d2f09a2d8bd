//! Formatting of coordinates and distances.

use wire::number::write_f64_fixed;
use wire::reply::ReplyBuffer;

use super::geohash::Point;

/// Writes a longitude and a latitude.
pub(super) fn write_coordinates(out: &mut ReplyBuffer<'_>, point: Point) {
    out.array(2);
    for coordinate in [point.longitude, point.latitude] {
        // 17 decimals, without trailing zeros.
        let text = format!("{coordinate:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        out.double_text(if text == "-0" { b"0" } else { text.as_bytes() });
    }
}

/// Writes a distance with four decimals: a bulk string in either protocol.
pub(super) fn write_distance(out: &mut ReplyBuffer<'_>, distance: f64) {
    let mut text = Vec::new();
    write_f64_fixed(&mut text, distance, 4);
    out.bulk(&text);
}
