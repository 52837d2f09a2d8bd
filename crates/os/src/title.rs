//! The title of the process that `ps` shows: written over its arguments, and over its environment once that has moved away.
//!
//! Touches: process-wide state. [`make_room`] belongs to start-up, before any thread is made.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Held by whoever writes a title.
static WRITING: Mutex<()> = Mutex::new(());

/// Whether nothing refers to the memory any more in which the kernel put the environment.
static ENVIRONMENT_HAS_MOVED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// The environment's variables, with a null at the end.
    static mut environ: *const *const c_char;
}

/// Moves the environment elsewhere, so that a title may be longer than the arguments were. An error if there are other
/// threads already.
pub fn make_room() -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads run already"));
    }
    let mut moved = Vec::new();
    // SAFETY: no other thread changes it meanwhile.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: it is one of the list, or the null at its end, behind which nothing is read.
        let variable = unsafe { *next };
        if variable.is_null() {
            break;
        }
        // SAFETY: variables are C strings, and nobody changes them meanwhile.
        let text: CString = unsafe { CStr::from_ptr(variable) }.to_owned();
        moved.push(text.into_raw().cast_const());
        // SAFETY: this was not the end.
        next = unsafe { next.add(1) };
    }
    moved.push(std::ptr::null());
    // SAFETY: no other thread reads it meanwhile, and the new list lives for ever.
    unsafe { environ = moved.leak().as_ptr() };
    ENVIRONMENT_HAS_MOVED.store(true, Ordering::Release);
    Ok(())
}

/// Sets the title. What doesn't fit into the memory of the arguments, and of the environment behind them if that has moved
/// away, is cut off.
pub fn set_title(title: &str) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may hold anything; fields are counted behind it, from the third on. See proc(5).
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
    let kept = title.len().min(room - 1);
    let area: *mut u8 = std::ptr::with_exposed_provenance_mut(start);
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the kernel put the arguments and the environment there, writable; only this writes there, one thread at a time.
    unsafe { area.write_bytes(0, room) };
    // SAFETY: `kept` bytes fit, and the title lies elsewhere.
    unsafe { area.copy_from_nonoverlapping(title.as_ptr(), kept) };
    Ok(())
}
