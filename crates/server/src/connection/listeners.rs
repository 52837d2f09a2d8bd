//! The listeners: TCP addresses and the unix socket. The first worker listens; accepted sockets go to the
//! worker with the fewest connections.
//!
//! [`ListenSockets`] keeps a handle of each TCP listener, so that any worker can change the addresses. It binds
//! the new ones itself, and sends the first worker the listeners to add and to close.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use config::Config;
use reactor::{Listener, ListenerToken, PeerAddress, Reactor, ReusePort, Socket};
use sync::Mutex;

/// The listeners of a worker; none except for the first.
#[derive(Default)]
pub struct Listeners {
    waiting: Vec<(Listener, ListenerToken)>,
    tokens: Vec<ListenerToken>,
    unix_path: Option<String>,
}

/// The TCP listeners, for changes.
#[derive(Default)]
pub struct ListenSockets {
    open: Mutex<Vec<ListenSocket>>,
}

/// A TCP address with its listener.
struct ListenSocket {
    /// As configured.
    address: String,
    port: u16,
    token: ListenerToken,
    listener: Listener,
}

/// A change of the first worker's listeners.
#[derive(Default)]
pub struct Relisten {
    opened: Vec<(Listener, ListenerToken)>,
    closed: Vec<ListenerToken>,
}

/// The configured addresses can't be listened on; the log has the reason.
#[derive(Debug)]
pub struct RelistenError;

/// The origin of a connection.
#[derive(Clone, Debug)]
pub struct Origin {
    peer: PeerAddress,
    unix_path: Option<String>,
}

/// A listener could not be created.
#[derive(Debug)]
pub struct ListenError {
    /// The address or path.
    pub address: String,
    /// The error of the kernel.
    pub source: io::Error,
}

const UNIX_TOKEN: ListenerToken = ListenerToken(u32::MAX);

impl ListenSockets {
    /// Binds the configured addresses. An address marked optional (`-::1`) may be missing on this machine.
    pub fn bind(&self, config: &Config) -> Result<Listeners, ListenError> {
        let mut listeners = Listeners::default();
        let mut listen_sockets = Vec::new();
        for address in addresses(config) {
            if let Some(listener) = bind_tcp(address, config)? {
                let token = ListenerToken(listen_sockets.len() as u32);
                let kept = listener.try_clone().map_err(|source| of(address, config, source))?;
                listen_sockets.push(ListenSocket {
                    address: address.clone(),
                    port: config.port,
                    token,
                    listener: kept,
                });
                listeners.waiting.push((listener, token));
            }
        }
        if !config.unixsocket.is_empty() {
            let mode = (config.unixsocketperm != 0).then_some(config.unixsocketperm);
            let path = Path::new(&config.unixsocket);
            let listener = Listener::unix(path, mode, config.tcp_backlog)
                .and_then(|listener| give_to_group(path, &config.unixsocketgroup).map(|()| listener))
                .map_err(|source| ListenError { address: config.unixsocket.clone(), source })?;
            listeners.unix_path = Some(config.unixsocket.clone());
            listeners.waiting.push((listener, UNIX_TOKEN));
        }
        *self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = listen_sockets;
        Ok(listeners)
    }
}

impl ListenSockets {
    /// Switches to the configured addresses; on an error, keeps the previous ones. Also returns the change for the
    /// first worker: after an error, it may have to replace listeners.
    pub fn relisten(&self, config: &Config) -> (Relisten, Result<(), RelistenError>) {
        let mut open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let wanted = addresses(config);
        let stays = |door: &ListenSocket| {
            door.port == config.port && wanted.iter().any(|wanted| **wanted == door.address)
        };
        let missing: Vec<&String> = wanted
            .iter()
            .copied()
            .filter(|address| !open.iter().any(|door| stays(door) && door.address == **address))
            .collect();
        let mut next_token = open.iter().map(|door| door.token.0 + 1).max().unwrap_or(0);
        let bind_missing =
            || missing.iter().map(|address| Ok((*address, bind_tcp(address, config)?))).collect();
        let mut bound: Result<Vec<_>, ListenError> = bind_missing();
        let leaves = |door: &&ListenSocket| !stays(door);
        if bound.is_err() && open.iter().filter(leaves).any(|door| door.port == config.port) {
            // An address to be closed may cover a new one.
            open.iter().filter(leaves).for_each(|door| door.listener.hang_up());
            bound = bind_missing();
        }
        let mut change = Relisten::default();
        let result = match bound {
            Ok(bound) => {
                change.closed = open.iter().filter(leaves).map(|door| door.token).collect();
                open.retain(stays);
                for (address, listener) in bound {
                    let Some(listener) = listener else { continue };
                    let Ok(kept) = listener.try_clone() else {
                        return (Relisten::default(), Err(RelistenError));
                    };
                    let token = ListenerToken(next_token);
                    next_token += 1;
                    open.push(ListenSocket {
                        address: address.clone(),
                        port: config.port,
                        token,
                        listener: kept,
                    });
                    change.opened.push((listener, token));
                }
                Ok(())
            }
            Err(error) => {
                log::warn!("Could not listen on {}: {}", error.address, error.source);
                for door in open.iter_mut().filter(|door| door.listener.is_hung_up()) {
                    change.closed.push(door.token);
                    door.token = ListenerToken(next_token);
                    next_token += 1;
                    let Ok(Some(again)) = bind_address(&door.address, door.port, config) else { continue };
                    if let Ok(kept) = again.try_clone() {
                        door.listener = kept;
                        change.opened.push((again, door.token));
                    }
                }
                Err(RelistenError)
            }
        };
        (change, result)
    }
}

fn addresses(config: &Config) -> Vec<&String> {
    if config.port == 0 { Vec::new() } else { config.bind.0.iter().filter(|one| !one.is_empty()).collect() }
}

fn of(address: &str, config: &Config, source: io::Error) -> ListenError {
    ListenError { address: format!("{address}:{}", config.port), source }
}

/// Makes a group the owner of a path; an empty one changes nothing.
fn give_to_group(path: &Path, group: &str) -> io::Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    let id = os::process::group_id(group)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group '{group}'")))?;
    std::os::unix::fs::chown(path, None, Some(id))
}

/// Listens on an address; `None`: an optional address that this machine does not have.
fn bind_tcp(address: &str, config: &Config) -> Result<Option<Listener>, ListenError> {
    bind_address(address, config.port, config).map_err(|source| of(address, config, source))
}

fn bind_address(address: &str, port: u16, config: &Config) -> io::Result<Option<Listener>> {
    let (name, optional) = match address.strip_prefix('-') {
        Some(name) => (name, true),
        None => (address, false),
    };
    let name = match name {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name,
    };
    let bound = (name, port).to_socket_addrs().and_then(|mut resolved| {
        let address: SocketAddr = resolved.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let listener = Listener::tcp(address, config.tcp_backlog, ReusePort::No)?;
        if config.socket_mark_id > 0
            && let Err(error) = listener.set_mark(config.socket_mark_id)
        {
            log::warn!("Can't set socket-mark-id on {address}: {error}");
        }
        Ok(listener)
    });
    match bound {
        Ok(listener) => Ok(Some(listener)),
        // Only a missing address is optional: a port in use is an error on any address.
        Err(error) if optional && error.kind() != io::ErrorKind::AddrInUse => {
            log::debug!("Not listening on optional address {name}: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Listeners {
    /// Number of listeners.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.tokens.len()
    }

    /// The kinds for the log line about their readiness: `tcp`, `unix`.
    #[must_use]
    pub fn ready_texts(&self) -> Vec<&'static str> {
        let is_unix = |(_, token): &&(Listener, ListenerToken)| *token == UNIX_TOKEN;
        let tcp = self.waiting.iter().find(|waiting| !is_unix(waiting)).map(|_| "tcp");
        let unix = self.waiting.iter().find(is_unix).map(|_| "unix");
        tcp.into_iter().chain(unix).collect()
    }

    /// Begins to accept in the calling worker's reactor.
    pub fn listen(&mut self, reactor: &mut Reactor) {
        for (listener, token) in self.waiting.drain(..) {
            match reactor.listen(listener, token) {
                Ok(()) => self.tokens.push(token),
                Err(error) => log::warn!("Can't accept connections on a listener: {error}"),
            }
        }
    }

    /// Adds the new listeners, and closes the removed ones.
    pub fn change(&mut self, change: Relisten, reactor: &mut Reactor) {
        for token in change.closed {
            reactor.stop_listening(token);
            self.tokens.retain(|kept| *kept != token);
        }
        self.waiting.extend(change.opened);
        self.listen(reactor);
    }

    /// Stops accepting.
    pub fn close(&mut self, reactor: &mut Reactor) {
        for token in self.tokens.drain(..) {
            reactor.stop_listening(token);
        }
    }

    /// The origin of a connection that this listener accepted.
    #[must_use]
    pub fn origin(&self, listener: ListenerToken, peer: PeerAddress) -> Origin {
        let unix_path = if listener == UNIX_TOKEN { self.unix_path.clone() } else { None };
        Origin { peer, unix_path }
    }
}

impl Origin {
    /// Whether the connection came by the unix socket.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        self.unix_path.is_some()
    }

    /// Whether the connection came from this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.peer.tcp().is_none_or(|address| match address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        })
    }

    /// Peer and local address as Redis prints them.
    #[must_use]
    pub fn addresses(&self, socket: &Socket) -> (String, String) {
        match &self.unix_path {
            Some(path) => (format!("{path}:0"), format!("{path}:0")),
            None => {
                let local = socket.local_address().map(|address| address.to_string()).unwrap_or_default();
                (self.peer.to_string(), local)
            }
        }
    }
}
