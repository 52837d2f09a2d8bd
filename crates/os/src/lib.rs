//! Kernel services other than sockets: clocks, processes, threads, pages, faults.
//!
//! - Touches: the kernel. This crate and `reactor` are the only ones that use libc.
//! - Never: opens a socket, starts a thread, or blocks, except [`fault::wait`] on the one thread that reports faults.
//! - Start reading at [`clock`]; [`process`] and [`threads`] are lists of independent functions.
#![allow(unsafe_code)]

pub mod clock;
pub mod coroutine;
pub mod fault;
pub mod files;
pub mod memory_limit;
pub mod pages;
pub mod process;
pub mod run_times;
pub mod threads;
pub mod title;

mod mapping;
mod time_slice;

use std::io;

pub use mapping::Mapping;

/// Converts the kernel's -1 into the error in `errno`.
///
/// # Errors
/// The error of the last system call, if `result` is -1.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
