//! The snapshot in RDB at the start of an append-only file: its structure and checksum.

use super::window::Window;
use crate::disk::DiskFile;
use rdb::{Cutter, Event};

/// Reads the snapshot, and moves the window to its end. Returns the number of keys, or the reason why it is invalid.
pub(super) fn check<F: DiskFile>(window: &mut Window<'_, F>) -> Result<u64, String> {
    let mut cutter = Cutter::new(true);
    let mut key_count = 0;
    loop {
        let cut = cutter.next(window.bytes()).map_err(|error| error.to_string())?;
        match cut.map(|cut| (matches!(cut.event, Event::Key(_)), matches!(cut.event, Event::End { .. }))) {
            Some((is_key, is_end)) => {
                key_count += u64::from(is_key);
                window.consume_to(cutter.offset());
                if is_end {
                    return Ok(key_count);
                }
            }
            None => {
                // Doubles each time, so that a large value is scanned only a few times.
                let wanted = (window.bytes().len() as u64 + 1).next_power_of_two();
                let had = window.bytes().len();
                let is_filled = window.fill(wanted).map_err(|error| error.to_string())?;
                if !is_filled && window.bytes().len() == had {
                    return Err(cutter.unexpected_end(had).to_string());
                }
            }
        }
    }
}
