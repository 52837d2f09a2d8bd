//! Search areas: a circle, a box or a polygon; which points are inside, and which cells cover it.
//!
//! Start reading at [`Search::cells`] and [`Search::distance_inside`].

use std::f64::consts::PI;

use super::geohash::{Area, Cell, LATITUDE_MAX, LONGITUDE_MAX, Point, STEP_MAX};

/// The earth's mean radius in metres, used for distances.
const EARTH_RADIUS: f64 = 6_372_797.560856;

/// Half the width of the Mercator projection, in metres.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// A search area.
#[derive(Clone, Debug)]
pub(super) enum SearchArea {
    /// A circle around the centre, in the search's unit.
    Circle {
        /// The radius.
        radius: f64,
    },
    /// A box around the centre, in the search's unit.
    Box {
        /// East to west.
        width: f64,
        /// North to south.
        height: f64,
    },
    /// A polygon; the last corner is connected with the first.
    Polygon(Vec<Point>),
}

/// A search area at its position.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub(super) centre: Point,
    pub(super) shape: SearchArea,
    /// Metres per unit of distance.
    pub(super) unit: f64,
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

fn latitude_distance(a: f64, b: f64) -> f64 {
    EARTH_RADIUS * (radians(b) - radians(a)).abs()
}

/// Returns the distance between two points in metres, on a sphere (haversine formula).
pub(super) fn distance(a: Point, b: Point) -> f64 {
    let east = ((radians(b.longitude) - radians(a.longitude)) / 2.0).sin();
    // For points on one meridian, within nanometres, the formula is simpler.
    if east.abs() <= 1e-15 {
        return latitude_distance(a.latitude, b.latitude);
    }
    let (latitude, other) = (radians(a.latitude), radians(b.latitude));
    let north = ((other - latitude) / 2.0).sin();
    let square = north * north + latitude.cos() * other.cos() * east * east;
    2.0 * EARTH_RADIUS * square.sqrt().asin()
}

impl Search {
    /// Returns the distance from the centre in metres if the point is inside the area.
    pub(super) fn distance_inside(&self, point: Point) -> Option<f64> {
        match &self.shape {
            SearchArea::Circle { radius } => {
                let distance = distance(self.centre, point);
                (distance <= radius * self.unit).then_some(distance)
            }
            SearchArea::Box { width, height } => {
                if latitude_distance(point.latitude, self.centre.latitude) > height * self.unit / 2.0 {
                    return None;
                }
                let below = Point { longitude: self.centre.longitude, ..point };
                if distance(point, below) > width * self.unit / 2.0 {
                    return None;
                }
                Some(distance(self.centre, point))
            }
            SearchArea::Polygon(corners) => is_inside(corners, point).then(|| distance(self.centre, point)),
        }
    }

    /// Returns the cells whose points may be inside: the centre's cell and the relevant neighbours, in the
    /// order in which Redis scans them.
    pub(super) fn cells(&mut self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut steps = estimated_steps(self.reach(&bounds), self.centre.latitude);
        let mut cell = Cell::around(self.centre, steps);
        if steps > 1 && is_beyond_neighbours(cell, &bounds) {
            steps -= 1;
            cell = Cell::around(self.centre, steps);
        }
        let area = cell.area();
        let may_omit = steps >= 2;
        let is_relevant = |east: i8, north: i8| {
            let beyond = (north < 0 && area.latitude_min < bounds.latitude_min)
                || (north > 0 && area.latitude_max > bounds.latitude_max)
                || (east < 0 && area.longitude_min < bounds.longitude_min)
                || (east > 0 && area.longitude_max > bounds.longitude_max);
            !(may_omit && beyond)
        };
        const DIRECTIONS: [(i8, i8); 9] =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let relevant = DIRECTIONS.into_iter().filter(|(east, north)| is_relevant(*east, *north));
        // For a huge area neighbours may be the same cell, which is scanned once. Duplicates of the first
        // cell are kept.
        let mut cells: Vec<Cell> = Vec::with_capacity(DIRECTIONS.len());
        for (east, north) in relevant {
            let cell = cell.neighbour(east, north);
            if cells.len() < 2 || cells.last() != Some(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    /// Returns the maximum distance from the centre that the area may extend to, in metres.
    fn reach(&self, bounds: &Area) -> f64 {
        match self.shape {
            SearchArea::Circle { radius } => radius * self.unit,
            SearchArea::Box { width, height } => {
                let (half_width, half_height) = (width / 2.0, height / 2.0);
                (half_width * half_width + half_height * half_height).sqrt() * self.unit
            }
            SearchArea::Polygon(_) => {
                let longitudes = [bounds.longitude_min, bounds.longitude_max];
                let latitudes = [bounds.latitude_min, bounds.latitude_max];
                let corners = longitudes
                    .iter()
                    .flat_map(|&longitude| latitudes.map(|latitude| Point { longitude, latitude }));
                corners.map(|corner| distance(self.centre, corner)).fold(0.0, f64::max)
            }
        }
    }

    /// Returns the bounding box. For a polygon, also computes its centre.
    fn bounds(&mut self) -> Area {
        let (width, height) = match &self.shape {
            SearchArea::Circle { radius } => (self.unit * radius, self.unit * radius),
            SearchArea::Box { width, height } => (self.unit * width / 2.0, self.unit * height / 2.0),
            SearchArea::Polygon(corners) => {
                let (centre, bounds) = centre_and_bounds(corners);
                self.centre = centre;
                return bounds;
            }
        };
        let Point { longitude, latitude } = self.centre;
        let north = degrees(height / EARTH_RADIUS);
        // The side of the box that is nearer to a pole spans more degrees.
        let side = if latitude < 0.0 { latitude - north } else { latitude + north };
        let east = degrees(width / EARTH_RADIUS / radians(side).cos());
        Area {
            longitude_min: longitude - east,
            longitude_max: longitude + east,
            latitude_min: latitude - north,
            latitude_max: latitude + north,
        }
    }
}

/// Estimates the number of steps at which a cell and its eight neighbours usually cover a distance of `reach`
/// metres.
fn estimated_steps(reach: f64, latitude: f64) -> u8 {
    if reach == 0.0 {
        return STEP_MAX;
    }
    let (mut reach, mut steps) = (reach, 1);
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        steps += 1;
    }
    steps -= 2;
    // Cells are narrower towards the poles.
    if latitude.abs() > 66.0 {
        steps -= 1 + i32::from(latitude.abs() > 80.0);
    }
    steps.clamp(1, i32::from(STEP_MAX)) as u8
}

/// Whether the bounds exceed a cell and its neighbours.
fn is_beyond_neighbours(cell: Cell, bounds: &Area) -> bool {
    cell.neighbour(0, 1).area().latitude_max < bounds.latitude_max
        || cell.neighbour(0, -1).area().latitude_min > bounds.latitude_min
        || cell.neighbour(1, 0).area().longitude_max < bounds.longitude_max
        || cell.neighbour(-1, 0).area().longitude_min > bounds.longitude_min
}

/// Returns the mean of a polygon's corners, on the sphere, and their bounding box.
fn centre_and_bounds(corners: &[Point]) -> (Point, Area) {
    let mut bounds = Area {
        longitude_min: LONGITUDE_MAX,
        longitude_max: -LONGITUDE_MAX,
        latitude_min: LATITUDE_MAX,
        latitude_max: -LATITUDE_MAX,
    };
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for corner in corners {
        bounds.longitude_min = bounds.longitude_min.min(corner.longitude);
        bounds.longitude_max = bounds.longitude_max.max(corner.longitude);
        bounds.latitude_min = bounds.latitude_min.min(corner.latitude);
        bounds.latitude_max = bounds.latitude_max.max(corner.latitude);
        let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    let centre = Point {
        longitude: degrees(f64::atan2(y, x)),
        latitude: degrees(f64::atan2(z, (x * x + y * y).sqrt())),
    };
    (centre, bounds)
}

/// Whether a ray to the east crosses an odd number of the polygon's edges.
fn is_inside(corners: &[Point], point: Point) -> bool {
    let mut is_inside = false;
    let Some(mut b) = corners.last() else { return false };
    for a in corners {
        let crosses = (a.latitude > point.latitude) != (b.latitude > point.latitude)
            && point.longitude
                < (b.longitude - a.longitude) * (point.latitude - a.latitude) / (b.latitude - a.latitude)
                    + a.longitude;
        is_inside ^= crosses;
        b = a;
    }
    is_inside
}
