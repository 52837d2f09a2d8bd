//! One connection: the TLS handshake, then requests one after the other.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::Encryption;
use crate::places::Place;
use crate::response::{Body, respond};
use crate::site::Site;

/// The time for a handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// The time for the next request with its headers.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// The time without progress of a reply.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// The time of a connection, then it ends after the reply under way.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);
/// The time for the last reply.
const LAST_REPLY_TIME_MAX: Duration = Duration::from_secs(30);
/// The buffer for the headers of a request, in bytes.
const REQUEST_SIZE_MAX: usize = 16 << 10;

/// Serves the requests of a connection until it ends.
pub async fn serve(socket: TcpStream, site: Arc<Site>, place: Place) {
    // Without it a reply in several parts may wait for acknowledgements. A failure costs time only.
    let _ = socket.set_nodelay(true);
    let mut socket = TimeoutStream::new(socket);
    socket.set_write_timeout(Some(WRITE_TIME_MAX));
    let socket = Box::pin(socket);
    if site.encryption == Encryption::None {
        return serve_requests(socket, site, None, place).await;
    }
    let Some(certificates) = site.source.certificates() else { return };
    let acceptor = TlsAcceptor::from(certificates.server_config());
    match timeout(HANDSHAKE_TIME_MAX, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => serve_requests(stream, site, Some(certificates), place).await,
        Ok(Err(error)) => {
            log::debug!("A TLS handshake on the admin port failed: {error}");
            site.source.note_failed_handshake();
        }
        Err(_) => site.source.note_failed_handshake(),
    }
}

async fn serve_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    site: Arc<Site>,
    certificates: Option<Arc<tls::Context>>,
    place: Place,
) {
    let service = service_fn(|request| {
        place.note_request();
        let response = respond(&request, &site, certificates.as_ref());
        if matches!(&response, Ok(response) if matches!(response.body(), Body::Right(_))) {
            place.note_events();
        }
        async move { response }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIME_MAX)
            .max_buf_size(REQUEST_SIZE_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = timeout(CONNECTION_TIME_MAX, connection.as_mut()).await;
    if ended.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_REPLY_TIME_MAX, connection).await;
    }
}
