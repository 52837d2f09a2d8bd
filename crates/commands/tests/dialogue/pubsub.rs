//! Publish and subscribe, tested with a single connection.

mod subscribe;
