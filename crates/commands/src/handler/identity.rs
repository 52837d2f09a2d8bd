//! The server names and versions by which clients detect features: Redis's and Valkey's, and our own version.

/// The compatible version of Redis.
pub const REDIS_VERSION: &str = "7.2.4";
/// The compatible version of Valkey.
pub const VALKEY_VERSION: &str = "9.1.0";
/// The version of Broadloom.
pub const BROADLOOM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the name and version in the replies of `HELLO` and `LOLWUT`.
#[must_use]
pub fn name_and_version(as_redis: bool) -> (&'static str, &'static str) {
    if as_redis { ("redis", REDIS_VERSION) } else { ("valkey", VALKEY_VERSION) }
}
