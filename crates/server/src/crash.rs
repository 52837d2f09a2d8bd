//! The report of a fault in the log, after which the process ends.
//!
//! A fault is a panic of any thread, or a fatal signal. It always ends the process: a thread that stops alone
//! may leave shared data half changed. On a signal, the handler only takes notes (`os/src/fault.rs`), and a
//! separate thread writes the report.

use std::fmt::Write;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use os::fault::{self, Fault, Stack};

use crate::logging::write_raw;
use crate::shared::Shared;

static SHARED: OnceLock<&'static Shared> = OnceLock::new();
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Makes every fault end the process with a report.
pub fn install() {
    std::panic::set_hook(Box::new(|panic| {
        report_panic(panic);
        fault::done();
        if SHARED.get().is_some_and(|shared| shared.config.load().use_exit_on_panic) {
            std::process::exit(1);
        }
        std::process::abort();
    }));
    // The first thread keeps it until the end of the process.
    std::mem::forget(fault::prepare_thread());
    let reporter = std::thread::Builder::new().name("crash-report".to_owned());
    let started = fault::install().and_then(|()| reporter.spawn(|| report_signal(&fault::wait())));
    if let Err(error) = started {
        log::warn!("A crash would not be reported: {error}");
    }
}

/// Gives reports access to the server's state.
pub fn know(shared: &'static Shared) {
    // Set once at start-up.
    let _ = SHARED.set(shared);
}

/// Whether a fault is being reported: then a thread may have stopped for good with any lock held.
pub fn is_reporting() -> bool {
    REPORTED.load(Ordering::Acquire)
}

/// Whether this is the first fault: a later one would garble its report.
fn is_first() -> bool {
    !REPORTED.swap(true, Ordering::AcqRel)
}

/// Whether reports are enabled (`crash-log-enabled`).
fn is_wanted() -> bool {
    SHARED.get().is_none_or(|shared| shared.config.load().crash_log_enabled)
}

fn report_panic(panic: &PanicHookInfo<'_>) {
    if !is_first() {
        return;
    }
    if !is_wanted() {
        log::error!("Broadloom crashed: {panic}");
        return;
    }
    write_raw(START);
    log::error!("=== ASSERTION FAILED ===");
    log::error!("==> Broadloom {} {panic}", env!("CARGO_PKG_VERSION"));
    report(&fault::own_stack());
}

fn report_signal(fault: &Fault) {
    if is_first() && is_wanted() {
        write_raw(START);
        log::error!(
            "Broadloom {} crashed by signal: {}, si_code: {}",
            env!("CARGO_PKG_VERSION"),
            fault.signal,
            fault.code
        );
        match fault.code {
            1.. => log::error!("Accessing address: {:#x}", fault.address),
            _ => log::error!("Killed by PID: {}", fault.sender),
        }
        log::error!("Crashed running the instruction at: {:#x}", fault.instruction);
        report(&fault.stack);
    }
    fault::done();
}

const START: &str = "\n\n=== BROADLOOM BUG REPORT START: Cut & paste starting from here ===\n";

/// Writes all but the first lines of a report, with the stack of a thread.
fn report(stack: &Stack) {
    let name = thread_name(stack.thread);
    write_stacks(std::slice::from_ref(stack), &fault::stacks());
    if let Some(shared) = SHARED.get() {
        let mut text = format!("\n------ CURRENT COMMAND ------\n{}\n", last_command(shared, &name));
        let config = shared.config.load();
        if !config.debug_context.is_empty() {
            let _ = writeln!(text, "\n------ DEBUG CONTEXT ------\n{}", config.debug_context);
        }
        write_raw(&text);
        let info = crate::info::text(shared, &[b"everything"]).replace('\r', "");
        write_raw(&format!("\n------ INFO OUTPUT ------\n{info}"));
    }
    write_raw(
        "\n=== BROADLOOM BUG REPORT END. Please report it with everything from the start line on. ===\n\n",
    );
}

/// Logs the stacks of all threads.
pub fn log_stacks() {
    static ASKING: Mutex<()> = Mutex::new(());
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    write_stacks(&[], &fault::stacks());
}

fn write_stacks(first: &[Stack], others: &[Stack]) {
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

fn thread_name(thread: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The command that the thread runs or ran last, and its client.
fn last_command(shared: &Shared, thread: &str) -> String {
    let index = thread.strip_prefix("broadloom-io-").and_then(|index| index.parse::<usize>().ok());
    let command_of = |index: usize| {
        let statistics = shared.statistics.thread(index);
        let number = (statistics.current_command.value() as usize).checked_sub(1)?;
        let (name, _) = commands::table::NUMBERED.get(number)?;
        let client = shared
            .client_line(statistics.current_client.value())
            .unwrap_or_else(|| "its connection is gone".to_owned());
        Some(format!("broadloom-io-{index}: {name}\n{client}"))
    };
    let threads: Vec<usize> = match index {
        Some(index) => vec![index],
        None => shared.workers.occupied().collect(),
    };
    let lines: Vec<String> = threads.into_iter().filter_map(command_of).collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}
