//! TLS of a connection: between its bytes in the reactor and those of its requests and replies. Moves to
//! another worker with its connection.

use os::clock::Uptime;
use tls::Stream;

/// How long a handshake may take, in milliseconds.
const HANDSHAKE_MS_MAX: i64 = 30_000;

/// TLS of a connection.
pub struct Encryption {
    /// The state of the protocol, and plain output that is not encrypted yet.
    pub stream: Stream,
    /// Whether received bytes wait for a step of the handshake.
    pub awaits_step: bool,
    /// Whether the last record is sent: no more may follow.
    pub has_ended: bool,
    /// The error that the client gets after the handshake, if it is not served.
    pub refusal: Option<&'static [u8]>,
    since: Uptime,
}

impl Encryption {
    /// Returns the TLS state of a new connection.
    #[must_use]
    pub fn new(stream: Stream, refusal: Option<&'static [u8]>, now: Uptime) -> Self {
        Self { stream, awaits_step: false, has_ended: false, refusal, since: now }
    }

    /// Whether the handshake has taken too long.
    #[must_use]
    pub fn is_overdue(&self, now: Uptime) -> bool {
        self.stream.is_handshaking() && now.ms_since(self.since) > HANDSHAKE_MS_MAX
    }
}
