//! The listeners: TCP addresses and the unix socket. The first worker listens; accepted sockets go to the
//! worker with the fewest connections.
//!
//! [`ListenSockets`] keeps a handle of each listener, so that any worker can change the addresses, and accept connections
//! while the first worker is in a long turn. A worker that changes the addresses binds the new ones itself, and sends the
//! first worker the listeners to add and to close.
//!
//! The listeners of the admin port have the same kinds of addresses; a thread of its own accepts there.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::TryLockError;

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

/// A handle of each listener, for changes of the addresses and for workers that stand in for the first one.
#[derive(Default)]
pub struct ListenSockets {
    open: Mutex<Vec<ListenSocket>>,
    /// The listener of the unix socket, and its path.
    unix: Mutex<Option<(Listener, String)>>,
}

/// A TCP address with its listener.
struct ListenSocket {
    endpoint: Endpoint,
    token: ListenerToken,
    listener: Listener,
}

/// A configured address and port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    /// As configured.
    address: String,
    port: u16,
    is_encrypted: bool,
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
    is_encrypted: bool,
}

/// A listener could not be created.
#[derive(Debug)]
pub struct ListenError {
    /// The address or path.
    pub address: String,
    /// The port; `None`: `address` is the path of the unix socket.
    pub port: Option<u16>,
    /// `tcp`, `tls`, `unix` or `admin`.
    pub kind: &'static str,
    /// The error of the kernel.
    pub source: io::Error,
}

const UNIX_TOKEN: ListenerToken = ListenerToken(u32::MAX);

/// Set in the tokens of listeners for TLS.
const ENCRYPTED: u32 = 1 << 30;

/// Returns the token of a TCP listener.
fn token_of(number: u32, endpoint: &Endpoint) -> ListenerToken {
    ListenerToken(if endpoint.is_encrypted { number | ENCRYPTED } else { number })
}

fn number_of(token: ListenerToken) -> u32 {
    token.0 & !ENCRYPTED
}

impl ListenSockets {
    /// Binds the configured addresses. An address marked optional (`-::1`) may be missing on this machine.
    pub fn bind(&self, config: &Config) -> Result<Listeners, ListenError> {
        let mut listeners = Listeners::default();
        let mut listen_sockets = Vec::new();
        for endpoint in endpoints(config) {
            if let Some((listener, handle)) = bind_tcp(&endpoint, config)? {
                let token = token_of(listen_sockets.len() as u32, &endpoint);
                listen_sockets.push(ListenSocket { endpoint, token, listener: handle });
                listeners.waiting.push((listener, token));
            }
        }
        if !config.unixsocket.is_empty() {
            let mode = (config.unixsocketperm != 0).then_some(config.unixsocketperm);
            let path = Path::new(&config.unixsocket);
            let listener = Listener::unix(path, mode, config.tcp_backlog)
                .map_err(|error| io::Error::new(error.kind(), format!("bind: {error}")))
                .and_then(|listener| give_to_group(path, &config.unixsocketgroup).map(|()| listener))
                .map_err(|source| ListenError {
                    address: config.unixsocket.clone(),
                    port: None,
                    kind: "unix",
                    source,
                })?;
            if let Ok(handle) = listener.try_clone() {
                let mut unix = self.unix.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                *unix = Some((handle, config.unixsocket.clone()));
            }
            listeners.unix_path = Some(config.unixsocket.clone());
            listeners.waiting.push((listener, UNIX_TOKEN));
        }
        *self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = listen_sockets;
        Ok(listeners)
    }
}

impl ListenSockets {
    /// Closes the handles. The addresses are free when the first worker has ended, too.
    pub fn close(&self) {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        *self.unix.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    /// Accepts connections that wait for the first worker, at most so many of each listener.
    #[must_use]
    pub fn accept_waiting(&self, count_max: usize) -> Vec<(Socket, Origin)> {
        let open = match self.open.try_lock() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The addresses are being changed, which may take long: the next look accepts.
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        let mut accepted = Vec::new();
        for open in &*open {
            let waiting = std::iter::from_fn(|| open.listener.accept_waiting()).take(count_max);
            let is_encrypted = open.endpoint.is_encrypted;
            accepted.extend(
                waiting.map(|(socket, peer)| (socket, Origin { peer, unix_path: None, is_encrypted })),
            );
        }
        let unix = self.unix.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((listener, path)) = &*unix {
            let origin = |peer| Origin { peer, unix_path: Some(path.clone()), is_encrypted: false };
            let waiting = std::iter::from_fn(|| listener.accept_waiting()).take(count_max);
            accepted.extend(waiting.map(|(socket, peer)| (socket, origin(peer))));
        }
        accepted
    }

    /// Switches to the configured addresses; on an error, keeps the previous ones. Also returns the change for the
    /// first worker: after an error, it may have to replace listeners.
    pub fn relisten(&self, config: &Config) -> (Relisten, Result<(), RelistenError>) {
        let mut open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let wanted = endpoints(config);
        let is_kept = |socket: &ListenSocket| wanted.contains(&socket.endpoint);
        let missing: Vec<&Endpoint> = wanted
            .iter()
            .filter(|endpoint| !open.iter().any(|socket| socket.endpoint == **endpoint))
            .collect();
        let mut next_number = open.iter().map(|socket| number_of(socket.token) + 1).max().unwrap_or(0);
        let bind_missing =
            || missing.iter().map(|endpoint| Ok((*endpoint, bind_tcp(endpoint, config)?))).collect();
        let mut bound: Result<Vec<_>, ListenError> = bind_missing();
        let is_removed = |socket: &&ListenSocket| !is_kept(socket);
        let is_wanted = |port: u16| wanted.iter().any(|endpoint| endpoint.port == port);
        if bound.is_err() && open.iter().filter(is_removed).any(|socket| is_wanted(socket.endpoint.port)) {
            // An address to be closed may cover a new one.
            open.iter().filter(is_removed).for_each(|socket| socket.listener.shut_down());
            bound = bind_missing();
        }
        let mut change = Relisten::default();
        let result = match bound {
            Ok(bound) => {
                change.closed = open.iter().filter(is_removed).map(|socket| socket.token).collect();
                // At once, so that the next change can bind the port: the first worker closes the listeners later.
                open.iter().filter(is_removed).for_each(|socket| socket.listener.shut_down());
                open.retain(is_kept);
                for (endpoint, bound) in bound {
                    let Some((listener, handle)) = bound else { continue };
                    let token = token_of(next_number, endpoint);
                    next_number += 1;
                    open.push(ListenSocket { endpoint: endpoint.clone(), token, listener: handle });
                    change.opened.push((listener, token));
                }
                Ok(())
            }
            Err(error) => {
                log::warn!("Could not listen on {}: {}", error.address, error.source);
                for socket in open.iter_mut().filter(|socket| socket.listener.is_shut_down()) {
                    change.closed.push(socket.token);
                    socket.token = token_of(next_number, &socket.endpoint);
                    next_number += 1;
                    if let Ok(Some((listener, handle))) = bind_endpoint(&socket.endpoint, config) {
                        socket.listener = handle;
                        change.opened.push((listener, socket.token));
                    }
                }
                // What can't be restored is not listened on, and the next change binds it again.
                open.retain(|socket| !socket.listener.is_shut_down());
                Err(RelistenError)
            }
        };
        (change, result)
    }
}

/// Listens on the addresses of the admin port, if there is one.
///
/// # Errors
/// The first address that can't be bound.
pub fn bind_admin(config: &Config) -> Result<Vec<TcpListener>, ListenError> {
    let port = config.admin_port;
    let addresses = config.admin_bind.0.iter().filter(|address| port != 0 && !address.is_empty());
    let mut listeners = Vec::new();
    for address in addresses {
        let endpoint = Endpoint { address: address.clone(), port, is_encrypted: config.admin_tls };
        let bound = bind_tcp(&endpoint, config).map_err(|error| ListenError { kind: "admin", ..error })?;
        listeners.extend(bound.map(|(listener, _)| TcpListener::from(OwnedFd::from(listener))));
    }
    Ok(listeners)
}

/// The TCP endpoints of a configuration.
fn endpoints(config: &Config) -> Vec<Endpoint> {
    let ports = [(config.port, false), (config.tls_port, true)];
    let ports = ports.into_iter().filter(|(port, _)| *port != 0);
    let addresses = || config.bind.0.iter().filter(|address| !address.is_empty());
    let of_port = |(port, is_encrypted)| {
        addresses().map(move |address| Endpoint { address: address.clone(), port, is_encrypted })
    };
    ports.flat_map(of_port).collect()
}

fn failure(endpoint: &Endpoint, source: io::Error) -> ListenError {
    let Endpoint { address, port, is_encrypted } = endpoint;
    ListenError {
        address: format!("{address}:{port}"),
        port: Some(*port),
        kind: if *is_encrypted { "tls" } else { "tcp" },
        source,
    }
}

/// Makes a group the owner of a path. An empty `group` changes nothing.
fn give_to_group(path: &Path, group: &str) -> io::Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    let id = os::process::group_id(group)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group '{group}'")))?;
    std::os::unix::fs::chown(path, None, Some(id))
}

/// Listens on an address, and returns the listener with a second handle of it; `None`: an optional address that this
/// machine does not have.
fn bind_tcp(endpoint: &Endpoint, config: &Config) -> Result<Option<(Listener, Listener)>, ListenError> {
    bind_endpoint(endpoint, config).map_err(|source| failure(endpoint, source))
}

fn bind_endpoint(endpoint: &Endpoint, config: &Config) -> io::Result<Option<(Listener, Listener)>> {
    let Endpoint { address, port, .. } = endpoint;
    let (name, optional) = match address.strip_prefix('-') {
        Some(name) => (name, true),
        None => (&address[..], false),
    };
    let name = match name {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name,
    };
    let bound = (name, *port).to_socket_addrs().and_then(|resolved| bind_first(resolved.collect(), config));
    match bound {
        Ok(handles) => Ok(Some(handles)),
        // Only a missing address is optional. A name that does not exist or a port in use is an error on any address.
        Err(error)
            if optional && error.kind() == io::ErrorKind::AddrNotAvailable
                || Listener::is_of_unsupported_family(&error) =>
        {
            log::info!("Not listening on the address {name}: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Listens on the first of the addresses of a name that this machine has, and returns the listener with a second handle of
/// it. Those of IPv4 come first: Valkey uses no others for names.
fn bind_first(mut addresses: Vec<SocketAddr>, config: &Config) -> io::Result<(Listener, Listener)> {
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match bind_address(address, config) {
            Ok(handles) => return Ok(handles),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn bind_address(address: SocketAddr, config: &Config) -> io::Result<(Listener, Listener)> {
    let listener = Listener::tcp(address, config.tcp_backlog, ReusePort::No)?;
    if config.socket_mark_id > 0
        && let Err(error) = listener.set_mark(config.socket_mark_id)
    {
        log::warn!("Can't set socket-mark-id on {address}: {error}");
    }
    let handle = listener.try_clone()?;
    Ok((listener, handle))
}

impl Listeners {
    /// Number of listeners.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.tokens.len()
    }

    /// The kinds for the log line about their readiness: `tcp`, `unix`, `tls`.
    #[must_use]
    pub fn ready_texts(&self) -> Vec<&'static str> {
        let kinds = self.waiting.iter().map(|(_, token)| kind_of(*token));
        ["tcp", "unix", "tls"].into_iter().filter(|kind| kinds.clone().any(|of| of == *kind)).collect()
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
            self.tokens.retain(|other| *other != token);
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
        Origin { peer, unix_path, is_encrypted: kind_of(listener) == "tls" }
    }
}

fn kind_of(token: ListenerToken) -> &'static str {
    match token {
        UNIX_TOKEN => "unix",
        ListenerToken(bits) if bits & ENCRYPTED != 0 => "tls",
        _ => "tcp",
    }
}

impl Origin {
    /// Whether the connection arrived on the unix socket.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        self.unix_path.is_some()
    }

    /// Whether the connection arrived on the TLS port.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_name_is_tried() {
        let config = Config::default();
        // An address for documentation, which no machine has.
        let missing: SocketAddr = "192.0.2.1:0".parse().unwrap();
        let present: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (listener, _) = bind_first(vec![missing, present], &config).unwrap();
        let bound = listener.local_address().unwrap();
        assert_eq!(bound.tcp().unwrap().ip(), present.ip());
        let error = bind_first(vec![missing], &config).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
        // A port in use on one address is not replaced by another address.
        let error = bind_first(vec![bound.tcp().unwrap(), present], &config).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
