//! A client's connection in the simulated network: blocking, in virtual time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sync::simulation;

use super::network::Readiness;
use super::socket::now_ns;
use super::{Network, Notice, Watched};

/// A client's end of a connection. Closed when dropped.
pub struct Peer {
    network: Arc<Network>,
    end: usize,
    notice: Notice,
}

impl Peer {
    /// Connects to a listener of the caller's simulation.
    ///
    /// # Errors
    /// There is no listener, or its backlog is full.
    ///
    /// # Panics
    /// The caller belongs to no simulation with a network.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let network = Network::current().expect("the thread belongs to a simulation with a network");
        let end = network.connect(address, now_ns())?;
        let notice = Notice::default();
        network.watch(Watched::End(end), &notice);
        Ok(Self { network, end, notice })
    }

    /// Writes all bytes, blocking as needed.
    ///
    /// # Errors
    /// The connection is reset, or there is no room until the deadline in microseconds of the monotonic clock.
    pub fn write_all(&mut self, mut bytes: &[u8], deadline_us: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            self.notice.take();
            match self.network.write(self.end, bytes, now_ns()) {
                Ok(size) => bytes = &bytes[size..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Readiness::Unknown, deadline_us)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads arrived data, at least one byte; 0 at end of file.
    ///
    /// # Errors
    /// The connection is reset, or no data arrives until the deadline in microseconds of the monotonic clock.
    pub fn read(&mut self, buffer: &mut [u8], deadline_us: u64) -> io::Result<usize> {
        loop {
            self.notice.take();
            match self.network.read(self.end, buffer, now_ns()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let readiness = self.network.read_readiness(self.end, now_ns());
                    self.wait(readiness, deadline_us)?;
                }
                result => return result,
            }
        }
    }

    /// Half-closes; the server reads end of file.
    pub fn shut_write(&mut self) {
        self.network.shut_write(self.end, now_ns());
    }

    /// Ends the connection so that the server sees a reset.
    pub fn reset(self) {
        self.network.close_end(self.end, true, now_ns());
    }

    /// Blocks until a change, or until the time in `readiness`.
    fn wait(&self, readiness: Readiness, deadline_us: u64) -> io::Result<()> {
        let at_us = match readiness {
            Readiness::Now => return Ok(()),
            Readiness::At(at_ns) => at_ns.div_ceil(1000),
            Readiness::Unknown => u64::MAX,
        };
        let notice = self.notice.clone();
        let is_noticed = simulation::wait_until(Some(at_us.min(deadline_us)), move || notice.is_given());
        if !is_noticed && at_us > deadline_us {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.network.close_end(self.end, false, now_ns());
    }
}
