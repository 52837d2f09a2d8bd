//! Notifies the supervisor of the process of its state: systemd through its notification socket, upstart
//! by a stop signal. `supervised` in the configuration selects one; `auto` reads the environment.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

use config::{Config, Supervised};

/// The supervisor of this process, determined at the start.
static SUPERVISOR: OnceLock<Supervisor> = OnceLock::new();

/// A supervisor, with its means of notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// No supervisor.
    None,
    /// Upstart waits for the process to stop itself.
    Upstart,
    /// systemd listens on a socket: a path, or `@` and an abstract name.
    Systemd {
        /// The socket's name.
        socket: String,
    },
}

impl Supervisor {
    /// Returns the supervisor that the configuration names, if the environment confirms it.
    fn find(wanted: Supervised, variable: impl Fn(&str) -> Option<String>) -> Self {
        let upstart = || variable("UPSTART_JOB").map(|_| Self::Upstart);
        let systemd = || variable("NOTIFY_SOCKET").map(|socket| Self::Systemd { socket });
        let found = match wanted {
            Supervised::No => return Self::None,
            Supervised::Upstart => upstart(),
            Supervised::Systemd => systemd(),
            Supervised::Auto => upstart().or_else(systemd),
        };
        if found.is_none() {
            match wanted {
                Supervised::Upstart => {
                    log::warn!("Upstart supervision requested, but UPSTART_JOB not found!")
                }
                Supervised::Systemd => log::warn!(
                    "Systemd supervision requested or auto-detected, but Broadloom can't notify it: NOTIFY_SOCKET not found!"
                ),
                Supervised::Auto | Supervised::No => {}
            }
        }
        found.unwrap_or(Self::None)
    }

    fn notify(&self, state: &str) {
        let Self::Systemd { socket } = self else { return };
        if let Err(error) = send(socket, state) {
            log::warn!("Can't notify systemd on {socket}: {error}");
        }
    }
}

fn send(socket: &str, state: &str) -> std::io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// Determines the supervisor of the process. Returns whether there is one: then the process stays in the foreground.
pub fn find(config: &Config) -> bool {
    let supervisor =
        SUPERVISOR.get_or_init(|| Supervisor::find(config.supervised, |name| std::env::var(name).ok()));
    *supervisor != Supervisor::None
}

/// The word for the supervisor in `INFO`.
pub fn word() -> &'static str {
    match SUPERVISOR.get() {
        None | Some(Supervisor::None) => "no",
        Some(Supervisor::Upstart) => "upstart",
        Some(Supervisor::Systemd { .. }) => "systemd",
    }
}

/// Reports that the server is starting.
pub fn starting() {
    match SUPERVISOR.get() {
        Some(Supervisor::Upstart) => {
            log::info!("Supervised by upstart, will stop to signal readiness.");
            if let Err(error) = os::process::stop_itself() {
                log::warn!("Can't stop for upstart: {error}");
            }
        }
        Some(supervisor @ Supervisor::Systemd { .. }) => {
            log::info!(
                "Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and TimeoutStopSec in your service unit."
            );
            supervisor.notify("STATUS=Broadloom is loading...\n");
        }
        None | Some(Supervisor::None) => {}
    }
}

/// Reports that the server accepts connections.
pub fn ready() {
    if let Some(supervisor) = SUPERVISOR.get() {
        supervisor.notify("STATUS=Ready to accept connections\nREADY=1\n");
    }
}

/// Reports that the server ends.
pub fn stopping() {
    if let Some(supervisor) = SUPERVISOR.get() {
        supervisor.notify("STOPPING=1\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrides_the_directive() {
        let nothing = |_: &str| None;
        let systemd = |name: &str| (name == "NOTIFY_SOCKET").then(|| "/run/notify".to_owned());
        let upstart = |name: &str| (name == "UPSTART_JOB").then(|| "job".to_owned());
        let by_systemd = Supervisor::Systemd { socket: "/run/notify".into() };
        assert_eq!(Supervisor::find(Supervised::No, systemd), Supervisor::None);
        assert_eq!(Supervisor::find(Supervised::Systemd, nothing), Supervisor::None);
        assert_eq!(Supervisor::find(Supervised::Systemd, systemd), by_systemd);
        assert_eq!(Supervisor::find(Supervised::Auto, systemd), by_systemd);
        assert_eq!(Supervisor::find(Supervised::Auto, upstart), Supervisor::Upstart);
        assert_eq!(Supervisor::find(Supervised::Upstart, systemd), Supervisor::None);
    }

    #[test]
    fn abstract_sockets_are_notified() {
        let name = format!("broadloom-supervisor-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let listener = UnixDatagram::bind_addr(&address).expect("a free name");
        Supervisor::Systemd { socket: format!("@{name}") }.notify("READY=1\n");
        let mut received = [0; 64];
        let size = listener.recv(&mut received).expect("a datagram arrives");
        assert_eq!(&received[..size], b"READY=1\n");
    }
}
