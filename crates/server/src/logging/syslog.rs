//! The system log: each line as a datagram to `/dev/log`, in the form of `syslog(3)`.
//!
//! The socket is opened with the first line and again after an error: the daemon may start later, or be restarted.

use std::os::unix::net::UnixDatagram;
use std::process;

use chrono::{DateTime, Local};
use config::SyslogFacility;
use log::Level;

/// The daemon's socket.
const SOCKET_PATH: &str = "/dev/log";

/// A connection to the system log.
pub struct Syslog {
    ident: String,
    facility: SyslogFacility,
    socket: Option<UnixDatagram>,
}

impl Syslog {
    /// Returns a connection with this name and facility.
    pub fn new(ident: String, facility: SyslogFacility) -> Self {
        Self { ident, facility, socket: None }
    }

    /// Sends a line. A line that can't be sent is lost here; the main log has it.
    pub fn send(&mut self, level: Level, now: DateTime<Local>, text: &str) {
        let line = self.line(level, now, text);
        if self.socket.as_ref().is_some_and(|socket| socket.send(line.as_bytes()).is_ok()) {
            return;
        }
        self.socket = connect().ok();
        if let Some(socket) = &self.socket {
            // Lost, see above.
            let _ = socket.send(line.as_bytes());
        }
    }

    /// `<priority>time ident[pid]: text`, as RFC 3164 describes it.
    fn line(&self, level: Level, now: DateTime<Local>, text: &str) -> String {
        let severity = match level {
            Level::Error | Level::Warn => 4,
            Level::Info => 5,
            Level::Debug => 6,
            Level::Trace => 7,
        };
        let priority = facility_number(self.facility) * 8 + severity;
        format!("<{priority}>{} {}[{}]: {text}", now.format("%b %e %H:%M:%S"), self.ident, process::id())
    }
}

fn connect() -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(SOCKET_PATH)?;
    // A slow daemon must not stop the server.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The numbers of RFC 3164.
fn facility_number(facility: SyslogFacility) -> u32 {
    match facility {
        SyslogFacility::User => 1,
        SyslogFacility::Local0 => 16,
        SyslogFacility::Local1 => 17,
        SyslogFacility::Local2 => 18,
        SyslogFacility::Local3 => 19,
        SyslogFacility::Local4 => 20,
        SyslogFacility::Local5 => 21,
        SyslogFacility::Local6 => 22,
        SyslogFacility::Local7 => 23,
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;

    use super::*;

    #[test]
    fn a_line_has_the_form_of_the_c_library() {
        let now =
            Local.with_ymd_and_hms(2026, 11, 3, 7, 8, 9).single().expect("a time of no change of clocks");
        let local0 = Syslog::new("broadloom".into(), SyslogFacility::Local0);
        let expected = format!("<133>Nov  3 07:08:09 broadloom[{}]: hello", process::id());
        assert_eq!(local0.line(Level::Info, now, "hello"), expected);
        let user = Syslog::new("db".into(), SyslogFacility::User);
        assert!(user.line(Level::Warn, now, "").starts_with("<12>"));
    }
}
