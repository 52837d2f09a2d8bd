//! `server`: the process, and what clients detect its kind and version by.

use commands::identity;
use os::clock::Uptime;
use os::{clock, process};

use super::super::figure::{Figure, figures};
use super::super::gathered::Gathered;

pub static FIGURES: &[Figure] = figures! { |all|
    /// The version of Redis whose commands the server has.
    text "redis_version" = identity::REDIS_VERSION;
    /// The name of the server.
    text "server_name" = "broadloom";
    /// The version of Valkey whose commands the server has.
    text "valkey_version" = identity::VALKEY_VERSION;
    /// The release stage of that version of Valkey.
    text "valkey_release_stage" = "ga";
    /// The version of the server.
    text "broadloom_version" = identity::BROADLOOM_VERSION;
    /// The commit from which the server was built.
    text "redis_git_sha1" = env!("BROADLOOM_COMMIT");
    /// Always 0.
    gauge "redis_git_dirty" = 0;
    /// A number of the build.
    text "redis_build_id" = format!("{:016x}", crate::process::identity::build_number());
    /// The mode under Redis's name for it: always standalone.
    text "redis_mode" = "standalone", when !is_as_valkey(all);
    /// The mode under Valkey's name for it: always standalone.
    text "server_mode" = "standalone", when !is_as_redis(all);
    /// The operating system, with its version.
    text "os" = &*all.shared.identity.system;
    /// The size of an address.
    gauge "arch_bits": Bits = usize::BITS;
    /// What the monotonic clock reads.
    text "monotonic_clock" = if clock::uses_counter() { "processor's counter" } else { "POSIX clock_gettime" };
    /// The system interface of the event loop: io_uring or epoll.
    text "multiplexing_api" = all.shared.monitoring.statistics.thread(0).backend.get().copied().unwrap_or("none");
    /// The implementation of atomics.
    text "atomicvar_api" = "rust-builtin";
    /// Always 0.0.0, as no C compiler is used.
    text "gcc_version" = "0.0.0";
    /// The id of the process.
    gauge "process_id" = if sync::simulation::is_simulated() { 1 } else { process::id() };
    /// The supervisor of the process: systemd, upstart or no.
    text "process_supervised" = crate::process::supervisor::word();
    /// 40 hexadecimal digits, new at each start.
    text "run_id" = &*all.shared.identity.run_id;
    /// The port that the server listens on; if there is none, the TLS port.
    gauge "tcp_port" = if all.config.port != 0 { all.config.port } else { all.config.tls_port };
    /// The time of the report.
    gauge "server_time_usec": UnixMicroseconds = all.now_us;
    /// The time since the start.
    gauge "uptime_in_seconds": Seconds = uptime(all);
    /// The time since the start.
    gauge "uptime_in_days": Days = uptime(all) / 86_400;
    /// The frequency of periodic work in force.
    gauge "hz": PerSecond = all.config.hz.clamp(1, 500);
    /// The directive `hz`.
    gauge "configured_hz": PerSecond = all.config.hz;
    /// The frequency of the periodic work on clients.
    gauge "clients_hz": PerSecond = all.config.hz;
    /// The clock of the last accesses of keys, modulo 2^24.
    gauge "lru_clock": Seconds = (all.now_us / 1_000_000) & 0xFF_FFFF;
    /// The time that a shutdown still waits for replicas; shown while it does.
    gauge "shutdown_in_milliseconds": Milliseconds = shutdown_wait_ms(all),
        when all.shared.modes.shutdown.deadline().is_some();
    /// The path of the executable.
    text "executable" = &*all.shared.identity.executable;
    /// The path of the configuration file, or nothing.
    text "config_file" = config_file(all);
    /// Whether several workers serve connections.
    gauge "io_threads_active" = all.shared.several_threads_work();
    /// The number of workers that serve connections; it follows the load.
    gauge "io_threads_active_count" = all.shared.pool.active();
    /// The directive `availability-zone`.
    text "availability_zone" = &*all.config.availability_zone;
    /// A kind of address that the server listens on: its name, its addresses, and its port.
    text "listener{listener}", each Listener as label = all.listeners()[label.index].as_str();
};

/// The mode has Redis's name, Valkey's, or both: some clients require one, and tools that find the first detect Redis.
fn is_as_redis(all: &Gathered<'_>) -> bool {
    all.config.extended_redis_compatibility
}

fn is_as_valkey(all: &Gathered<'_>) -> bool {
    !is_as_redis(all) && all.shared.identity.executable.ends_with("valkey-server")
}

/// The time until a shutdown waits for replicas no longer.
fn shutdown_wait_ms(all: &Gathered<'_>) -> i64 {
    all.shared.modes.shutdown.deadline().map_or(0, |deadline| deadline.ms_since(Uptime::now()).max(0))
}

/// Seconds since the start.
fn uptime(all: &Gathered<'_>) -> i64 {
    (all.now_us / 1000 - all.shared.identity.started_at) / 1000
}

fn config_file(all: &Gathered<'_>) -> String {
    all.shared.identity.config_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}
