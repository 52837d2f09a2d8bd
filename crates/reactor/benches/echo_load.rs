//! Measures the echo server on both backends: processor time per request, in interleaved rounds, medians.
//!
//! `cargo bench --profile quick -p reactor --bench echo_load -- [rounds] [milliseconds] [connections]`
//!
//! One thread of this process generates the load, always on epoll, with closed-loop connections: each sends its
//! next pipeline after all replies to the previous one.

use std::error::Error;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reactor::echo::{EchoReport, run_echo};
use reactor::{BackendChoice, Event, Listener, Reactor, ReactorOptions, ReusePort, Socket};

const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n";
const REPLY_SIZE: usize = 5;
const PIPELINES: [usize; 3] = [1, 16, 100];
const CHOICES: [(BackendChoice, &str); 2] =
    [(BackendChoice::Epoll, "epoll"), (BackendChoice::Uring, "io_uring")];

fn main() -> Result<(), Box<dyn Error>> {
    // Without the argument that Cargo adds.
    let own = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let mut arguments = own.map(|argument| argument.parse::<u64>());
    let round_count = arguments.next().transpose()?.unwrap_or(5);
    let duration = Duration::from_millis(arguments.next().transpose()?.unwrap_or(1_000));
    let connection_count = arguments.next().transpose()?.unwrap_or(50);
    println!(
        "{connection_count} connections; server's processor time per request in microseconds (requests per second)"
    );
    for pipeline in PIPELINES {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..round_count {
            for ((choice, _), figures) in CHOICES.iter().zip(&mut figures) {
                figures.push(measure(*choice, pipeline, connection_count, duration)?);
            }
        }
        let medians = figures.map(|mut figures| {
            figures.sort_by(|left, right| left.0.total_cmp(&right.0));
            figures[figures.len() / 2]
        });
        for ((_, name), (cpu_us, rate)) in CHOICES.iter().zip(&medians) {
            print!("pipeline {pipeline:>3} {name:<8} {cpu_us:.4} ({rate:.0})   ");
        }
        println!("io_uring/epoll {:.3}", medians[1].0 / medians[0].0);
    }
    Ok(())
}

/// Returns microseconds of the server's processor time per request, and requests per second.
fn measure(
    choice: BackendChoice,
    pipeline: usize,
    connection_count: u64,
    duration: Duration,
) -> Result<(f64, f64), Box<dyn Error>> {
    let listener = Listener::tcp("127.0.0.1:0".parse()?, 511, ReusePort::No)?;
    let address = listener.local_address()?.tcp().ok_or("no TCP address")?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The name identifies the thread in perf.
        let thread = std::thread::Builder::new().name(format!("{choice:?}-{pipeline}"));
        let server = thread.spawn_scoped(scope, || run_echo(listener, 1, choice, &stop))?;
        let start = Instant::now();
        let loaded = load(address, pipeline, connection_count, duration);
        let seconds = start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let EchoReport { request_count, cpu_time } = server.join().map_err(|_| "the server panicked")??;
        loaded?;
        let count = request_count as f64;
        Ok((cpu_time.as_secs_f64() * 1e6 / count, count / seconds))
    })
}

fn load(
    address: SocketAddr,
    pipeline: usize,
    connection_count: u64,
    duration: Duration,
) -> Result<(), Box<dyn Error>> {
    let (mut reactor, _waker) = Reactor::new(BackendChoice::Epoll, ReactorOptions::default())?;
    let requests = REQUEST.repeat(pipeline);
    let mut missing = Vec::new();
    for token in 0..connection_count {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let connection = reactor.adopt(Socket::try_from(stream)?, token);
        reactor.send(connection, requests.clone());
        missing.push(pipeline * REPLY_SIZE);
    }
    let mut spare = Vec::new();
    let end = Instant::now() + duration;
    while Instant::now() < end {
        reactor.wait(Some(duration))?;
        while let Some(event) = reactor.next_event() {
            match event {
                Event::Received { connection, token, data } => {
                    let missing = &mut missing[token as usize];
                    *missing -= data.len();
                    if *missing == 0 {
                        *missing = pipeline * REPLY_SIZE;
                        let mut buffer: Vec<u8> = spare.pop().unwrap_or_default();
                        buffer.extend_from_slice(&requests);
                        reactor.send(connection, buffer);
                    }
                }
                Event::Sent { buffer, .. } => spare.push(buffer),
                other => return Err(format!("unexpected {other:?}").into()),
            }
        }
    }
    Ok(())
}
