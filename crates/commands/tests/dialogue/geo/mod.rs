//! Places on earth.

mod places;
mod radius;
mod searches;
