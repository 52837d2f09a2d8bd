//! `WATCH` and `UNWATCH`, tested with a single connection

use expect_test::expect;

use crate::check::check;

#[test]
fn a_change_aborts_exec() {
    check(expect![[r#"
        > WATCH a
        +OK
        > MULTI
        +OK
        > SET b 1
        +QUEUED
        > EXEC
        [+OK]
        > WATCH a
        +OK
        > SET a 1
        +OK
        > MULTI
        +OK
        > SET b 2
        +QUEUED
        > EXEC
        *-1
        > GET b
        "1"
        > MULTI
        +OK
        > SET b 3
        +QUEUED
        > EXEC
        [+OK]
        > WATCH a b a
        +OK
        > DEL nothing
        0
        > GET a
        "1"
        > MULTI
        +OK
        > GET a
        +QUEUED
        > EXEC
        ["1"]
        > WATCH a
        +OK
        > DEL a
        1
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        *-1
        @resp3
        > WATCH a
        +OK
        > SET a 1
        +OK
        > MULTI
        +OK
        > EXEC
        _
    "#]]);
}

#[test]
fn unwatch_and_discard_clear_watches() {
    check(expect![[r#"
        > UNWATCH
        +OK
        > WATCH a
        +OK
        > SET a 1
        +OK
        > UNWATCH
        +OK
        > MULTI
        +OK
        > GET a
        +QUEUED
        > EXEC
        ["1"]
        > WATCH a
        +OK
        > SET a 1
        +OK
        > MULTI
        +OK
        > DISCARD
        +OK
        > MULTI
        +OK
        > GET a
        +QUEUED
        > EXEC
        ["1"]
        > WATCH a
        +OK
        > MULTI
        +OK
        > UNWATCH
        +QUEUED
        > EXEC
        [+OK]
    "#]]);
}

#[test]
fn every_kind_of_change() {
    check(expect![[r#"
        > SET a 1
        +OK
        > WATCH a
        +OK
        > EXPIRE a 100
        1
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH a
        +OK
        > PERSIST a
        1
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH a
        +OK
        > PERSIST a
        0
        > MULTI
        +OK
        > EXEC
        []
        > WATCH b
        +OK
        > RENAME a b
        +OK
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH b
        +OK
        > RENAME b a
        +OK
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH b
        +OK
        > COPY a b
        1
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH a
        +OK
        > COPY a b REPLACE
        1
        > MULTI
        +OK
        > EXEC
        []
        > WATCH a
        +OK
        > MOVE a 1
        1
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH b
        +OK
        > SETBIT b 3 1
        1
        > MULTI
        +OK
        > EXEC
        []
        > WATCH b
        +OK
        > SETBIT b 3 1
        1
        > MULTI
        +OK
        > EXEC
        []
        > WATCH c
        +OK
        > BITOP NOT c b
        1
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH c
        +OK
        > UNLINK c
        1
        > MULTI
        +OK
        > EXEC
        *-1
        > WATCH c
        +OK
        > UNLINK c
        0
        > MULTI
        +OK
        > EXEC
        []
    "#]]);
}

#[test]
fn expiry() {
    check(expect![[r#"
        > SET a 1 PX 30
        +OK
        > WATCH a
        +OK
        @wait 60
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        *-1
        > SET a 1 PX 30
        +OK
        @wait 60
        > WATCH a
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        [+PONG]
        > SET a 1 PX 30
        +OK
        > WATCH a
        +OK
        @wait 60
        > GET a
        $-1
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        *-1
        > SET a 1 PX 30
        +OK
        @wait 60
        > WATCH a
        +OK
        > SET a 2
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        *-1
    "#]]);
}

#[test]
fn whole_databases() {
    check(expect![[r#"
        > WATCH a
        +OK
        > FLUSHALL
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        [+PONG]
        > SET a 1
        +OK
        > WATCH a
        +OK
        > FLUSHDB
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        *-1
        > SET a 1
        +OK
        > WATCH b
        +OK
        > FLUSHDB
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        [+PONG]
        > SET a 1
        +OK
        > WATCH a
        +OK
        > SWAPDB 0 1
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        *-1
        > WATCH a
        +OK
        > SWAPDB 0 1
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        *-1
        > WATCH b
        +OK
        > SWAPDB 0 1
        +OK
        > MULTI
        +OK
        > PING
        +QUEUED
        > EXEC
        [+PONG]
    "#]]);
}
