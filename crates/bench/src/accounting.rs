//! CPU time and resident memory of a process, from /proc.
//!
//! CPU time is the sum of each thread's `schedstat`, in nanoseconds. A thread that ended between two
//! samples is missing from that sum; then the process's `stat`, which includes ended threads, is used at a
//! resolution of clock ticks.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Reads the CPU time of one process.
#[derive(Clone, Copy, Debug)]
pub struct CpuMeter {
    pid: u32,
}

/// CPU time used up to one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSample {
    /// Nanoseconds of each live thread; empty if the kernel has no `schedstat`.
    thread_ns: BTreeMap<u32, u64>,
    /// User and system time of the process, ended threads included.
    process: Duration,
}

impl CpuMeter {
    /// Creates a meter for the process `pid`.
    #[must_use]
    pub const fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// Takes a sample now.
    pub fn sample(&self) -> io::Result<CpuSample> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let ticks = parse_stat_ticks(&stat).ok_or_else(|| malformed("process's stat"))?;
        let process = ticks_to_time(ticks);
        let mut thread_ns = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let entry = entry?;
            // A thread that ends between the listing and the read is skipped as ended.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else {
                continue;
            };
            let thread_id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Some(thread_id), Some(ns)) = (thread_id, parse_schedstat_ns(&text)) {
                thread_ns.insert(thread_id, ns);
            }
        }
        Ok(CpuSample { thread_ns, process })
    }
}

impl CpuSample {
    /// Returns the CPU time used since an earlier sample of the same process.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Duration {
        let all_alive = earlier.thread_ns.keys().all(|thread| self.thread_ns.contains_key(thread));
        if !all_alive || self.thread_ns.is_empty() {
            return self.process.saturating_sub(earlier.process);
        }
        let used = self.thread_ns.iter().map(|(thread, ns)| {
            let before_ns = earlier.thread_ns.get(thread).copied().unwrap_or(0);
            ns.saturating_sub(before_ns)
        });
        Duration::from_nanos(used.sum())
    }
}

/// Returns the CPU time used by all processes of the machine, plus the time stolen by the hypervisor.
pub fn machine_cpu_time() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let ticks = parse_machine_ticks(&stat).ok_or_else(|| malformed("machine's stat"))?;
    Ok(ticks_to_time(ticks))
}

/// Returns the resident memory of a process in bytes: the exact sum over its mappings, or the kernel's
/// estimate.
pub fn resident_size(pid: u32) -> io::Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    if let Some(size) = parse_size_field(&rollup, "Rss:") {
        return Ok(size);
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_size_field(&status, "VmRSS:").ok_or_else(|| malformed("process's status"))
}

/// Whether the process owns the socket that listens on `address`. Guards against a process id that belongs
/// to another machine or container.
#[must_use]
pub fn listens_on(pid: u32, address: SocketAddr) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inodes: Vec<String> = tables
        .iter()
        .flat_map(|table| listening_inodes(table, address.port()))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.into_iter().any(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()))
}

/// Returns user plus system time, fields 14 and 15 of `/proc/<pid>/stat`. The name in field 2 may contain
/// spaces and parentheses.
fn parse_stat_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Sums user, nice, system, irq, softirq and steal of the first line of `/proc/stat`: all but idle and
/// iowait.
fn parse_machine_ticks(stat: &str) -> Option<u64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let fields = fields.map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

fn ticks_to_time(ticks: u64) -> Duration {
    Duration::from_nanos(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Returns the time on a CPU, the first field of `/proc/<pid>/task/<tid>/schedstat`.
fn parse_schedstat_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the bytes in a line such as `Rss:   1234 kB`.
fn parse_size_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the inodes of the sockets in state LISTEN (0A) on this port, from a `/proc/net/tcp` table.
fn listening_inodes(table: &str, port: u16) -> Vec<&str> {
    let port = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 9 && row[1].ends_with(&port) && row[3] == "0A").map(|row| row[9]).collect()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot read the {what}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn sample(threads: &[(u32, u64)], process_ms: u64) -> CpuSample {
        CpuSample { thread_ns: threads.iter().copied().collect(), process: Duration::from_millis(process_ms) }
    }

    #[test]
    fn stat_with_an_awkward_name() {
        let stat = "77 (a) b (c) S 1 77 77 0 -1 4194560 100 0 0 0 1234 66 0 0 20 0 4 0 55 1000 20 18446744073709551615";
        assert_eq!(parse_stat_ticks(stat), Some(1_300));
        assert_eq!(parse_stat_ticks("77 (x) S 1"), None);
        assert_eq!(parse_stat_ticks(""), None);
    }

    #[test]
    fn machine_cpu_time_excludes_idle_time() {
        let stat = "cpu  100 1 20 9999 888 3 4 5 0 0\ncpu0 50 1 20 9999 888 3 4 5 0 0\n";
        assert_eq!(parse_machine_ticks(stat), Some(133));
        assert_eq!(parse_machine_ticks("intr 5"), None);
        assert!(machine_cpu_time().unwrap() > Duration::ZERO);
    }

    #[test]
    fn schedstat_and_sizes() {
        assert_eq!(parse_schedstat_ns("123456789 99 42\n"), Some(123_456_789));
        assert_eq!(parse_schedstat_ns(""), None);
        let rollup = "00400000-7ffc000 ---p 00000000 00:00 0   [rollup]\nRss:       1232 kB\nPss:   900 kB\n";
        assert_eq!(parse_size_field(rollup, "Rss:"), Some(1_232 * 1_024));
        assert_eq!(parse_size_field(rollup, "VmRSS:"), None);
    }

    #[test]
    fn threads_are_summed() {
        let (start, end) = (sample(&[(1, 100), (2, 50)], 0), sample(&[(1, 150), (2, 50), (3, 7)], 10));
        assert_eq!(end.since(&start), Duration::from_nanos(57));
    }

    #[test]
    fn an_ended_thread_makes_the_process_account_count() {
        let (start, end) = (sample(&[(1, 100), (2, 50)], 20), sample(&[(1, 150)], 50));
        assert_eq!(end.since(&start), Duration::from_millis(30));
        assert_eq!(sample(&[], 50).since(&sample(&[], 20)), Duration::from_millis(30));
    }

    #[test]
    fn this_process_is_accounted() {
        let meter = CpuMeter::new(std::process::id());
        let start = meter.sample().unwrap();
        let mut sum = 0u64;
        while meter.sample().unwrap().since(&start) < Duration::from_millis(20) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(resident_size(std::process::id()).unwrap() > 500_000);
    }

    #[test]
    fn listening_sockets_are_distinguished_by_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 1 0 100 0 0 10 0\n\
            1: 0100007F:18EB 0100007F:D431 01 00000000:00000000 00:00000000 00000000  0  0 4712 1 0 100 0 0 10 0\n";
        assert_eq!(listening_inodes(table, 6379), ["4711"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listens_on(std::process::id(), listener.local_addr().unwrap()));
        assert!(!listens_on(1, listener.local_addr().unwrap()));
    }
}
