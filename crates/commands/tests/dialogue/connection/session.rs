//! `PING`, `ECHO`, `SELECT`, `HELLO`, `AUTH`, `RESET` and `QUIT`

use expect_test::expect;

use crate::check::check;

#[test]
fn ping_and_echo() {
    check(expect![[r#"
        > PING
        +PONG
        > PING "a\x00b"
        "a\x00b"
        > PING a b
        -ERR wrong number of arguments for 'ping' command
        > ECHO hello
        "hello"
        > ECHO ""
        ""
        > ECHO
        -ERR wrong number of arguments for 'echo' command
        > ECHO a b
        -ERR wrong number of arguments for 'echo' command
        @resp3
        > PING
        +PONG
        > PING x
        "x"
        > ECHO x
        "x"
    "#]]);
}

#[test]
fn select_takes_a_database() {
    check(expect![[r#"
        > SELECT 15
        +OK
        > SET k 1
        +OK
        > SELECT 0
        +OK
        > GET k
        $-1
        > SELECT 15
        +OK
        > GET k
        "1"
        > SELECT 16
        -ERR DB index is out of range
        > SELECT -1
        -ERR DB index is out of range
        > SELECT one
        -ERR value is not an integer or out of range
        > SELECT 99999999999999999999
        -ERR value is not an integer or out of range
        > SELECT
        -ERR wrong number of arguments for 'select' command
        > SELECT 1 2
        -ERR wrong number of arguments for 'select' command
        > GET k
        "1"
    "#]]);
}

#[test]
fn hello_refuses() {
    check(expect![[r#"
        > HELLO 1
        -NOPROTO unsupported protocol version
        > HELLO 4
        -NOPROTO unsupported protocol version
        > HELLO three
        -ERR Protocol version is not an integer or out of range
        > HELLO 3 SETNAME
        -ERR Syntax error in HELLO option 'SETNAME'
        > HELLO 3 SETNAME "a b"
        -ERR Client names cannot contain spaces, newlines or special characters.
        > HELLO 3 AUTH
        -ERR Syntax error in HELLO option 'AUTH'
        > HELLO 3 AUTH default
        -ERR Syntax error in HELLO option 'AUTH'
        > HELLO 3 NOPE
        -ERR Syntax error in HELLO option 'NOPE'
        > HELLO 3 AUTH nobody wrong
        -WRONGPASS invalid username-password pair or user is disabled.
        > CLIENT GETNAME
        $-1
    "#]]);
}

#[test]
fn auth_without_a_password() {
    check(expect![[r#"
        > AUTH
        -ERR wrong number of arguments for 'auth' command
        > AUTH secret
        -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        > AUTH default secret
        +OK
        > AUTH nobody secret
        -WRONGPASS invalid username-password pair or user is disabled.
        > AUTH a b c
        -ERR syntax error
        @resp3
        > AUTH secret
        -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        > AUTH nobody secret
        -WRONGPASS invalid username-password pair or user is disabled.
    "#]]);
}

#[test]
fn reset_restores_the_initial_state() {
    check(expect![[r#"
        > CLIENT SETNAME me
        +OK
        > SELECT 3
        +OK
        > MULTI
        +OK
        > SET k 1
        +QUEUED
        > RESET
        +RESET
        > CLIENT GETNAME
        $-1
        > EXEC
        -ERR EXEC without MULTI
        > WATCH k
        +OK
        > RESET
        +RESET
        > RESET now
        -ERR wrong number of arguments for 'reset' command
        @resp3
        > RESET
        +RESET
        > CLIENT GETNAME
        $-1
    "#]]);
}

#[test]
fn quit_accepts_any_arguments() {
    check(expect![[r#"
        > QUIT
        +OK
    "#]]);
}
