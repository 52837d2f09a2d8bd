//! `MULTI`, `EXEC` and `DISCARD`

use expect_test::expect;

use crate::check::check;

#[test]
fn exec_runs_the_queued_commands() {
    check(expect![[r#"
        > EXEC
        -ERR EXEC without MULTI
        > DISCARD
        -ERR DISCARD without MULTI
        > MULTI
        +OK
        > SET a 1
        +QUEUED
        > INCR a
        +QUEUED
        > GET a
        +QUEUED
        > DEL a nothing
        +QUEUED
        > EXEC
        [+OK, 2, "2", 1]
        > EXEC
        -ERR EXEC without MULTI
        > GET a
        $-1
        > MULTI
        +OK
        > EXEC
        []
        > MULTI
        +OK
        > SET a 2
        +QUEUED
        > DISCARD
        +OK
        > GET a
        $-1
        > DISCARD
        -ERR DISCARD without MULTI
    "#]]);
}

#[test]
fn an_error_stays_in_its_place() {
    check(expect![[r#"
        > SET a x
        +OK
        > MULTI
        +OK
        > INCR a
        +QUEUED
        > SET b 1
        +QUEUED
        > EXPIRE b x
        +QUEUED
        > GET b
        +QUEUED
        > EXEC
        [-ERR value is not an integer or out of range, +OK, -ERR value is not an integer or out of range, "1"]
        > GET b
        "1"
        @resp3
        > MULTI
        +OK
        > INCR a
        +QUEUED
        > GET nothing
        +QUEUED
        > EXEC
        [-ERR value is not an integer or out of range, _]
    "#]]);
}

#[test]
fn refused_while_queued() {
    check(expect![[r#"
        @valkey Redis has other error texts
        > MULTI
        +OK
        > SET a
        -ERR wrong number of arguments for 'set' command
        > SET a 1
        +QUEUED
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        > GET a
        $-1
        > MULTI
        +OK
        > SET a 1
        +QUEUED
        > EXEC
        [+OK]
        > GET a
        "1"
        > MULTI
        +OK
        > MULTI
        -ERR Command 'multi' not allowed inside a transaction
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
        > MULTI
        +OK
        > WATCH a
        -ERR Command 'watch' not allowed inside a transaction
        > DISCARD
        +OK
        > WATCH a
        +OK
        > MULTI
        +OK
        > WATCH a
        -ERR Command 'watch' not allowed inside a transaction
        > EXEC
        -EXECABORT Transaction discarded because of previous errors.
    "#]]);
}

#[test]
fn keys_and_databases_inside() {
    check(expect![[r#"
        > SET a 1
        +OK
        > MULTI
        +OK
        > KEYS *
        +QUEUED
        > SCAN 0 COUNT 100000
        +QUEUED
        > DBSIZE
        +QUEUED
        > RANDOMKEY
        +QUEUED
        > MOVE a 1
        +QUEUED
        > DBSIZE
        +QUEUED
        > RANDOMKEY
        +QUEUED
        > SWAPDB 0 1
        +QUEUED
        > GET a
        +QUEUED
        > FLUSHALL
        +QUEUED
        > DBSIZE
        +QUEUED
        > SCAN 0
        +QUEUED
        > EXEC
        [["a"], ["0", ["a"]], 1, "a", 1, 0, $-1, +OK, "1", +OK, 0, ["0", []]]
    "#]]);
}

#[test]
fn wait_in_a_transaction_replies_immediately() {
    check(expect![[r#"
        > MULTI
        +OK
        > WAIT 1 0
        +QUEUED
        > WAITAOF 0 1 0
        +QUEUED
        > EXEC
        [0, [0, 0]]
    "#]]);
}

#[test]
fn wrong_argument_counts() {
    check(expect![[r#"
        > MULTI x
        -ERR wrong number of arguments for 'multi' command
        > DISCARD x
        -ERR wrong number of arguments for 'discard' command
        > UNWATCH x
        -ERR wrong number of arguments for 'unwatch' command
        > WATCH
        -ERR wrong number of arguments for 'watch' command
    "#]]);
}
