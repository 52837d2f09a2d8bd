//! Geohashes: a point as the cell that contains it, encoded by bisecting longitude and latitude alternately.
//!
//! The score of a member is its geohash of 26 steps, 52 bits, which a double represents exactly. All
//! arithmetic uses the same order of operations as Redis, because coordinates and distances are printed to
//! the last digit.

/// Steps of a score.
pub(super) const STEP_MAX: u8 = 26;

/// Bits of a score.
const SCORE_BITS: u32 = 52;

pub(super) const LONGITUDE_MAX: f64 = 180.0;
/// The latitude limit of the Mercator projection that geohashes are based on.
pub(super) const LATITUDE_MAX: f64 = 85.05112878;

const EVEN_BITS: u64 = 0x5555_5555_5555_5555;
const ODD_BITS: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// A point on earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// A cell: `steps` bisections of either coordinate, the first in the highest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bits: u64,
    pub(super) steps: u8,
}

/// A range of longitudes and latitudes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) longitude_min: f64,
    pub(super) longitude_max: f64,
    pub(super) latitude_min: f64,
    pub(super) latitude_max: f64,
}

/// The range of all geohashes.
const WORLD: Area = Area {
    longitude_min: -LONGITUDE_MAX,
    longitude_max: LONGITUDE_MAX,
    latitude_min: -LATITUDE_MAX,
    latitude_max: LATITUDE_MAX,
};

/// The range of standard geohashes, as other programs write them.
const WHOLE_WORLD: Area = Area { latitude_min: -90.0, latitude_max: 90.0, ..WORLD };

impl Point {
    /// Returns the point of a score: the centre of its cell.
    pub(super) fn of_score(score: f64) -> Self {
        // A score that is not a geohash is converted like Redis's cast from `double` to `uint64_t` on x86-64.
        const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
        let bits = match score {
            ..0.0 => score as i64 as u64,
            0.0..TOO_LARGE => score as u64,
            _ => 0,
        };
        let area = Cell { bits, steps: STEP_MAX }.area();
        let middle = |min: f64, max: f64, limit: f64| ((min + max) / 2.0).clamp(-limit, limit);
        Self {
            longitude: middle(area.longitude_min, area.longitude_max, LONGITUDE_MAX),
            latitude: middle(area.latitude_min, area.latitude_max, LATITUDE_MAX),
        }
    }

    /// Returns the score of a point, which must be in range.
    pub(super) fn score(self) -> f64 {
        Cell::around(self, STEP_MAX).score() as f64
    }

    /// Returns the standard geohash text.
    pub(super) fn text(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::in_area(WHOLE_WORLD, self, STEP_MAX).bits;
        std::array::from_fn(|index| {
            // 52 bits are ten letters and two bits, which are omitted.
            let shift = SCORE_BITS as usize - (index + 1).min(10) * 5;
            if index == 10 { ALPHABET[0] } else { ALPHABET[(bits >> shift & 31) as usize] }
        })
    }
}

impl Cell {
    /// Returns the cell that contains a point.
    pub(super) fn around(point: Point, steps: u8) -> Self {
        Self::in_area(WORLD, point, steps)
    }

    fn in_area(area: Area, point: Point, steps: u8) -> Self {
        let scale = (1u64 << steps) as f64;
        let latitude = (point.latitude - area.latitude_min) / (area.latitude_max - area.latitude_min) * scale;
        let longitude =
            (point.longitude - area.longitude_min) / (area.longitude_max - area.longitude_min) * scale;
        Self { bits: spread(latitude as u32) | spread(longitude as u32) << 1, steps }
    }

    /// Returns the lowest score of its points.
    pub(super) fn score(self) -> u64 {
        self.bits << (SCORE_BITS - 2 * u32::from(self.steps))
    }

    /// Returns the end of its score range (exclusive).
    pub(super) fn score_end(self) -> u64 {
        Self { bits: self.bits + 1, ..self }.score()
    }

    pub(super) fn area(self) -> Area {
        let scale = (1u64 << self.steps) as f64;
        let latitude_size = WORLD.latitude_max - WORLD.latitude_min;
        let longitude_size = WORLD.longitude_max - WORLD.longitude_min;
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        let at = |min: f64, index: u32, size: f64| min + f64::from(index) / scale * size;
        Area {
            longitude_min: at(WORLD.longitude_min, longitude, longitude_size),
            longitude_max: at(WORLD.longitude_min, longitude.wrapping_add(1), longitude_size),
            latitude_min: at(WORLD.latitude_min, latitude, latitude_size),
            latitude_max: at(WORLD.latitude_min, latitude.wrapping_add(1), latitude_size),
        }
    }

    /// Returns the neighbouring cell `east` and `north` steps away (-1, 0 or 1), wrapping around the world.
    pub(super) fn neighbour(self, east: i8, north: i8) -> Self {
        let unused = 64 - 2 * u32::from(self.steps);
        let bits = moved(self.bits & ODD_BITS, EVEN_BITS >> unused, east) & (ODD_BITS >> unused)
            | moved(self.bits & EVEN_BITS, ODD_BITS >> unused, north) & (EVEN_BITS >> unused);
        // The bits of a direction without movement are kept.
        let kept = match (east, north) {
            (0, 0) => return self,
            (0, _) => self.bits & ODD_BITS | bits & EVEN_BITS,
            (_, 0) => self.bits & EVEN_BITS | bits & ODD_BITS,
            _ => bits,
        };
        Self { bits: kept, ..self }
    }
}

/// Adds to a number in alternate bits; `between` are the other bits, through which the carry propagates.
fn moved(bits: u64, between: u64, by: i8) -> u64 {
    match by {
        0 => bits,
        1.. => bits.wrapping_add(between + 1),
        _ => (bits | between).wrapping_sub(between + 1),
    }
}

/// Spreads the bits of a number to the even bits.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    bits = (bits | bits << 16) & 0x0000_FFFF_0000_FFFF;
    bits = (bits | bits << 8) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & EVEN_BITS
}

/// Gathers the even bits into a number.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & EVEN_BITS;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits >> 4) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits >> 8) & 0x0000_FFFF_0000_FFFF;
    (bits | bits >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_spread_and_gathered() {
        for number in [0, 1, 2, 0b1011, 0x1234_5678, u32::MAX] {
            assert_eq!(gather(spread(number)), number);
            assert_eq!(gather(spread(number) << 1 >> 1), number);
        }
        assert_eq!(spread(0b1011), 0b100_0101);
    }

    #[test]
    fn neighbours_wrap_around_the_globe() {
        let cell = Cell::around(Point { longitude: 13.4, latitude: 52.5 }, 5);
        let directions = (-1..=1).flat_map(|east| (-1..=1).map(move |north| (east, north)));
        for (east, north) in directions {
            assert_eq!(cell.neighbour(east, north).neighbour(-east, -north), cell, "{east} {north}");
        }
        let around = (0..32).fold(cell, |cell, _| cell.neighbour(1, 0));
        assert_eq!(around, cell);
        let around = (0..32).fold(cell, |cell, _| cell.neighbour(0, -1));
        assert_eq!(around, cell);
    }

    #[test]
    fn a_point_is_in_its_cell() {
        for (longitude, latitude) in [(13.361389, 38.115556), (-180.0, -85.0), (0.0, 0.0), (179.9, 85.0)] {
            let point = Point { longitude, latitude };
            let decoded = Point::of_score(point.score());
            assert!((decoded.longitude - longitude).abs() < 1e-5);
            assert!((decoded.latitude - latitude).abs() < 1e-5);
            let area = Cell::around(point, 7).area();
            assert!((area.longitude_min..=area.longitude_max).contains(&longitude));
            assert!((area.latitude_min..=area.latitude_max).contains(&latitude));
        }
    }
}
