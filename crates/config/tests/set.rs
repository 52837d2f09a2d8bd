//! `CONFIG SET`: accepted values, the exact texts of errors, and atomicity.

use config::{Config, Id, MaxmemoryPolicy, NoFiles, SetCaller, SetError, ThreadCount};

const REMOTE: SetCaller = SetCaller { is_local: false, is_loading: false };

fn set(config: &Config, arguments: &[&str]) -> Result<config::Change, SetError> {
    let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
    config.with_changes(&arguments, REMOTE)
}

fn check_error(arguments: &[&str], expected: &str) {
    let error = set(&Config::default(), arguments).expect_err("is refused");
    assert_eq!(error.to_string(), expected);
}

fn check_value(name: &str, given: &str, expected: &str) {
    let change = set(&Config::default(), &[name, given]).expect("is accepted");
    let found = change.config.matching(&[name.as_bytes()]);
    assert_eq!(String::from_utf8_lossy(&found[0].1), expected, "{name} {given}");
}

#[test]
fn set_changes_typed_fields_and_lists_them() {
    let arguments = ["maxmemory", "1gb", "MAXMEMORY-policy", "AllKeys-LRU", "timeout", "0"];
    let change = set(&Config::default(), &arguments).unwrap();
    assert_eq!(change.config.maxmemory, 1 << 30);
    assert_eq!(change.config.maxmemory_policy, MaxmemoryPolicy::AllkeysLru);
    assert_eq!(change.changed, [Id::maxmemory, Id::maxmemory_policy]);
}

#[test]
fn some_texts_are_whole_and_others_end_at_a_nul() {
    for (name, given, expected) in [
        ("availability-zone", "a\0b", "a\0b"),
        ("cluster-announce-hostname", "a.b\0c", "a.b"),
        ("replica-announce-ip", "a\0b", "a"),
        ("requirepass", "a\0b", "a\0b"),
        ("masteruser", "a\0b", "a"),
        ("save", "9223372036854775808 1", "9223372036854775807 1"),
        ("maxmemory-policy", "noeviction\0x", "noeviction"),
        ("maxmemory", "1mb\0x", "1048576"),
    ] {
        check_value(name, given, expected);
    }
    let failed = |name: &str, reason: &str| {
        format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    for (name, given, reason) in [
        ("cluster-announce-ip", "1.2.3.4\0x", "cluster-announce-ip contains invalid character"),
        ("cluster-announce-human-nodename", "a\0b", "Announced human node name contained invalid character"),
        (
            "latency-tracking-info-percentiles",
            "50 99\0",
            "Invalid latency-tracking-info-percentiles parameters",
        ),
        ("maxmemory-clients", "1%\0", "argument must be a memory or percent value"),
        ("hz", "10\0", "argument couldn't be parsed into an integer"),
        (
            "client-output-buffer-limit",
            "normal 0 0 2147483648",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ),
    ] {
        check_error(&[name, given], &failed(name, reason));
    }
    check_error(&["hz\0x", "10"], "Unknown option or number of arguments for CONFIG SET - 'hz'");
}

#[test]
fn the_size_of_a_damaged_end_is_a_plain_number() {
    check_value("aof-load-corrupt-tail-max-size", "100", "100");
    for value in ["", "1kb", "9223372036854775808"] {
        check_error(
            &["aof-load-corrupt-tail-max-size", value],
            "CONFIG SET failed (possibly related to argument 'aof-load-corrupt-tail-max-size') - argument couldn't be \
             parsed into an integer",
        );
    }
}

#[test]
fn histograms_of_memory_are_enabled_at_start_only() {
    check_error(
        &["key-memory-histograms", "yes"],
        "CONFIG SET failed (possibly related to argument 'key-memory-histograms') - memory tracking cannot be enabled at \
         runtime",
    );
    check_value("key-memory-histograms", "no", "no");
    let enabled = Config { key_memory_histograms: true, ..Config::default() };
    assert!(set(&enabled, &["key-memory-histograms", "yes"]).is_ok());
    assert!(set(&enabled, &["key-memory-histograms", "no"]).is_ok());
}

#[test]
fn one_refusal_leaves_all_values_unchanged() {
    let before = Config::default();
    assert!(set(&before, &["timeout", "5", "maxclients", "0"]).is_err());
    assert_eq!(before, Config::default());
}

#[test]
fn printed_forms() {
    check_value("maxmemory", "1k", "1000");
    check_value("maxmemory", "", "0");
    check_value("maxmemory-clients", "5%", "5%");
    check_value("maxmemory-clients", "0%", "0");
    check_value("maxmemory-clients", "1mb", "1048576");
    check_value("save", "", "");
    check_value("save", "60 1 10 100", "60 1 10 100");
    check_value("bind", "", "");
    check_value("bind", "127.0.0.1 -::1", "127.0.0.1 -::1");
    check_value("hz", "100000", "500");
    check_value("hz", "0", "1");
    check_value("rdbcompression", "NO", "no");
    check_value("oom-score-adj", "relative", "yes");
    check_value("oom-score-adj-values", "1 2 3", "1 2 3");
    check_value("notify-keyspace-events", "KEA", "AKE");
    check_value("notify-keyspace-events", "Ex", "xE");
    check_value("notify-keyspace-events", "g$lshzxetd", "A");
    check_value("notify-keyspace-events", "AKEn", "AnKE");
    check_value("shutdown-on-sigterm", "nosave now", "nosave now");
    check_value("shutdown-on-sigterm", "default", "default");
    check_value("latency-tracking-info-percentiles", "50.0 99.900 100", "50 99.9 100");
    check_value("latency-tracking-info-percentiles", "", "");
    check_value(
        "client-output-buffer-limit",
        "replica 1mb 2kb 3 normal 1 2 3",
        "normal 1 2 3 slave 1048576 2048 3 pubsub 33554432 8388608 60",
    );
    check_value("latency-tracking-info-percentiles", "-0", "-0");
    check_value("save", "60 ", "60 0");
    check_value("cluster-blacklist-ttl", "-1", "-1");
    check_value("repl-backlog-size", "1", "16384");
    check_value("slave-priority", "7", "7");
    check_value("commandlog-execution-slower-than", "-1", "-1");
}

#[test]
fn values_end_at_a_nul_except_numbers_and_passwords() {
    check_value("activedefrag", "yes\0no", "yes");
    check_value("maxmemory", "1kb\0x", "1024");
    check_value("bind-source-addr", "a\0b", "a");
    check_value("requirepass", "a\0b", "a\0b");
    check_error(
        &["timeout", "1\0"],
        "CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer",
    );
}

#[test]
fn an_alias_sets_its_directive() {
    let change = set(&Config::default(), &["lua-time-limit", "7"]).unwrap();
    assert_eq!(change.config.busy_reply_threshold, 7);
    assert_eq!(change.changed, [Id::busy_reply_threshold]);
}

#[test]
fn threads_answer_the_effective_number() {
    let mut config = Config::default();
    config.io_threads.resolve(6);
    assert_eq!(config.matching(&[b"io-threads"])[0].1, b"6");
    assert!(config.io_threads.is_automatic());

    let mut config = set(&config, &["io-threads", "3"]).unwrap().config;
    config.io_threads.resolve(6);
    assert_eq!(config.io_threads.count(), 3);

    let config = set(&config, &["io-threads", "0"]).unwrap().config;
    assert_eq!(config.io_threads, ThreadCount::default());
}

#[test]
fn refusals_of_the_request() {
    check_error(&[], "syntax error");
    check_error(&["timeout"], "syntax error");
    check_error(&["foo", "1"], "Unknown option or number of arguments for CONFIG SET - 'foo'");
    check_error(
        &["Timeout", "1", "timeout", "2"],
        "CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter",
    );
    check_error(
        &["databases", "1"],
        "CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
    );
    check_error(
        &["dir", "/tmp"],
        "CONFIG SET failed (possibly related to argument 'dir') - can't set protected config",
    );
}

#[test]
fn refusals_of_values() {
    for (name, value, reason) in [
        ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
        ("maxclients", "-1", "argument must be between 1 and 4294967295 inclusive"),
        ("maxclients", "x", "argument couldn't be parsed into an integer"),
        ("maxclients", "", "argument couldn't be parsed into an integer"),
        ("timeout", "2147483648", "argument must be between 0 and 2147483647 inclusive"),
        ("maxmemory", "1tb", "argument must be a memory value"),
        ("maxmemory", "-1", "argument must be a memory value"),
        ("proto-max-bulk-len", "1kb", "argument must be between 1048576 and 9223372036854775807 inclusive"),
        ("maxmemory-clients", "101%", "percentage argument must be less or equal to 100"),
        ("maxmemory-clients", "-5%", "argument must be a memory or percent value"),
        ("maxmemory-clients", "x", "argument must be a memory or percent value"),
        ("dynamic-hz", "maybe", "argument must be 'yes' or 'no'"),
        (
            "loglevel",
            "loud",
            "argument(s) must be one of the following: debug, verbose, notice, warning, nothing",
        ),
        (
            "maxmemory-policy",
            "",
            "argument(s) must be one of the following: volatile-lru, volatile-lrm, volatile-lfu, volatile-random, \
             volatile-ttl, allkeys-lru, allkeys-lrm, allkeys-lfu, allkeys-random, noeviction",
        ),
        ("save", "60", "Invalid save parameters"),
        ("save", "0 1", "Invalid save parameters"),
        ("save", "1 x", "Invalid save parameters"),
        ("save", "1 -1", "Invalid save parameters"),
        ("bind", "1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7", "Too many bind addresses specified."),
        ("oom-score-adj-values", "1 2", "wrong number of arguments"),
        (
            "oom-score-adj-values",
            "1 2 2001",
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
        ),
        ("notify-keyspace-events", "q", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
        (
            "client-output-buffer-limit",
            "normal 1 2",
            "Wrong number of arguments in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit",
            "master 1 2 3",
            "Invalid client class specified in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit",
            "normal 1 x 3",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ),
        ("latency-tracking-info-percentiles", "a", "Invalid latency-tracking-info-percentiles parameters"),
        (
            "latency-tracking-info-percentiles",
            "50 100.1",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
        ),
        (
            "shutdown-on-sigint",
            "save nosave",
            "shutdown options SAVE and NOSAVE can't be used simultaneously",
        ),
        (
            "shutdown-on-sigint",
            "",
            "argument(s) must be one of the following: default, save, nosave, now, force, safe, failover",
        ),
        ("proc-title-template", "{x}", "template format is invalid or contains unknown variables"),
    ] {
        check_error(
            &[name, value],
            &format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}"),
        );
    }
}

#[test]
fn protected_directives_follow_enable_protected_configs() {
    let local = SetCaller { is_local: true, is_loading: false };
    let mut config = Config::default();
    for (allowed, to_remote, to_local) in [("no", false, false), ("local", false, true), ("yes", true, true)]
    {
        let text = format!("enable-protected-configs {allowed}");
        config = config::load_text(text.as_bytes(), &mut NoFiles).unwrap().config;
        let arguments: [&[u8]; 2] = [b"dbfilename", b"x.rdb"];
        assert_eq!(config.with_changes(&arguments, REMOTE).is_ok(), to_remote, "{allowed}");
        assert_eq!(config.with_changes(&arguments, local).is_ok(), to_local, "{allowed}");
    }
    let loading = SetCaller { is_local: false, is_loading: true };
    assert_eq!(config.with_changes(&[b"appendonly", b"yes"], loading), Err(SetError::Loading));
}

#[test]
fn unsupported_values_are_refused() {
    check_error(
        &["cluster-enabled", "yes"],
        "CONFIG SET failed (possibly related to argument 'cluster-enabled') - can't set immutable config",
    );
    assert_eq!(set(&Config::default(), &["appendonly", "no", "tls-port", "0"]).unwrap().changed, []);
}

#[test]
fn our_own_immutable_directives_take_the_value_they_have() {
    let immutable = |name| {
        format!("CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config")
    };
    for (name, same, other) in [("io-backend", "auto", "epoll"), ("server-thread-affinity", "no", "yes")] {
        assert_eq!(set(&Config::default(), &[name, same]).unwrap().changed, []);
        check_error(&[name, other], &immutable(name));
    }
    check_error(&["daemonize", "no"], &immutable("daemonize"));
}

#[test]
fn negative_sizes_with_a_meaning() {
    check_value("slot-migration-max-failover-repl-bytes", "-1", "-1");
    check_value("slot-migration-max-failover-repl-bytes", "1kb", "1024");
    check_value("slot-migration-max-failover-repl-bytes", "18446744073709551615", "-1");
    check_value("maxmemory-clients", "18446744073709551615", "1%");
    check_error(
        &["maxmemory-clients", "9223372036854775808"],
        "CONFIG SET failed (possibly related to argument 'maxmemory-clients') - \
         percentage argument must be less or equal to 100",
    );
    check_error(
        &["slot-migration-max-failover-repl-bytes", "-2"],
        "CONFIG SET failed (possibly related to argument 'slot-migration-max-failover-repl-bytes') - \
         argument must be between -1 and 9223372036854775807 inclusive",
    );
}

#[test]
fn certificates_count_as_changed_even_with_the_same_name() {
    let config = set(&Config::default(), &["tls-cert-file", "a.crt"]).unwrap().config;
    assert_eq!(set(&config, &["tls-cert-file", "a.crt"]).unwrap().changed, [Id::tls_cert_file]);
}

#[test]
fn secrets_are_named_and_kept_out_of_debug_output() {
    assert!(config::is_sensitive(b"RequirePass"));
    assert!(config::is_sensitive(b"primaryauth"));
    assert!(!config::is_sensitive(b"port"));
    let config = set(&Config::default(), &["requirepass", "hush"]).unwrap().config;
    assert_eq!(config.requirepass.reveal(), Some(b"hush".as_slice()));
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn refusals_by_the_server_match_redis() {
    let error = SetError::refused(Id::port, "Unable to listen on this port. Check server logs.");
    let expected = "CONFIG SET failed (possibly related to argument 'port') - \
                    Unable to listen on this port. Check server logs.";
    assert_eq!(error.to_string(), expected);
}
