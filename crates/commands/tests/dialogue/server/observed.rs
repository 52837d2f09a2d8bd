//! `SLOWLOG`, `COMMANDLOG`, `LATENCY`, `MEMORY`, `DEBUG`, `INFO`, `TIME` and `LOLWUT`, on an idle server

use expect_test::expect;

use crate::check::check;

#[test]
fn slowlog() {
    check(expect![[r#"
        > SLOWLOG RESET
        +OK
        > SLOWLOG LEN x
        -ERR wrong number of arguments for 'slowlog|len' command
        > SLOWLOG GET -2
        -ERR count should be greater than or equal to -1
        > SLOWLOG GET abc
        -ERR count should be greater than or equal to -1
        > SLOWLOG GET 1 2
        -ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.
        > SLOWLOG NOPE
        -ERR unknown subcommand 'NOPE'. Try SLOWLOG HELP.
        > SLOWLOG
        -ERR wrong number of arguments for 'slowlog' command
    "#]]);
}

#[test]
fn commandlog() {
    check(expect![[r#"
        @valkey Redis has no COMMANDLOG
        > COMMANDLOG RESET slow
        +OK
        > COMMANDLOG RESET large-request
        +OK
        > COMMANDLOG LEN large-request
        0
        > COMMANDLOG GET 10 large-request
        []
        > COMMANDLOG LEN nope
        -ERR type should be one of the following: slow, large-request, large-reply
        > COMMANDLOG RESET
        -ERR wrong number of arguments for 'commandlog|reset' command
        > COMMANDLOG GET abc slow
        -ERR count should be greater than or equal to -1
        > COMMANDLOG GET -2 slow
        -ERR count should be greater than or equal to -1
        > COMMANDLOG GET 1
        -ERR wrong number of arguments for 'commandlog|get' command
        > COMMANDLOG NOPE
        -ERR unknown subcommand 'NOPE'. Try COMMANDLOG HELP.
    "#]]);
}

#[test]
fn latency() {
    check(expect![[r#"
        > LATENCY RESET
        0
        > LATENCY LATEST
        []
        > LATENCY HISTORY nope
        []
        > LATENCY HISTORY
        -ERR wrong number of arguments for 'latency|history' command
        > LATENCY RESET nope other
        0
        > LATENCY GRAPH nope
        -ERR No samples available for event 'nope'
        > LATENCY HISTOGRAM nope
        []
        > LATENCY NOPE
        -ERR unknown subcommand 'NOPE'. Try LATENCY HELP.
        @resp3
        > LATENCY LATEST
        []
        > LATENCY HISTOGRAM nope
        {}
    "#]]);
}

#[test]
fn memory() {
    check(expect![[r#"
        > MEMORY USAGE nope
        $-1
        > MEMORY USAGE
        -ERR wrong number of arguments for 'memory|usage' command
        > MEMORY USAGE k SAMPLES
        -ERR syntax error
        > MEMORY USAGE k SAMPLES -1
        -ERR syntax error
        > MEMORY USAGE k SAMPLES x
        -ERR value is not an integer or out of range
        > MEMORY USAGE k NOPE 1
        -ERR syntax error
        > MEMORY NOPE
        -ERR unknown subcommand 'NOPE'. Try MEMORY HELP.
        > MEMORY PURGE x
        -ERR wrong number of arguments for 'memory|purge' command
        > MEMORY STATS x
        -ERR wrong number of arguments for 'memory|stats' command
    "#]]);
}

/// A block of 16 bytes, and the key's share of the table.
#[test]
fn memory_usage() {
    check(expect![[r#"
        @ours the sizes depend on the memory layout
        > SET k v
        +OK
        > MEMORY USAGE k
        28
        > MEMORY USAGE k SAMPLES 0
        28
    "#]]);
}

#[test]
fn debug() {
    check(expect![[r#"
        @ours DEBUG is forbidden in this test only
        > DEBUG NOPE
        -ERR unknown subcommand 'NOPE'. Try DEBUG HELP.
        > DEBUG OBJECT nope
        -ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.
        > DEBUG SLEEP x
        -ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.
        > DEBUG SLEEP
        -ERR wrong number of arguments for 'debug' command
        > DEBUG SET-ACTIVE-EXPIRE
        -ERR wrong number of arguments for 'debug' command
        > DEBUG
        -ERR wrong number of arguments for 'debug' command
    "#]]);
}

#[test]
fn the_default_user() {
    check(expect![[r#"
        @valkey Redis has no database permissions of users
        > ACL GETUSER default
        ["flags", ["on", "nopass"], "passwords", [], "commands", "+@all", "keys", "~*", "channels", "&*", "databases", "alldbs", "selectors", []]
        > ACL GETUSER nobody
        $-1
    "#]]);
}

#[test]
fn random_passwords() {
    check(expect![[r#"
        @ours random numbers are constant here
        > ACL GENPASS
        "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"
        > ACL GENPASS 5
        "5a"
        > ACL GENPASS 12
        "5a5"
    "#]]);
    check(expect![[r#"
        > ACL GENPASS 0
        -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
        > ACL GENPASS -5
        -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
        > ACL GENPASS 4097
        -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
        > ACL GENPASS x
        -ERR value is not an integer or out of range
        > ACL GENPASS 5 6
        -ERR unknown subcommand or wrong number of arguments for 'GENPASS'. Try ACL HELP.
        > ACL CAT read write
        -ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.
    "#]]);
}

#[test]
fn time_and_others() {
    check(expect![[r#"
        > TIME x
        -ERR wrong number of arguments for 'time' command
        > LOLWUT VERSION x
        -ERR value is not an integer or out of range
        > DBSIZE
        0
        > DBSIZE x
        -ERR wrong number of arguments for 'dbsize' command
        > LASTSAVE x
        -ERR wrong number of arguments for 'lastsave' command
        > ROLE x
        -ERR wrong number of arguments for 'role' command
        > MONITOR x
        -ERR wrong number of arguments for 'monitor' command
        > SHUTDOWN NOPE
        -ERR syntax error
        > SHUTDOWN SAVE NOSAVE
        -ERR syntax error
    "#]]);
}
