//! One connection: the TLS handshake, then requests one after the other.

use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::response::respond;
use crate::{Encryption, Source};

/// The time for a handshake, and for the next request with its headers.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// The time of a connection, then it ends after the reply under way.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);
/// The time for the last reply to be read.
const LAST_REPLY_TIME_MAX: Duration = Duration::from_secs(30);
/// The buffer for the headers of a request, in bytes.
const REQUEST_SIZE_MAX: usize = 16 << 10;

/// Serves the requests of a connection until it ends.
pub async fn serve(socket: TcpStream, encryption: Encryption, source: &'static dyn Source) {
    if encryption == Encryption::None {
        return serve_requests(socket, source).await;
    }
    let Some(certificates) = source.certificates() else { return };
    let acceptor = TlsAcceptor::from(certificates.server_config());
    match timeout(REQUEST_TIME_MAX, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => serve_requests(stream, source).await,
        Ok(Err(error)) => log::debug!("A TLS handshake on the admin port failed: {error}"),
        Err(_) => log::debug!("A TLS handshake on the admin port took too long"),
    }
}

async fn serve_requests(stream: impl AsyncRead + AsyncWrite + Unpin, source: &'static dyn Source) {
    let service = service_fn(|request| async move { respond(&request, source) });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIME_MAX)
            .max_buf_size(REQUEST_SIZE_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    // Without a limit a client that reads no reply would keep its place.
    let ended = timeout(CONNECTION_TIME_MAX, connection.as_mut()).await;
    if ended.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_REPLY_TIME_MAX, connection).await;
    }
}
