//! The lines that `MONITOR` shows.

use commands::session::{Session, SessionFlags};
use commands::table::ResolvedCommand;
use wire::request::Args;

use crate::monitoring::secrets::{REDACTED, is_secret};

/// `+seconds.micros [db address] "command" "argument" ...` with a line end.
#[must_use]
pub fn line(session: &Session, found: ResolvedCommand, args: Args<'_>, unix_micros: i64) -> Vec<u8> {
    let (seconds, micros) = (unix_micros / 1_000_000, unix_micros % 1_000_000);
    let address = if session.flags.contains(SessionFlags::IN_SCRIPT) {
        "lua".to_owned()
    } else if session.endpoints.is_unix {
        format!("unix:{}", session.endpoints.peer.trim_end_matches(":0"))
    } else {
        session.endpoints.peer.clone()
    };
    let mut line = format!("+{seconds}.{micros:06} [{} {address}]", session.db.0).into_bytes();
    for (index, arg) in args.iter().enumerate() {
        let shown = if is_secret(found, args, index) { REDACTED } else { arg };
        line.push(b' ');
        line.extend_from_slice(&config::quoted(shown));
    }
    line.extend_from_slice(b"\r\n");
    line
}
