//! `threads`, `cpu`, `debug` and `workers`: the workers, their CPU time and their event loops.

use std::time::Duration;

use super::super::figure::Unit::{Bytes, Microseconds, None as NoUnit, Permille};
use super::super::figure::Value::Millionths;
use super::super::figure::{Field, Figure, Value, figures};
use super::super::gathered::Gathered;

const WORKER: &[Field] = &[
    Field::gauge("clients", NoUnit, "The connections of the worker."),
    Field::counter("reads", NoUnit, "The reads from connections."),
    Field::counter("writes", NoUnit, "The writes to connections."),
    Field::counter("commands", NoUnit, "The commands that it has run."),
    Field::gauge("busy_permille", Permille, "The share of its recent time in which it did not wait."),
];

const ALL_OF_WORKER: &[Field] = &[
    Field::gauge("clients", NoUnit, "The connections of the worker."),
    Field::counter("accepted_connections", NoUnit, "The connections that it has accepted."),
    Field::counter("commands", NoUnit, "The commands that it has run."),
    Field::counter("errors", NoUnit, "The error replies."),
    Field::counter("parked_sessions", NoUnit, "The sessions that waited for a latch."),
    Field::counter("reads", NoUnit, "The reads from connections."),
    Field::counter("writes", NoUnit, "The writes to connections."),
    Field::counter("received_bytes", Bytes, "The bytes from connections."),
    Field::counter("sent_bytes", Bytes, "The bytes to connections."),
    Field::counter("turns", NoUnit, "The turns of its event loop."),
    Field::gauge("turn_max_usec", Microseconds, "The longest turn."),
    Field::counter("busy_usec", Microseconds, "The time in which it did not wait."),
    Field::counter("cron_usec", Microseconds, "The time that its periodic work took."),
    Field::counter("expiry_usec", Microseconds, "The time that its deletion of expired keys took."),
    Field::counter("defrag_usec", Microseconds, "The time that its defragmentation took."),
    Field::counter("cpu_user_usec", Microseconds, "Its CPU time outside the kernel."),
    Field::counter("cpu_system_usec", Microseconds, "Its CPU time in the kernel."),
];

pub static THREADS: &[Figure] = figures! { |all|
    /// A worker that runs.
    record(WORKER) "io_thread_{worker}", each Worker as label = worker(all, label.index);
};

pub static CPU: &[Figure] = figures! { |all|
    /// The CPU time of the process in the kernel.
    counter "used_cpu_sys": Seconds = seconds(all.usage()[0].system);
    /// The CPU time of the process outside the kernel.
    counter "used_cpu_user": Seconds = seconds(all.usage()[0].user);
    /// The CPU time of ended child processes in the kernel.
    counter "used_cpu_sys_children": Seconds = seconds(all.usage()[1].system);
    /// The CPU time of ended child processes outside the kernel.
    counter "used_cpu_user_children": Seconds = seconds(all.usage()[1].user);
    /// The CPU time of the first worker in the kernel.
    counter "used_cpu_sys_main_thread": Seconds = system_time(all, 0);
    /// The CPU time of the first worker outside the kernel.
    counter "used_cpu_user_main_thread": Seconds = user_time(all, 0);
    /// The time in which the first worker did not wait.
    counter "used_active_time_main_thread": Seconds = active_time(all, 0);
    /// The time in which another worker did not wait.
    counter "used_active_time_io_thread_{worker}": Seconds, each OtherWorker as label = active_time(all, label.index);
    /// The CPU time of another worker in the kernel.
    counter "used_cpu_sys_io_thread_{worker}": Seconds, each OtherWorker as label = system_time(all, label.index);
    /// The CPU time of another worker outside the kernel.
    counter "used_cpu_user_io_thread_{worker}": Seconds, each OtherWorker as label = user_time(all, label.index);
};

pub static DEBUG: &[Figure] = figures! { |all|
    /// Always 0: another thread writes the append-only file.
    counter "eventloop_duration_aof_sum": Microseconds = 0;
    /// The time that periodic work took.
    counter "eventloop_duration_cron_sum": Microseconds = all.sum(|thread| &thread.turn.cron_ns) / 1000;
    /// The longest turn of an event loop.
    gauge "eventloop_duration_max": Microseconds = all.shared.monitoring.statistics.max(|thread| &thread.turn.ns_max) / 1000;
    /// The most commands of a turn.
    gauge "eventloop_cmd_per_cycle_max" = all.shared.monitoring.statistics.max(|thread| &thread.turn.commands_max);
};

pub static WORKERS: &[Figure] = figures! { |all|
    /// A worker that runs.
    record(ALL_OF_WORKER) "worker_{worker}", each Worker as label = all_of_worker(all, label.index);
};

fn all_of_worker(all: &Gathered<'_>, index: usize) -> Value<'static> {
    let connections = all.shared.workers.handle(index).connection_count.value();
    let of = all.shared.monitoring.statistics.thread(index);
    Value::record([
        ("clients", connections.into()),
        ("accepted_connections", of.sockets.accepted.value().into()),
        ("commands", of.commands_processed.value().into()),
        ("errors", of.errors.value().into()),
        ("parked_sessions", of.parked.value().into()),
        ("reads", of.sockets.reads.value().into()),
        ("writes", of.sockets.writes.value().into()),
        ("received_bytes", of.sockets.received_bytes.value().into()),
        ("sent_bytes", of.sockets.sent_bytes.value().into()),
        ("turns", of.turn.count.value().into()),
        ("turn_max_usec", (of.turn.ns_max.value() / 1000).into()),
        ("busy_usec", (of.turn.busy_ns.value() / 1000).into()),
        ("cron_usec", (of.turn.cron_ns.value() / 1000).into()),
        ("expiry_usec", (of.expiry.ns.value() / 1000).into()),
        ("defrag_usec", (of.defrag.run_ns.value() / 1000).into()),
        ("cpu_user_usec", of.cpu.user_us.value().into()),
        ("cpu_system_usec", of.cpu.system_us.value().into()),
    ])
}

fn worker(all: &Gathered<'_>, index: usize) -> Value<'static> {
    let (handle, statistics) =
        (all.shared.workers.handle(index), all.shared.monitoring.statistics.thread(index));
    Value::record([
        ("clients", handle.connection_count.value().into()),
        ("reads", statistics.sockets.reads.value().into()),
        ("writes", statistics.sockets.writes.value().into()),
        ("commands", statistics.commands_processed.value().into()),
        ("busy_permille", handle.busy_permille().into()),
    ])
}

fn seconds(duration: Duration) -> Value<'static> {
    Millionths(duration.as_secs_f64())
}

fn micros(us: u64) -> Value<'static> {
    Millionths(us as f64 / 1e6)
}

fn system_time(all: &Gathered<'_>, worker: usize) -> Value<'static> {
    micros(all.shared.monitoring.statistics.thread(worker).cpu.system_us.value())
}

fn user_time(all: &Gathered<'_>, worker: usize) -> Value<'static> {
    micros(all.shared.monitoring.statistics.thread(worker).cpu.user_us.value())
}

fn active_time(all: &Gathered<'_>, worker: usize) -> Value<'static> {
    micros(all.shared.monitoring.statistics.thread(worker).turn.busy_ns.value() / 1000)
}
