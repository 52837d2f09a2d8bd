//! The admin port: what the server reports about itself, over HTTP/1.1 by hyper, on the calling thread.
//!
//! | path | reply |
//! |---|---|
//! | `/`, and the files in `page/` | the dashboard |
//! | `/metrics` | all figures for Prometheus: OpenMetrics if the client accepts it, otherwise its text format |
//! | `/api/figures` | all figures as JSON |
//! | `/api/history` | the samples of the last hour as JSON, see [`recorder`] |
//! | `/api/live` | each new sample as a server-sent event |
//! | `/healthz` | 200 while the process runs |
//! | `/readyz` | 200 while the server can serve its data, otherwise 503 and a line for each reason |
//!
//! - Owns: the samples of the last hour, taken once a second; the connections of the port. At most [`CONNECTION_COUNT_MAX`] are
//!   open, and each ends after a time without a request, or without progress of a reply.
//! - Touches: its sockets, and the server through [`Source`] only.
//! - Never: reads data of clients, changes the server, or waits for one of its workers.
//! - Start reading at [`serve`].

mod access;
mod connection;
mod places;
mod recorder;
mod response;
mod site;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use tokio::net;
use tokio::runtime::Builder;

use places::Places;
pub use recorder::{Coarse, Sample, Series};
use site::Site;

/// Connections at a time. A further one ends another, see [`places`].
pub const CONNECTION_COUNT_MAX: usize = 64;

/// The pause after a failed accept, which usually lacks descriptors.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Connections that receive events at a time.
const EVENTS_COUNT_MAX: usize = 16;

/// What the server reports. Called on the thread of [`serve`].
pub trait Source: Send + Sync {
    /// All figures for Prometheus.
    fn metrics(&self, format: MetricsFormat) -> String;
    /// All figures as a JSON object.
    fn figures(&self) -> String;
    /// What samples contain.
    fn series(&self) -> &'static [Series];
    /// Takes a sample; called once a second.
    fn sample(&self) -> Sample;
    /// The reasons why the server is not ready; empty if it is.
    fn obstacles(&self) -> Vec<Obstacle>;
    /// The password that requests need; `None`: none. The states need none.
    fn password(&self) -> Option<Vec<u8>>;
    /// The certificates of the port; `None`: connections are not encrypted.
    fn certificates(&self) -> Option<Arc<tls::Context>>;
    /// Counts a request without the password.
    fn note_denial(&self);
    /// Counts a TLS handshake that failed.
    fn note_failed_handshake(&self);
}

/// A reason why the server is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// For everybody.
    pub text: &'static str,
    /// Follows the text, for those who may see all figures.
    pub details: String,
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
        let places = Arc::new(Places::default());
        let site = Arc::new(Site::new(source, encryption));
        tokio::spawn(Arc::clone(&site).record());
        let mut accepting = Vec::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = net::TcpListener::from_std(listener)?;
            accepting.push(tokio::spawn(accept(listener, Arc::clone(&places), Arc::clone(&site))));
        }
        for task in accepting {
            let _ = task.await;
        }
        Ok(())
    })
}

async fn accept(listener: net::TcpListener, places: Arc<Places>, site: Arc<Site>) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let place = places.reserve();
                let number = place.number();
                let task = tokio::spawn(connection::serve(socket, Arc::clone(&site), place));
                // The runtime has one thread: the task runs after this one waits.
                places.start(number, task.abort_handle(), CONNECTION_COUNT_MAX);
                // Else a burst of connections would end each other before the first request is read.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                log::debug!("The admin port can't accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
