//! The admin port: what the server reports about itself, over HTTP/1.1 by hyper, on the calling thread.
//!
//! | path | reply |
//! |---|---|
//! | `/` | a page with links to the others |
//! | `/metrics` | all figures for Prometheus: OpenMetrics if the client accepts it, otherwise its text format |
//! | `/api/figures` | all figures as JSON |
//! | `/healthz` | 200 while the process runs |
//! | `/readyz` | 200 while the server can serve its data, otherwise 503 and a line for each reason |
//!
//! - Owns: the connections of the port; each takes one of [`CONNECTION_COUNT_MAX`] places, and ends after a fixed time without
//!   a request, and in the middle of a reply that is not read.
//! - Touches: its sockets, and the server through [`Source`] only.
//! - Never: reads data of clients, changes the server, or waits for one of its workers.
//! - Start reading at [`serve`].

mod access;
mod connection;
mod response;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use tokio::net;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

/// Connections at a time. Further ones wait until one ends.
pub const CONNECTION_COUNT_MAX: usize = 64;

/// The pause after a failed accept, which usually lacks descriptors.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// What the server reports. Called on the thread of [`serve`].
pub trait Source: Send + Sync {
    /// All figures for Prometheus.
    fn metrics(&self, format: MetricsFormat) -> String;
    /// All figures as a JSON object.
    fn figures(&self) -> String;
    /// The reasons why the server can't serve its data, one line each; empty if it can.
    fn obstacles(&self) -> Vec<String>;
    /// The password that requests need; `None`: none. The states need none.
    fn password(&self) -> Option<Vec<u8>>;
    /// The certificates of the port; `None`: connections are not encrypted.
    fn certificates(&self) -> Option<Arc<tls::Context>>;
}

/// A form of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// They are not.
    None,
    /// By [`Source::certificates`]; without any, connections are refused.
    Tls,
}

/// Serves the listeners. Does not return unless the event loop can't be created.
///
/// # Errors
/// The operating system refuses an event loop or a listener in it.
pub fn serve(
    listeners: Vec<TcpListener>,
    encryption: Encryption,
    source: &'static dyn Source,
) -> io::Result<()> {
    Builder::new_current_thread().enable_io().enable_time().build()?.block_on(async {
        let places = Arc::new(Semaphore::new(CONNECTION_COUNT_MAX));
        let mut accepting = Vec::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = net::TcpListener::from_std(listener)?;
            accepting.push(tokio::spawn(accept(listener, Arc::clone(&places), encryption, source)));
        }
        for task in accepting {
            let _ = task.await;
        }
        Ok(())
    })
}

async fn accept(
    listener: net::TcpListener,
    places: Arc<Semaphore>,
    encryption: Encryption,
    source: &'static dyn Source,
) {
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, _)) => {
                tokio::spawn(async move {
                    connection::serve(socket, encryption, source).await;
                    drop(place);
                });
            }
            Err(error) => {
                log::debug!("The admin port can't accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
