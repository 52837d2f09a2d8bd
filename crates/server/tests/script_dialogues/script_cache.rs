//! `SCRIPT` and the cache of scripts.

use expect_test::expect;

use crate::check::check;

#[test]
fn scripts_are_loaded_and_found() {
    check(expect![[r#"
        > SCRIPT LOAD "return 1"
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        > EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0
        > EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db ffffffffffffffffffffffffffffffffffffffff short
        > SCRIPT FLUSH
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        > EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        > SCRIPT FLUSH SYNC
        > SCRIPT FLUSH ASYNC
        > SCRIPT FLUSH odd
        > SCRIPT KILL
        > SCRIPT EXISTS
        > SCRIPT LOAD
    "#]]);
}

#[test]
fn a_script_that_has_not_run_is_not_in_the_cache() {
    check(expect![[r#"
        > EVAL "return 1" x
        > EVAL "return 1" -1
        > EVAL "return 1" 1
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        > MULTI
        > EVAL "return 1" 0
        > DISCARD
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        > MULTI
        > EVAL "return 1" 0
        > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        > EXEC
        > SCRIPT FLUSH
        > EVAL "return 1" 0
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    "#]]);
}

#[test]
fn scripts_are_shown() {
    check(expect![[r#"
        @valkey only Valkey has it
        > SCRIPT LOAD "return 1"
        > SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        > SCRIPT SHOW ffffffffffffffffffffffffffffffffffffffff
        > SCRIPT SHOW short
    "#]]);
}
