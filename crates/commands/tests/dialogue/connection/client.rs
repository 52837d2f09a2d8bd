//! `CLIENT` and its subcommands, tested with a single connection

use expect_test::expect;

use crate::check::check;

#[test]
fn names() {
    check(expect![[r#"
        > CLIENT GETNAME
        $-1
        > CLIENT SETNAME me
        +OK
        > CLIENT GETNAME
        "me"
        > CLIENT SETNAME "a b"
        -ERR Client names cannot contain spaces, newlines or special characters.
        > CLIENT SETNAME "a\nb"
        -ERR Client names cannot contain spaces, newlines or special characters.
        > CLIENT GETNAME
        "me"
        > CLIENT SETNAME ""
        +OK
        > CLIENT GETNAME
        $-1
        > CLIENT SETNAME
        -ERR wrong number of arguments for 'client|setname' command
        > CLIENT SETNAME a b
        -ERR wrong number of arguments for 'client|setname' command
        @resp3
        > CLIENT GETNAME
        _
        > CLIENT SETNAME you
        +OK
        > CLIENT GETNAME
        "you"
    "#]]);
}

#[test]
fn libraries() {
    check(expect![[r#"
        > CLIENT SETINFO LIB-NAME redis-py
        +OK
        > CLIENT SETINFO lib-ver 5.0.1
        +OK
        > CLIENT SETINFO LIB-NAME "a b"
        -ERR LIB-NAME cannot contain spaces, newlines or special characters.
        > CLIENT SETINFO LIB-VER "1\n2"
        -ERR LIB-VER cannot contain spaces, newlines or special characters.
        > CLIENT SETINFO LIB-OTHER x
        -ERR Unrecognized option 'LIB-OTHER'
        > CLIENT SETINFO LIB-NAME
        -ERR wrong number of arguments for 'client|setinfo' command
        > CLIENT SETINFO
        -ERR wrong number of arguments for 'client|setinfo' command
    "#]]);
}

#[test]
fn switches() {
    check(expect![[r#"
        > CLIENT NO-EVICT on
        +OK
        > CLIENT NO-EVICT off
        +OK
        > CLIENT NO-EVICT maybe
        -ERR syntax error
        > CLIENT NO-EVICT
        -ERR wrong number of arguments for 'client|no-evict' command
        > CLIENT NO-TOUCH ON
        +OK
        > CLIENT NO-TOUCH OFF
        +OK
        > CLIENT NO-TOUCH maybe
        -ERR syntax error
        > CLIENT REPLY ON
        +OK
        > CLIENT REPLY maybe
        -ERR syntax error
        > CLIENT REPLY
        -ERR wrong number of arguments for 'client|reply' command
        @resp3
        > CLIENT NO-EVICT on
        +OK
        > CLIENT NO-EVICT off
        +OK
        > CLIENT NO-TOUCH off
        +OK
    "#]]);
}

#[test]
fn capabilities_are_valkeys() {
    check(expect![[r#"
        @valkey Redis has no CLIENT CAPA
        > CLIENT CAPA redirect
        +OK
        > CLIENT CAPA redirect unknown
        +OK
        > CLIENT CAPA
        -ERR wrong number of arguments for 'client|capa' command
        > CLIENT IMPORT-SOURCE on
        -ERR Server is not in import mode
        > CLIENT IMPORT-SOURCE maybe
        -ERR Server is not in import mode
    "#]]);
}

#[test]
fn list_refuses() {
    check(expect![[r#"
        > CLIENT LIST TYPE
        -ERR syntax error
        > CLIENT LIST TYPE nobody
        -ERR Unknown client type 'nobody'
        > CLIENT LIST ID
        -ERR syntax error
        @differs redis its error text differs
        > CLIENT LIST ID one
        -ERR syntax error
        @differs redis it matches no client where Valkey returns an error
        > CLIENT LIST ID 0
        -ERR client-id should be greater than 0
        @differs redis it matches no client where Valkey returns an error
        > CLIENT LIST ID -1
        -ERR client-id should be greater than 0
        @differs redis its error text differs
        > CLIENT LIST ID 1 two
        -ERR syntax error
    "#]]);
}

#[test]
fn list_refuses_filters_of_valkey() {
    check(expect![[r#"
        @valkey Redis has fewer filters
        > CLIENT LIST NOPE x
        -ERR syntax error
        > CLIENT LIST MAXAGE x
        -ERR maxage is not an integer or out of range
        > CLIENT LIST USER nobody
        -ERR No such user 'nobody'
        > CLIENT LIST SKIPME maybe
        -ERR syntax error
        > CLIENT LIST IDLE x
        -ERR idle is not an integer or out of range
        > CLIENT LIST FLAGS Q
        -ERR Unknown flags found in the provided filter: Q
        > CLIENT LIST DB 99
        -ERR DB number should be between 0 and 15
    "#]]);
}

#[test]
fn kill_refuses() {
    check(expect![[r#"
        > CLIENT KILL
        -ERR wrong number of arguments for 'client|kill' command
        > CLIENT KILL 000.123.321.567:0000
        -ERR No such client
        > CLIENT KILL 127.0.0.1:
        -ERR No such client
        @differs redis its error text differs
        > CLIENT KILL ID wrong
        -ERR syntax error
        > CLIENT KILL ID 0
        -ERR client-id should be greater than 0
        > CLIENT KILL TYPE nobody
        -ERR Unknown client type 'nobody'
        > CLIENT KILL SKIPME yes_no
        -ERR syntax error
        > CLIENT KILL ADDR
        -ERR No such client
        > CLIENT KILL ID 999999
        0
        > CLIENT KILL ADDR 1.2.3.4:5 SKIPME yes
        0
    "#]]);
}

#[test]
fn unblock_and_pause_refuse() {
    check(expect![[r#"
        > CLIENT UNBLOCK 999999
        0
        > CLIENT UNBLOCK 999999 TIMEOUT
        0
        > CLIENT UNBLOCK 999999 ERROR
        0
        > CLIENT UNBLOCK 999999 NOPE
        -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
        > CLIENT UNBLOCK asd
        -ERR value is not an integer or out of range
        > CLIENT UNBLOCK
        -ERR wrong number of arguments for 'client|unblock' command
        > CLIENT PAUSE abc
        -ERR timeout is not an integer or out of range
        > CLIENT PAUSE -1
        -ERR timeout is negative
        > CLIENT PAUSE 1 SOMETIMES
        -ERR CLIENT PAUSE mode must be WRITE or ALL
        > CLIENT PAUSE
        -ERR wrong number of arguments for 'client|pause' command
        > CLIENT UNPAUSE
        +OK
        > CLIENT UNPAUSE now
        -ERR wrong number of arguments for 'client|unpause' command
    "#]]);
}

#[test]
fn tracking_refuses() {
    check(expect![[r#"
        > CLIENT TRACKING maybe
        -ERR syntax error
        > CLIENT TRACKING
        -ERR wrong number of arguments for 'client|tracking' command
        > CLIENT CACHING YES
        -ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled
        > CLIENT CACHING maybe
        -ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled
        > CLIENT GETREDIR
        -1
        > CLIENT TRACKINGINFO
        ["flags", ["off"], "redirect", -1, "prefixes", []]
        @resp3
        > CLIENT GETREDIR
        -1
        > CLIENT TRACKINGINFO
        {"flags": ~["off"], "redirect": -1, "prefixes": []}
    "#]]);
}

#[test]
fn unknown_subcommands() {
    check(expect![[r#"
        > CLIENT NOPE
        -ERR unknown subcommand 'NOPE'. Try CLIENT HELP.
        > CLIENT
        -ERR wrong number of arguments for 'client' command
        > CLIENT ID x
        -ERR wrong number of arguments for 'client|id' command
        > CLIENT INFO x
        -ERR wrong number of arguments for 'client|info' command
    "#]]);
}
