//! System calls missing in the standard library, each as one safe function.
//!
//! Never: keeps state (except that a call is unavailable), retries, or interprets errors beyond turning -1 into
//! [`io::Error`].

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libc::c_int;

use os::check;

use crate::PeerAddress;

fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Takes ownership of a descriptor returned by a system call.
///
/// # Safety
/// 1. A system call that creates a descriptor returned it, and it has no other owner.
unsafe fn own(result: c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: (1) it is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes ownership of a descriptor from a completion; negative numbers are errors.
///
/// # Safety
/// 1. It is the result of a completed accept, and the descriptor has no other owner.
pub(crate) unsafe fn own_result(result: c_int) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: (1) it is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let result = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    // SAFETY: (1) just created.
    unsafe { own(result) }
}

/// Adds one to an eventfd. This can't fail before 2^64 - 2 calls.
pub(crate) fn signal_eventfd(fd: &OwnedFd) {
    let one = 1_u64;
    // SAFETY: `one` is 8 readable bytes.
    let written = unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    debug_assert_eq!(written, 8, "an eventfd takes 8 bytes");
}

pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let result = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    // SAFETY: (1) just created.
    unsafe { own(result) }
}

/// `operation` is one of `EPOLL_CTL_*`.
pub(crate) fn epoll_control(
    epoll: &OwnedFd,
    operation: c_int,
    fd: RawFd,
    events: c_int,
    data: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events as u32, u64: data };
    // SAFETY: `event` is alive during the call, and the kernel copies it.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &raw mut event) }).map(drop)
}

/// Whether `epoll_pwait2` (Linux 5.11) has not been refused so far.
static HAS_PRECISE_WAIT: AtomicBool = AtomicBool::new(true);

/// Fills `events` up to its capacity. `None` waits without a limit. Precise to the nanosecond if the kernel
/// supports it, else rounded up to milliseconds.
pub(crate) fn epoll_wait(
    epoll: &OwnedFd,
    events: &mut Vec<libc::epoll_event>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    events.clear();
    let precise = timeout.filter(|timeout| !timeout.is_zero());
    let ready_count = match precise {
        Some(timeout) if HAS_PRECISE_WAIT.load(Ordering::Relaxed) => {
            match wait_precisely(epoll, events, timeout) {
                // Sandboxes return EPERM for unknown system calls.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    HAS_PRECISE_WAIT.store(false, Ordering::Relaxed);
                    wait_roughly(epoll, events, Some(timeout))?
                }
                result => result?,
            }
        }
        _ => wait_roughly(epoll, events, timeout)?,
    };
    debug_assert!(ready_count <= events.capacity());
    // SAFETY: the kernel has initialised this many entries, within the capacity.
    unsafe { events.set_len(ready_count) };
    Ok(())
}

fn wait_precisely(
    epoll: &OwnedFd,
    events: &mut Vec<libc::epoll_event>,
    timeout: Duration,
) -> io::Result<usize> {
    let timeout = timespec(timeout);
    let (fd, capacity) = (epoll.as_raw_fd(), capacity_of(events));
    // SAFETY: `events` has room for `capacity` entries, `timeout` is alive during the call, no signal mask.
    let ready = unsafe {
        libc::epoll_pwait2(fd, events.as_mut_ptr(), capacity, &raw const timeout, std::ptr::null())
    };
    Ok(check(ready)? as usize)
}

fn wait_roughly(
    epoll: &OwnedFd,
    events: &mut Vec<libc::epoll_event>,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let timeout_ms = timeout
        .map_or(-1, |timeout| c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX));
    let capacity = capacity_of(events);
    // SAFETY: `events` has room for `capacity` entries.
    let ready = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), capacity, timeout_ms) };
    Ok(check(ready)? as usize)
}

fn capacity_of(events: &Vec<libc::epoll_event>) -> c_int {
    c_int::try_from(events.capacity()).unwrap_or(c_int::MAX)
}

pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes, all of them writable.
    check_size(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) })
}

pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is readable for its length.
    check_size(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

pub(crate) fn send_slices(fd: RawFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let message = message_of(slices);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `message` points to `slices`, both alive; an IoSlice has the layout of an iovec.
    check_size(unsafe { libc::sendmsg(fd, &raw const message, flags) })
}

/// Creates a message header for the bytes in `slices`, valid as long as they are.
pub(crate) fn message_of(slices: &[IoSlice<'_>]) -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    message
}

/// Accepts one connection from the queue of a listening socket, or returns `WouldBlock`.
pub(crate) fn accept(listener: RawFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut size = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: `address` has room for `size` bytes, both alive during the call.
    let accepted = unsafe { libc::accept4(listener, address.as_mut_ptr().cast(), &raw mut size, flags) };
    // SAFETY: (1) just created.
    let fd = unsafe { own(accepted) }?;
    // SAFETY: all-zero bytes are a valid sockaddr_storage, and the kernel writes plain bytes.
    Ok((fd, decode_address(unsafe { &*address.as_ptr() })))
}

/// The peer's address.
pub(crate) fn peer_name(fd: RawFd) -> io::Result<PeerAddress> {
    // SAFETY: (1) holds for getpeername.
    unsafe { name_of(fd, libc::getpeername) }
}

/// The local address.
pub(crate) fn local_name(fd: RawFd) -> io::Result<PeerAddress> {
    // SAFETY: (1) holds for getsockname.
    unsafe { name_of(fd, libc::getsockname) }
}

type NameCall = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;

/// # Safety
/// 1. `call` writes at most as many bytes of an address as its size argument allows.
unsafe fn name_of(fd: RawFd, call: NameCall) -> io::Result<PeerAddress> {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut size = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: (1) `address` has room for `size` bytes, both alive during the call.
    check(unsafe { call(fd, address.as_mut_ptr().cast(), &raw mut size) })?;
    // SAFETY: all-zero bytes are a valid sockaddr_storage, and the kernel writes plain bytes.
    Ok(decode_address(unsafe { &*address.as_ptr() }))
}

fn decode_address(address: &libc::sockaddr_storage) -> PeerAddress {
    match c_int::from(address.ss_family) {
        libc::AF_INET => {
            // SAFETY: a sockaddr_storage is large and aligned enough for every address, and the family selects
            // the type.
            let name = unsafe { &*std::ptr::from_ref(address).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            PeerAddress::Tcp(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: a sockaddr_storage is large and aligned enough for every address, and the family selects
            // the type.
            let name = unsafe { &*std::ptr::from_ref(address).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            PeerAddress::Tcp(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into())
        }
        _ => PeerAddress::Unix,
    }
}

/// Binds a socket to a local address.
pub(crate) fn bind(fd: RawFd, address: SocketAddr) -> io::Result<()> {
    // SAFETY: (1) holds for bind.
    unsafe { apply_name(fd, address, libc::bind) }
}

/// Starts to connect a non-blocking socket. `InProgress` is the usual result: the socket has room once it is
/// connected, or has an error.
pub(crate) fn connect(fd: RawFd, address: SocketAddr) -> io::Result<()> {
    // SAFETY: (1) holds for connect.
    unsafe { apply_name(fd, address, libc::connect) }
}

type NameUse = unsafe extern "C" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int;

/// # Safety
/// 1. `call` reads at most as many bytes of an address as its size argument allows, and keeps no pointer.
unsafe fn apply_name(fd: RawFd, address: SocketAddr, call: NameUse) -> io::Result<()> {
    let result = match address {
        SocketAddr::V4(address) => {
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            // SAFETY: (1) `name` is a complete, live kernel address structure, and `size` its size.
            unsafe { call(fd, (&raw const name).cast(), size) }
        }
        SocketAddr::V6(address) => {
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            let size = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            // SAFETY: (1) `name` is a complete, live kernel address structure, and `size` its size.
            unsafe { call(fd, (&raw const name).cast(), size) }
        }
    };
    check(result).map(drop)
}

/// Creates a stream socket: non-blocking, closed on exec.
pub(crate) fn stream_socket(family: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let result = unsafe { libc::socket(family, kind, 0) };
    // SAFETY: (1) just created.
    unsafe { own(result) }
}

/// Lets other runnable threads use this CPU.
pub(crate) fn yield_cpu() {
    // SAFETY: takes no arguments, and always succeeds on Linux.
    unsafe { libc::sched_yield() };
}

pub(crate) fn set_option(fd: RawFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    let size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` is `size` readable bytes.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size) }).map(drop)
}

/// Whether the socket accepts connections.
pub(crate) fn is_listening(fd: RawFd) -> bool {
    option(fd, libc::SO_ACCEPTCONN).is_some_and(|value| value != 0)
}

/// The pending error of the socket, which this clears.
pub(crate) fn take_error(fd: RawFd) -> Option<io::Error> {
    option(fd, libc::SO_ERROR).filter(|error| *error != 0).map(io::Error::from_raw_os_error)
}

fn option(fd: RawFd, option: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` is writable and has size `size`, and `size` is alive.
    let result =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, (&raw mut value).cast(), &raw mut size) };
    (result == 0).then_some(value)
}

pub(crate) fn shutdown(fd: RawFd, how: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::shutdown(fd, how) }).map(drop)
}

pub(crate) fn listen(fd: RawFd, backlog: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::listen(fd, backlog) }).map(drop)
}
