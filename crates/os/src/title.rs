//! The process title that `ps` shows. It overwrites the arguments, and the environment once that has been
//! moved.
//!
//! Touches: process-wide state. [`make_room`] is for start-up, before any other thread exists.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Held while a title is written.
static WRITING: Mutex<()> = Mutex::new(());

/// Whether the environment has been moved out of its original memory.
static ENVIRONMENT_HAS_MOVED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// The environment's variables, terminated by a null pointer.
    static mut environ: *const *const c_char;
}

/// Moves the environment, so that a title may be longer than the arguments. Returns an error if there are other
/// threads.
pub fn make_room() -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads are already running"));
    }
    let mut moved = Vec::new();
    // SAFETY: no other thread changes it concurrently.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: it points into the list or to the terminating null; nothing is read beyond that.
        let variable = unsafe { *next };
        if variable.is_null() {
            break;
        }
        // SAFETY: variables are C strings, and there are no concurrent writers.
        let text: CString = unsafe { CStr::from_ptr(variable) }.to_owned();
        moved.push(text.into_raw().cast_const());
        // SAFETY: this was not the end of the list.
        next = unsafe { next.add(1) };
    }
    moved.push(std::ptr::null());
    // SAFETY: there are no concurrent readers, and the new list lives for ever.
    unsafe { environ = moved.leak().as_ptr() };
    ENVIRONMENT_HAS_MOVED.store(true, Ordering::Release);
    Ok(())
}

/// Sets the title. It is truncated to the memory of the arguments, plus that of the environment once that has
/// been moved.
pub fn set_title(title: &str) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may hold any text; fields are counted after it, starting with the third. See
    // proc(5).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3)?.parse::<usize>().ok();
    let (Some(start), Some(end)) = (field(48), field(49)) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if start == 0 || end <= start {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let end = match (field(50), field(51)) {
        (Some(environment), Some(environment_end))
            if environment == end
                && environment_end >= end
                && ENVIRONMENT_HAS_MOVED.load(Ordering::Acquire) =>
        {
            environment_end
        }
        _ => end,
    };
    let room = end - start;
    let size = title.len().min(room - 1);
    let area: *mut u8 = std::ptr::with_exposed_provenance_mut(start);
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the kernel put the arguments and the environment there, writable; only this function writes
    // there, one thread at a time.
    unsafe { area.write_bytes(0, room) };
    // SAFETY: `size` bytes fit, and the title does not overlap.
    unsafe { area.copy_from_nonoverlapping(title.as_ptr(), size) };
    Ok(())
}
