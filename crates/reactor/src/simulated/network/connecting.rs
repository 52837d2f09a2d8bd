//! Connecting to listeners: the clients of a simulation at once, sockets of the process after the delay of a round trip.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::super::socket::now_ns;
use super::{BACKLOG, Descriptor, End, Network, Notice, State, Watched};

impl Network {
    /// Connects a client. Returns its end of the connection.
    pub(in crate::simulated) fn connect(&self, to: SocketAddr, now_ns: u64) -> io::Result<usize> {
        self.lock().connect(to, now_ns).map(|(client, _)| client)
    }

    /// Starts to connect a socket of the process: it is connected, or refused, after the delay of a round trip.
    pub(crate) fn begin_connect(self: &Arc<Self>, to: SocketAddr) -> io::Result<Descriptor> {
        let now_ns = now_ns();
        let mut state = self.lock();
        let end = state.ends.len();
        let number = state.open(Watched::End(end))?;
        let (arrives_at, connect_error) = match state.connect(to, now_ns) {
            Ok((_, at)) => (at, None),
            Err(error) => {
                let (_, peer) = state.add_connection(to);
                state.ends[peer].is_closed = true;
                let is_full = error.kind() == io::ErrorKind::TimedOut;
                let error = if is_full { libc::ETIMEDOUT } else { libc::ECONNREFUSED };
                (state.arrival(now_ns), Some(error))
            }
        };
        let connected_at = state.arrival(arrives_at);
        state.ends[end].connected_at = Some(connected_at);
        state.ends[end].connect_error = connect_error;
        Ok(Descriptor::new(Arc::clone(self), number))
    }
}

impl State {
    /// Connects to a listener. Returns the client's end, and when the connection arrives at the listener.
    fn connect(&mut self, to: SocketAddr, now_ns: u64) -> io::Result<(usize, u64)> {
        let Some(listener) = self.listener_of(to) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        if self.listeners[listener].queue.len() >= BACKLOG {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (client, server) = self.add_connection(to);
        let at = self.arrival(now_ns);
        let listener = &mut self.listeners[listener];
        let at = at.max(listener.queue.back().map_or(0, |(at, _)| *at));
        listener.queue.push_back((at, server));
        listener.notices.iter().for_each(Notice::give);
        Ok((client, at))
    }

    /// Creates the ends of a connection to an address: the client's, and the server's.
    fn add_connection(&mut self, to: SocketAddr) -> (usize, usize) {
        self.next_client_port = self.next_client_port.checked_add(1).unwrap_or(40_000);
        let from = SocketAddr::from(([127, 0, 0, 1], self.next_client_port));
        let client = self.ends.len();
        self.ends.push(End::new(from, client + 1));
        self.ends.push(End::new(to, client));
        (client, client + 1)
    }
}
