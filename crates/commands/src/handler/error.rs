//! Errors that a command returns: the client's faults, in Redis's own words.
//!
//! Invariant: the text begins with the error code, and is one line. The writer adds the `-` and the line end.

use std::borrow::Cow;

/// An error reply. Most have static text; errors that quote the request own their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError(Cow<'static, [u8]>);

/// Returns the bytes before the first NUL: Redis treats such arguments as C strings.
#[must_use]
pub fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl CommandError {
    /// The key holds a value of another type.
    pub const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The arguments do not match the command's grammar.
    pub const SYNTAX: Self = Self::new("ERR syntax error");
    /// `WAITAOF` for a local append-only file that is off.
    pub const NO_APPEND_ONLY_FILE: Self =
        Self::new("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
    /// An argument or value is not a 64-bit integer.
    pub const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    /// An integer is too large for 32 bits.
    pub const NOT_AN_I32: Self =
        Self::new("ERR value is out of range, value must between -2147483648 and 2147483647");
    /// An argument or value is not a float.
    pub const NOT_A_FLOAT: Self = Self::new("ERR value is not a valid float");
    /// An integer is outside its range.
    pub const OUT_OF_RANGE: Self = Self::new("ERR value is out of range");
    /// An index is outside its range.
    pub const INDEX_OUT_OF_RANGE: Self = Self::new("ERR index out of range");
    /// The key must exist.
    pub const NO_SUCH_KEY: Self = Self::new("ERR no such key");
    /// Source and destination are one key.
    pub const SAME_OBJECT: Self = Self::new("ERR source and destination objects are the same");
    /// A string would become longer than `proto-max-bulk-len`.
    pub const STRING_TOO_LONG: Self =
        Self::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// The memory limit is exceeded and nothing may be evicted.
    pub const OUT_OF_MEMORY: Self = Self::new("OOM command not allowed when used memory > 'maxmemory'.");
    /// Too few good replicas are connected.
    pub const NO_REPLICAS: Self = Self::new("NOREPLICAS Not enough good replicas to write.");
    /// A write on a replica.
    pub const READ_ONLY: Self = Self::new("READONLY You can't write against a read only replica.");
    /// A replica has no link to its primary.
    pub const STALE: Self =
        Self::new("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
    /// Files are being loaded.
    const LOADING: Self = Self::new("LOADING Valkey is loading the dataset in memory");
    const LOADING_AS_REDIS: Self = Self::new("LOADING Redis is loading the dataset in memory");
    #[allow(missing_docs)]
    pub const NO_AUTH: Self = Self::new("NOAUTH Authentication required.");
    /// The database index is not below the number of databases.
    pub const DB_OUT_OF_RANGE: Self = Self::new("ERR DB index is out of range");

    /// Files are being loaded. `as_redis` selects Redis's text (`extended-redis-compatibility`) instead of Valkey's.
    #[must_use]
    pub const fn loading(as_redis: bool) -> Self {
        if as_redis { Self::LOADING_AS_REDIS } else { Self::LOADING }
    }

    /// Creates an error with static text; `text` begins with the error code.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// Creates an error that quotes the request; `text` begins with the error code.
    #[must_use]
    pub fn owned(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }

    /// Creates an error that quotes an argument between two texts; `before` begins with the error code. The
    /// quotation ends at a NUL, as in Redis.
    #[must_use]
    pub fn quote(before: &str, argument: &[u8], after: &str) -> Self {
        Self::quoting([before.as_bytes(), up_to_nul(argument), after.as_bytes()].concat())
    }

    /// Creates an error that quotes bytes of the request; `text` begins with the error code.
    #[must_use]
    pub fn quoting(text: Vec<u8>) -> Self {
        Self(Cow::Owned(text))
    }

    /// Writes are refused because the data could not be saved.
    #[must_use]
    pub fn unsaved(as_redis: bool) -> Self {
        let name = if as_redis { "Redis" } else { "Valkey" };
        Self::owned(format!(
            "MISCONF {name} is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands \
             that may modify the data set are disabled, because this instance is configured to report errors during \
             writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the {name} logs for \
             details about the RDB error."
        ))
    }

    /// Too few or too many arguments for `name` (a subcommand as `container|word`).
    #[must_use]
    pub fn wrong_arity(name: &str) -> Self {
        Self::owned(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// An invalid expiry for the command `name`.
    #[must_use]
    pub fn invalid_expire(name: &str) -> Self {
        Self::owned(format!("ERR invalid expire time in '{name}' command"))
    }

    /// Returns the whole text, code first. Not always UTF-8: it may quote the request.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// Returns the code under which the error is counted: the first word. A text without a space in its first
    /// [`CODE_SIZE_MAX`] bytes has no code and counts as `ERR`, as in Redis.
    #[must_use]
    pub fn code(&self) -> &str {
        let start = &self.0[..self.0.len().min(CODE_SIZE_MAX + 1)];
        let code = start.iter().position(|byte| *byte == b' ').map(|len| &start[..len]);
        code.and_then(|code| std::str::from_utf8(code).ok()).unwrap_or("ERR")
    }
}

/// Maximum bytes of a code: with the `-` before it and the space after it, it takes 32.
const CODE_SIZE_MAX: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_ends_within_32_bytes() {
        let code = |text: &str| CommandError::owned(text.to_owned()).code().to_owned();
        assert_eq!(code("WRONGTYPE Operation"), "WRONGTYPE");
        assert_eq!(code(&format!("{} x", "A".repeat(30))), "A".repeat(30));
        assert_eq!(code(&format!("{} x", "A".repeat(31))), "ERR");
        assert_eq!(code("FOO"), "ERR");
        assert_eq!(code(" x"), "");
    }
}
