//! Geospatial indexes: sorted sets whose scores are geohashes.

mod arguments;
pub(crate) mod geoadd;
mod geohash;
pub(crate) mod geopos;
pub(crate) mod georadius;
pub(crate) mod geosearch;
mod replies;
mod search;
mod shape;
