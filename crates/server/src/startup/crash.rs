//! The report of a fault in the log, after which the process ends.
//!
//! A fault is a panic of any thread, or a fatal signal. It always ends the process: a thread that stops alone
//! may leave shared data half changed. On a signal, the handler only records the state (`os/src/fault.rs`), and a
//! separate thread writes the report.

use std::fmt::Write;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use os::fault::{self, Fault, Stack};

use crate::logging::stacks::{thread_name, write_stacks};
use crate::logging::{begin_fault_report, write_raw};
use crate::shared::Shared;

static SHARED: OnceLock<&'static Shared> = OnceLock::new();

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
    // The first thread holds it until the end of the process.
    std::mem::forget(fault::prepare_thread());
    let reporter = std::thread::Builder::new().name("crash-report".to_owned());
    let started = fault::install().and_then(|()| reporter.spawn(|| report_signal(&fault::wait())));
    if let Err(error) = started {
        log::warn!("A crash would not be reported: {error}");
    }
}

/// Gives reports access to the server's state.
pub fn set_shared(shared: &'static Shared) {
    // Set once at start-up.
    let _ = SHARED.set(shared);
}

/// Whether reports are enabled (`crash-log-enabled`).
fn is_wanted() -> bool {
    SHARED.get().is_none_or(|shared| shared.config.load().crash_log_enabled)
}

fn report_panic(panic: &PanicHookInfo<'_>) {
    if !begin_fault_report() {
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
    if begin_fault_report() && is_wanted() {
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
        let info = crate::admin::info::text(shared, &[b"everything"]).replace('\r', "");
        write_raw(&format!("\n------ INFO OUTPUT ------\n{info}"));
    }
    write_raw(
        "\n=== BROADLOOM BUG REPORT END. Please report it with everything from the start line on. ===\n\n",
    );
}

/// The command that the thread runs or ran last, and its client.
fn last_command(shared: &Shared, thread: &str) -> String {
    let index = thread.strip_prefix("broadloom-io-").and_then(|index| index.parse::<usize>().ok());
    let command_of = |index: usize| {
        let statistics = shared.monitoring.statistics.thread(index);
        let number = (statistics.current.command.value() as usize).checked_sub(1)?;
        let (name, _) = commands::table::NUMBERED.get(number)?;
        let client = shared
            .client_line(statistics.current.client.value())
            .unwrap_or_else(|| "its connection is closed".to_owned());
        Some(format!("broadloom-io-{index}: {name}\n{client}"))
    };
    let threads: Vec<usize> = match index {
        Some(index) => vec![index],
        None => shared.workers.occupied().collect(),
    };
    let lines: Vec<String> = threads.into_iter().filter_map(command_of).collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}
