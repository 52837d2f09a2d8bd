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
