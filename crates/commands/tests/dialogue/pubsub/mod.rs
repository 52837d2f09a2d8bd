//! Publish and subscribe, as far as one connection can tell.

mod subscribe;
