//! The names and versions by which clients know what the server can do: those of the servers it stands in for.

/// The version of Redis whose protocol and commands clients may count on.
pub const REDIS_VERSION: &str = "7.2.4";
/// The version of Valkey likewise.
pub const VALKEY_VERSION: &str = "9.1.0";
/// Our own version.
pub const BROADLOOM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Name and version that `HELLO` and `LOLWUT` give.
#[must_use]
pub fn spoken(as_redis: bool) -> (&'static str, &'static str) {
    if as_redis { ("redis", REDIS_VERSION) } else { ("valkey", VALKEY_VERSION) }
}
