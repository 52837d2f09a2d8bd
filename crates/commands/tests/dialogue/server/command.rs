//! `COMMAND` and its subcommands

use expect_test::expect;

use crate::check::check;

#[test]
fn absent_features_have_their_replies() {
    check(expect![[r#"
        @valkey Redis has another error text
        > READONLY
        +OK
        > READWRITE
        +OK
        > ASKING
        -ERR This instance has cluster support disabled
        > CLUSTER INFO
        -ERR This instance has cluster support disabled
        > CLUSTER HELP
        -ERR This instance has cluster support disabled
        > CLUSTER COUNTKEYSINSLOT 1
        -ERR This instance has cluster support disabled
        > CLUSTER FAILOVER
        -ERR This instance has cluster support disabled
        > CLUSTER ADDSLOTS
        -ERR wrong number of arguments for 'cluster|addslots' command
        > CLUSTER NOPE
        -ERR unknown subcommand 'NOPE'. Try CLUSTER HELP.
        > CLUSTER KEYSLOT
        -ERR wrong number of arguments for 'cluster|keyslot' command
        > CLUSTERSCAN 0
        -ERR This instance has cluster support disabled
        > REPLICAOF NO ONE
        +OK
        > SLAVEOF no one
        +OK
        > REPLICAOF NO
        -ERR wrong number of arguments for 'replicaof' command
        > REPLICAOF NO TWO
        -ERR Invalid master port
        > REPLICAOF host 65536
        -ERR Invalid master port
        > FAILOVER
        -ERR FAILOVER requires connected replicas.
        > FAILOVER ABORT
        -ERR No failover in progress.
        > FAILOVER ABORT TIMEOUT 3
        -ERR syntax error
        > FAILOVER TO host 6379 FORCE TIMEOUT 10
        -ERR FAILOVER requires connected replicas.
        > FAILOVER TO host
        -ERR syntax error
        > FAILOVER TO host x
        -ERR value is not an integer or out of range
        > FAILOVER TIMEOUT x
        -ERR value is not an integer or out of range
        > FAILOVER TIMEOUT 0
        -ERR FAILOVER timeout must be greater than 0
        > FAILOVER TIMEOUT 1 TIMEOUT 2
        -ERR syntax error
        > FAILOVER NOPE
        -ERR syntax error
        > ROLE
        ["master", 0, []]
        > MODULE LOAD x.so
        -ERR MODULE command not allowed. If the enable-module-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.
        > MODULE UNLOAD x
        -ERR MODULE command not allowed. If the enable-module-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.
        > MODULE LIST x
        -ERR wrong number of arguments for 'module|list' command
        > COMMAND INFO readonly readwrite asking "module|list" "module|load"
        [["readonly", 1, [+loading, +stale, +fast], 0, 0, 0, [+@fast, +@connection], [], [], []], ["readwrite", 1, [+loading, +stale, +fast], 0, 0, 0, [+@fast, +@connection], [], [], []], ["asking", 1, [+fast], 0, 0, 0, [+@fast, +@connection], [], [], []], ["module|list", 2, [+admin, +noscript], 0, 0, 0, [+@admin, +@slow, +@dangerous], ["nondeterministic_output_order"], [], []], ["module|load", -3, [+admin, +noscript, +no_async_loading], 0, 0, 0, [+@admin, +@slow, +@dangerous], [], [], []]]
    "#]]);
    check(expect![[r#"
        @ours Redis has modules of its own
        > MODULE LIST
        []
    "#]]);
}

#[test]
fn keyslot_needs_no_cluster() {
    check(expect![[r#"
        @valkey Redis requires cluster mode
        > CLUSTER KEYSLOT foo
        12182
        > CLUSTER KEYSLOT 123456789
        12739
        > CLUSTER KEYSLOT ""
        0
        > CLUSTER KEYSLOT "{user1000}.following"
        3443
        > CLUSTER KEYSLOT user1000
        3443
        > CLUSTER KEYSLOT "foo{}{bar}"
        8363
        > CLUSTER KEYSLOT "foo{{bar}}zap"
        4015
        > CLUSTER KEYSLOT "foo{bar}{zap}"
        5061
        > CLUSTER KEYSLOT "foo{bar"
        15278
        > CLUSTER KEYSLOT "}foo{bar}"
        5061
    "#]]);
}

#[test]
fn the_port_of_a_primary_is_checked() {
    check(expect![[r#"
        > REPLICAOF NO ONE
        +OK
        > REPLICAOF host 65536
        -ERR Invalid master port
        > SLAVEOF host port
        -ERR Invalid master port
    "#]]);
}

#[test]
fn getkeys() {
    check(expect![[r#"
        > COMMAND GETKEYS GET k
        ["k"]
        > COMMAND GETKEYS MSET a 1 b 2
        ["a", "b"]
        > COMMAND GETKEYS BITOP AND d a b
        ["d", "a", "b"]
        > COMMAND GETKEYS SORT k LIMIT a b GET STORE STORE d STORE e more
        ["k", "e"]
        > COMMAND GETKEYS SORT k STORE
        ["k"]
        > COMMAND GETKEYS SORT k BY x STORE STORE d
        ["k", "d"]
        > COMMAND GETKEYS SORT k STORE BY x STORE d
        ["k", "d"]
        > COMMAND GETKEYS SORT k BY STORE d
        ["k"]
        > COMMAND GETKEYS SET k
        -ERR Invalid number of arguments specified for command
        > COMMAND GETKEYS PING
        -ERR The command has no key arguments
        > COMMAND GETKEYS NOPE k
        -ERR Invalid command specified
        > COMMAND GETKEYS GET
        -ERR Invalid number of arguments specified for command
        > COMMAND GETKEYS
        -ERR wrong number of arguments for 'command|getkeys' command
        > COMMAND GETKEYS MEMORY USAGE k
        ["k"]
        > COMMAND GETKEYSANDFLAGS SET k v
        [["k", [+OW, +update]]]
        > COMMAND GETKEYSANDFLAGS SET k v GET
        [["k", [+RW, +access, +update]]]
        @differs redis-8.4 it calls the comparison a reading
        > COMMAND GETKEYSANDFLAGS SET k v IFEQ x
        [["k", [+OW, +update]]]
        > COMMAND GETKEYSANDFLAGS SET k v XX IFDNE GET
        [["k", [+RW, +access, +update]]]
        @differs valkey it does not have the option
        @differs redis<8.4 it does not have the option
        > COMMAND GETKEYSANDFLAGS SET k v IFNE x
        [["k", [+RW, +update]]]
        @differs valkey it does not have the command
        @differs redis<8.2 it does not have the command
        > COMMAND GETKEYSANDFLAGS XACKDEL k g IDS 1 1-1
        [["k", [+RW, +update, +delete]]]
        > COMMAND GETKEYSANDFLAGS SET GET GET
        [["GET", [+OW, +update]]]
        > COMMAND GETKEYSANDFLAGS BITFIELD k GET u8 0 OVERFLOW SAT
        [["k", [+RO, +access]]]
        > COMMAND GETKEYSANDFLAGS BITFIELD k SET u8 0 1
        [["k", [+RW, +access, +update]]]
        > COMMAND GETKEYSANDFLAGS BITFIELD k NOPE
        [["k", [+RW, +access, +update]]]
        > COMMAND GETKEYS LMPOP 3 a b c
        ["a", "b", "c"]
        > COMMAND GETKEYS LMPOP 4 a b c
        -ERR Invalid arguments specified for command
        > COMMAND GETKEYS DEBUG OBJECT k
        -ERR The command has no key arguments
        > COMMAND GETKEYS SPUBLISH channel message
        -ERR The command has no key arguments
        > COMMAND GETKEYS ZUNIONSTORE d 2 a b
        ["d", "a", "b"]
        > COMMAND GETKEYS ZUNIONSTORE d 3 a b
        -ERR Invalid arguments specified for command
        > COMMAND GETKEYS EVAL "return 1" 0
        []
        > COMMAND GETKEYS EVAL "return 1" 2147483647 k
        []
        > COMMAND GETKEYS EVAL "return 1" 1 k
        ["k"]
        > COMMAND GETKEYSANDFLAGS FCALL_RO f -1 k
        []
        > COMMAND GETKEYSANDFLAGS GET k
        [["k", [+RO, +access]]]
        > COMMAND GETKEYSANDFLAGS PING
        -ERR The command has no key arguments
        @resp3
        > COMMAND GETKEYS MSET a 1 b 2
        ["a", "b"]
        > COMMAND GETKEYSANDFLAGS COPY a b
        [["a", ~[+RO, +access]], ["b", ~[+OW, +update]]]
    "#]]);
}

#[test]
fn info() {
    check(expect![[r#"
        > COMMAND INFO get
        [["get", 2, [+readonly, +fast], 1, 1, 1, [+@read, +@string, +@fast], [], [["flags", [+RO, +access], "begin_search", ["type", "index", "spec", ["index", 1]], "find_keys", ["type", "range", "spec", ["lastkey", 0, "keystep", 1, "limit", 0]]]], []]]
        > COMMAND INFO nope
        [$-1]
        > COMMAND INFO get nope echo
        [["get", 2, [+readonly, +fast], 1, 1, 1, [+@read, +@string, +@fast], [], [["flags", [+RO, +access], "begin_search", ["type", "index", "spec", ["index", 1]], "find_keys", ["type", "range", "spec", ["lastkey", 0, "keystep", 1, "limit", 0]]]], []], $-1, ["echo", 2, [+loading, +stale, +fast], 0, 0, 0, [+@fast, +@connection], [], [], []]]
        > COMMAND INFO "config|get"
        [["config|get", -3, [+admin, +noscript, +loading, +stale], 0, 0, 0, [+@admin, +@slow, +@dangerous], [], [], []]]
        > COMMAND INFO "config|nope"
        [$-1]
        @resp3
        @differs redis it shows subcommands as a set
        > COMMAND INFO get
        [["get", 2, ~[+readonly, +fast], 1, 1, 1, ~[+@read, +@string, +@fast], ~[], ~[{"flags": ~[+RO, +access], "begin_search": {"type": "index", "spec": {"index": 1}}, "find_keys": {"type": "range", "spec": {"lastkey": 0, "keystep": 1, "limit": 0}}}], []]]
        > COMMAND INFO nope
        [_]
    "#]]);
}

#[test]
fn list() {
    check(expect![[r#"
        > COMMAND LIST FILTERBY PATTERN "bitfield_*"
        ["bitfield_ro"]
        > COMMAND LIST FILTERBY PATTERN nope
        []
        > COMMAND LIST FILTERBY ACLCAT nope
        []
        > COMMAND LIST FILTERBY MODULE nope
        []
        > COMMAND LIST FILTERBY NOPE x
        -ERR syntax error
        > COMMAND LIST FILTERBY
        -ERR syntax error
        > COMMAND LIST nope
        -ERR syntax error
        > COMMAND DOCS nope
        []
        > COMMAND NOPE
        -ERR unknown subcommand 'NOPE'. Try COMMAND HELP.
        > COMMAND COUNT x
        -ERR wrong number of arguments for 'command|count' command
    "#]]);
}
