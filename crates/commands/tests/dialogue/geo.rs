//! Geospatial indexes.

mod places;
mod radius;
mod searches;
