//! The defaults, compared with those of real servers.

use config::{Config, find};

#[test]
fn defaults_are_those_of_valkey_and_redis() {
    let config = Config::default();
    let lines = include_str!("defaults.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let (name, expected) = line.split_once(' ').unwrap_or((line, ""));
        let directive = find(name.as_bytes()).unwrap_or_else(|| panic!("{name} is not known"));
        assert_eq!(String::from_utf8_lossy(&directive.value(&config)), expected, "{name}");
    }
}

/// Broadloom's own directives, and those of Redis and Valkey versions that the list of defaults does not cover.
#[test]
fn unlisted_directives_are_known_exceptions() {
    let listed = include_str!("defaults.txt");
    let is_listed = |name: &str| listed.lines().any(|line| line.split(' ').next() == Some(name));
    let shown = Config::default().matching(&[b"*"]);
    let others: Vec<&str> = shown.iter().map(|(name, _)| &**name).filter(|name| !is_listed(name)).collect();
    assert_eq!(
        others,
        [
            "admin-bind",
            "admin-password",
            "admin-port",
            "admin-tls",
            "aof-load-corrupt-tail-max-size",
            "bgsave-default-method",
            "cluster-slot-migration-handoff-max-lag-bytes",
            "cluster-slot-migration-write-pause-timeout",
            "compact-sparse-memory",
            "dir",
            "events-per-io-thread",
            "forkless-infrastructure-enabled",
            "io-backend",
            "io-threads",
            "io-threads-do-reads",
            "io-threads-grow-percent",
            "io-threads-min",
            "io-threads-shrink-percent",
            "key-memory-histograms",
            "lookahead",
            "proactor_threads",
            "rdb-version",
            "server-thread-affinity",
            "server-threads",
            "slowlog-entry-max-argc",
            "slowlog-entry-max-string-len",
            "snapshot-buffer-size",
            "snapshot-cpu-percent",
            "snapshot-threads",
            "stream-idmp-duration",
            "stream-idmp-maxsize",
            "syslog-ident",
            "threads",
            "vset-force-single-threaded-execution",
        ]
    );
}
