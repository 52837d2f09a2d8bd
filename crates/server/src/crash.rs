//! What is left behind when the server finds itself at fault: a report in the log, then the process aborts.
//!
//! Threads have no faults of their own: whatever panics, data that others use may be half changed.

use std::backtrace::Backtrace;
use std::fmt::Write;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::shared::Shared;

static SHARED: OnceLock<&'static Shared> = OnceLock::new();
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Makes every panic end the process with a report.
pub fn install() {
    std::panic::set_hook(Box::new(|panic| {
        report(panic);
        if SHARED.get().is_some_and(|shared| shared.config.load().use_exit_on_panic) {
            std::process::exit(1);
        }
        std::process::abort();
    }));
}

/// Lets reports tell of the server.
pub fn know(shared: &'static Shared) {
    // Set once at start-up.
    let _ = SHARED.set(shared);
}

fn report(panic: &PanicHookInfo<'_>) {
    // A fault while reporting, or of a second thread, would garble the report of the first.
    if REPORTED.swap(true, Ordering::AcqRel) {
        return;
    }
    if SHARED.get().is_some_and(|shared| !shared.config.load().crash_log_enabled) {
        log::error!("Broadloom crashed: {panic}");
        return;
    }
    let mut text = String::from("\n\n=== BROADLOOM BUG REPORT START: Cut & paste starting from here ===\n");
    log::error!("Broadloom {} crashed: {panic}", env!("CARGO_PKG_VERSION"));
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let _ = writeln!(text, "\n------ THREAD ------\n{name}: {panic}");
    if let Some(shared) = SHARED.get() {
        let _ = writeln!(text, "\n------ CURRENT COMMAND ------\n{}", last_command(shared, name));
    }
    let _ = writeln!(text, "\n------ STACK TRACE ------\n{}", Backtrace::force_capture());
    crate::logging::write_raw(&text);
    if let Some(shared) = SHARED.get() {
        let info = crate::info::text(shared, &[b"everything"]).replace('\r', "");
        crate::logging::write_raw(&format!("\n------ INFO OUTPUT ------\n{info}"));
    }
    crate::logging::write_raw(
        "\n=== BROADLOOM BUG REPORT END. Please report it with everything from the start line on. ===\n\n",
    );
}

/// The command that the thread ran last.
fn last_command(shared: &Shared, thread: &str) -> String {
    let index = thread.strip_prefix("broadloom-io-").and_then(|index| index.parse::<usize>().ok());
    let command = index.map(|index| shared.statistics.thread(index).current_command.value());
    command
        .and_then(|number| commands::table::NUMBERED.get((number as usize).checked_sub(1)?))
        .map_or_else(|| "none".to_owned(), |(name, _)| name.clone())
}
