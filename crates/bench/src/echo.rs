//! `--echo`: the echo server, on our own reactor, in the foreground until Ctrl-C.

use std::net::{Ipv4Addr, SocketAddr};

use reactor::echo::run_echo;
use reactor::{BackendChoice, Listener, ReusePort};
use tool::interrupt;

use crate::error::BenchError;

/// Maximum number of connections in the accept queue.
const BACKLOG: u32 = 1_024;

/// Serves on this loopback port, or on a free one if it is 0. Prints the request count and CPU cost at the
/// end.
pub fn serve(port: u16, thread_count: usize, io_backend: &str) -> Result<(), BenchError> {
    let choice = match io_backend {
        "auto" => BackendChoice::Auto,
        "io_uring" => BackendChoice::Uring,
        "epoll" => BackendChoice::Epoll,
        _ => {
            return Err(BenchError::usage(format!(
                "unknown backend '{io_backend}': auto, io_uring or epoll"
            )));
        }
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = Listener::tcp(address, BACKLOG, ReusePort::No)
        .map_err(BenchError::environment(format!("listening on {address}")))?;
    let address = listener.local_address().map_err(BenchError::environment("reading the port"))?;
    println!("replies +OK to every request on {address} with {thread_count} threads, until Ctrl-C");
    let report = run_echo(listener, thread_count, choice, interrupt::flag())?;
    let per_request = report.cpu_time.as_nanos() as f64 / report.request_count.max(1) as f64;
    println!("{} requests, {per_request:.0} ns of CPU time per request", report.request_count);
    Ok(())
}
