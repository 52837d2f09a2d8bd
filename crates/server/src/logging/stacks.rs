//! The stacks of threads, as text in the log.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use os::fault::{self, Stack};

use super::write_raw;

/// Logs the stacks of all threads.
pub fn log_stacks() {
    static ASKING: Mutex<()> = Mutex::new(());
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    write_stacks(&[], &fault::stacks());
}

/// Logs stacks; the first ones are marked.
pub fn write_stacks(first: &[Stack], others: &[Stack]) {
    let mut text = "\n------ STACK TRACE ------\n".to_owned();
    for (index, stack) in first.iter().chain(others).enumerate() {
        let mark = if index < first.len() { " *" } else { "" };
        let _ = writeln!(text, "\n{} {}{mark}", stack.thread, thread_name(stack.thread));
        for frame in &stack.frames {
            let lines = fault::describe(*frame);
            let _ = writeln!(text, "{frame:#018x} {}", lines.first().map_or("?", String::as_str));
            lines.iter().skip(1).for_each(|line| {
                let _ = writeln!(text, "                   in {line}");
            });
        }
    }
    let _ = writeln!(text, "\n------ STACK TRACE DONE ------");
    write_raw(&text);
}

/// The name of a thread of this process.
pub fn thread_name(thread: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}
