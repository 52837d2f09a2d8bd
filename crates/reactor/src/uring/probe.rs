//! A functional probe of the required operations: kernels and sandboxes reject single operations, and announced
//! support may still fail. Each reactor runs it: a sandbox may apply to single threads.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::request::{Completion, Operation, Request};
use super::ring::Ring;
use crate::receive_buffer::buffer_ring::BufferRing;
use crate::sys;

/// Timeout for an operation that completes at once.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The send buffer size that the probe requests, and a send size well above it. Both are small because the
/// memory is charged, and connections may already exist.
const SEND_BUFFER_SIZE: i32 = 8 << 10;
const LARGE_SIZE: usize = 64 << 10;

const PROBE_RECEIVE: u64 = 1;
const PROBE_SEND: u64 = 2;
const PROBE_LARGE_SEND: u64 = 3;
const PROBE_CANCEL: u64 = 4;

type Failure = (&'static str, io::Error);

/// Receives, sends and cancels on a socket pair. Leaves no request in flight and no buffer taken.
pub(super) fn probe(ring: &mut Ring, buffers: &BufferRing) -> Result<(), Failure> {
    let (near, mut far) = UnixStream::pair().map_err(|error| ("socketpair", error))?;
    probe_receive(ring, buffers, &near, &mut far).map_err(|error| ("multishot receive", error))?;
    probe_sends(ring, near, far).map_err(|error| ("quiet send", error))
}

/// Checks that a multishot receive takes two messages into provided buffers, and can be cancelled.
fn probe_receive(
    ring: &mut Ring,
    buffers: &BufferRing,
    near: &UnixStream,
    far: &mut UnixStream,
) -> io::Result<()> {
    let request = Request::new(PROBE_RECEIVE, Operation::Receive { fd: near.as_raw_fd() });
    // SAFETY: (1) it contains no pointers; buffers come from the group.
    unsafe { ring.push(&request)? };
    for _ in 0..2 {
        ring.enter(0, None)?;
        far.write_all(b"probe")?;
        let completion = next_completion(ring)?;
        let buffer = completion.buffer();
        if let Some(buffer) = buffer {
            // SAFETY: (1) the completion of a receive names it.
            unsafe { buffers.take(buffer) };
            // SAFETY: (1) taken above, and not read.
            unsafe { buffers.give_back(buffer) };
        }
        expect(completion.result == 5 && buffer.is_some() && completion.has_more(), &completion)?;
    }
    let cancel = Request::new(PROBE_CANCEL, Operation::Cancel { user_data: PROBE_RECEIVE }).quiet();
    // SAFETY: (1) it contains no pointers.
    unsafe { ring.push(&cancel)? };
    let completion = next_completion(ring)?;
    let is_end = completion.user_data == PROBE_RECEIVE && !completion.has_more();
    expect(is_end && completion.result == -libc::ECANCELED, &completion)
}

/// Checks that a successful send posts no completion, and that a partial send posts the size sent.
fn probe_sends(ring: &mut Ring, near: UnixStream, mut far: UnixStream) -> io::Result<()> {
    sys::set_option(near.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER_SIZE)?;
    let large = vec![0_u8; LARGE_SIZE];
    for (size, user_data) in [(5, PROBE_SEND), (LARGE_SIZE, PROBE_LARGE_SEND)] {
        let send = Operation::Send { fd: near.as_raw_fd(), start: large.as_ptr(), size: size as u32 };
        let send = Request::new(user_data, send).quiet();
        // SAFETY: (1) `large` outlives the request, which can't block.
        unsafe { ring.push(&send)? };
    }
    let completion = next_completion(ring)?;
    let sent_size = usize::try_from(completion.result).unwrap_or(0);
    let is_short = completion.user_data == PROBE_LARGE_SEND && (1..LARGE_SIZE).contains(&sent_size);
    drop(near);
    let arrived_size = io::copy(&mut far, &mut io::sink())?;
    expect(is_short && arrived_size == (5 + sent_size) as u64, &completion)
}

fn next_completion(ring: &mut Ring) -> io::Result<Completion> {
    let mut completions = Vec::new();
    ring.enter(1, Some(PROBE_TIMEOUT))?;
    ring.take_completions(&mut completions)?;
    if completions.len() > 1 {
        return Err(io::Error::other("more completions than expected"));
    }
    completions.pop().ok_or_else(|| io::ErrorKind::TimedOut.into())
}

fn expect(is_right: bool, completion: &Completion) -> io::Result<()> {
    match completion.result {
        _ if is_right => Ok(()),
        error @ ..0 => Err(io::Error::from_raw_os_error(-error)),
        result => Err(io::Error::other(format!("unexpected result {result}: {completion:?}"))),
    }
}
