//! Trying out what this backend needs, for real: kernels and sandboxes refuse single operations, and support that is
//! announced may still fail.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use io_uring::{cqueue, opcode, squeue, types};

use super::buffer_ring::BufferRing;
use super::receive;
use super::ring::Ring;

/// How long an operation may take that completes at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Larger than a unix socket's send buffer.
const LARGE_SIZE: usize = 4 << 20;

const PROBE_RECEIVE: u64 = 1;
const PROBE_SEND: u64 = 2;
const PROBE_LARGE_SEND: u64 = 3;
const PROBE_CANCEL: u64 = 4;

type Failure = (&'static str, io::Error);

/// Receives, sends and cancels on a socket pair. Leaves nothing in flight and no buffer taken.
pub(super) fn probe(ring: &mut Ring, buffers: &BufferRing) -> Result<(), Failure> {
    let (near, mut far) = UnixStream::pair().map_err(|error| ("socketpair", error))?;
    probe_receive(ring, buffers, &near, &mut far).map_err(|error| ("multishot receive", error))?;
    probe_sends(ring, near, far).map_err(|error| ("quiet send", error))
}

/// A multishot receive takes two messages into provided buffers, and can be cancelled.
fn probe_receive(
    ring: &mut Ring,
    buffers: &BufferRing,
    near: &UnixStream,
    far: &mut UnixStream,
) -> io::Result<()> {
    let request = receive::request(types::Fd(near.as_raw_fd())).user_data(PROBE_RECEIVE);
    // SAFETY: (1) it points to nothing; buffers come from the group.
    unsafe { ring.push(&request)? };
    for _ in 0..2 {
        ring.enter(0, None)?;
        far.write_all(b"probe")?;
        let completion = next_completion(ring)?;
        let buffer = cqueue::buffer_select(completion.flags());
        if let Some(buffer) = buffer {
            buffers.take(buffer);
            buffers.give_back(buffer);
        }
        expect(
            completion.result() == 5 && buffer.is_some() && cqueue::more(completion.flags()),
            &completion,
        )?;
    }
    let cancel = opcode::AsyncCancel::new(PROBE_RECEIVE).build();
    let cancel = cancel.user_data(PROBE_CANCEL).flags(squeue::Flags::SKIP_SUCCESS);
    // SAFETY: (1) it points to nothing.
    unsafe { ring.push(&cancel)? };
    let completion = next_completion(ring)?;
    let is_end = completion.user_data() == PROBE_RECEIVE && !cqueue::more(completion.flags());
    expect(is_end && completion.result() == -libc::ECANCELED, &completion)
}

/// A send that succeeds posts nothing; one that is larger than the room for it posts what went out.
fn probe_sends(ring: &mut Ring, near: UnixStream, mut far: UnixStream) -> io::Result<()> {
    let large = vec![0_u8; LARGE_SIZE];
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
    for (size, user_data) in [(5, PROBE_SEND), (LARGE_SIZE, PROBE_LARGE_SEND)] {
        let send = opcode::Send::new(types::Fd(near.as_raw_fd()), large.as_ptr(), size as u32).flags(flags);
        let send = send.build().user_data(user_data).flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: (1) `large` lives longer than the request, which can't wait.
        unsafe { ring.push(&send)? };
    }
    let completion = next_completion(ring)?;
    let sent_size = usize::try_from(completion.result()).unwrap_or(0);
    let is_short = completion.user_data() == PROBE_LARGE_SEND && (1..LARGE_SIZE).contains(&sent_size);
    drop(near);
    let mut arrived = Vec::new();
    far.read_to_end(&mut arrived)?;
    expect(is_short && arrived.len() == 5 + sent_size, &completion)
}

fn next_completion(ring: &mut Ring) -> io::Result<cqueue::Entry> {
    let mut completions = Vec::new();
    ring.enter(1, Some(PATIENCE))?;
    ring.take_completions(&mut completions);
    if completions.len() > 1 {
        return Err(io::Error::other("it completes too often"));
    }
    completions.pop().ok_or_else(|| io::ErrorKind::TimedOut.into())
}

fn expect(is_right: bool, completion: &cqueue::Entry) -> io::Result<()> {
    match completion.result() {
        _ if is_right => Ok(()),
        error @ ..0 => Err(io::Error::from_raw_os_error(-error)),
        result => Err(io::Error::other(format!("it completes with {result}, flags {}", completion.flags()))),
    }
}
