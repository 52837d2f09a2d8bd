//! `SORT` and `SORT_RO`

use expect_test::expect;

use crate::check::check;

#[test]
fn numbers_and_texts() {
    check(expect![[r#"
        > SADD s 10 9 -1 2.5 1e2 +3 -0 0 .5 inf -inf
        11
        > SORT s
        ["-inf", "-1", "-0", "0", ".5", "2.5", "+3", "9", "10", "1e2", "inf"]
        > SORT s DESC
        ["inf", "1e2", "10", "9", "+3", "2.5", ".5", "0", "-0", "-1", "-inf"]
        > SORT s DESC ASC
        ["-inf", "-1", "-0", "0", ".5", "2.5", "+3", "9", "10", "1e2", "inf"]
        > SORT s ALPHA
        ["+3", "-0", "-1", "-inf", ".5", "0", "10", "1e2", "2.5", "9", "inf"]
        > SORT s ALPHA DESC
        ["inf", "9", "2.5", "1e2", "10", "0", ".5", "-inf", "-1", "-0", "+3"]
        > SORT_RO s
        ["-inf", "-1", "-0", "0", ".5", "2.5", "+3", "9", "10", "1e2", "inf"]
        > SADD t b a C "" 10 9
        6
        > SORT t
        -ERR One or more scores can't be converted into double
        > SORT t ALPHA
        ["", "10", "9", "C", "a", "b"]
        > SORT t ALPHA DESC LIMIT 1 2
        ["a", "C"]
        > SADD i 3 1 2 100000
        4
        > SORT i
        ["1", "2", "3", "100000"]
        > SORT i DESC
        ["100000", "3", "2", "1"]
        > SORT i ALPHA
        ["1", "100000", "2", "3"]
        > SORT missing
        []
        > SORT_RO missing
        []
        @resp3
        > SORT i
        ["1", "2", "3", "100000"]
        > SORT missing
        []
    "#]]);
}

#[test]
fn elements_that_are_not_numbers() {
    check(expect![[r#"
        > SADD a 1 x
        2
        > SORT a
        -ERR One or more scores can't be converted into double
        > SADD b 1 ""
        2
        @differs redis it accepts such words as numbers
        > SORT b
        -ERR One or more scores can't be converted into double
        > SADD c " 1" 2
        2
        > SORT c
        -ERR One or more scores can't be converted into double
        > SADD d 0x10 2
        2
        > SORT d
        -ERR One or more scores can't be converted into double
        > SADD e nan 2
        2
        > SORT e
        -ERR One or more scores can't be converted into double
        > SADD f 1e400 2
        2
        @differs redis it accepts such words as numbers
        > SORT f
        -ERR One or more scores can't be converted into double
        > SADD g "1\x00" 2
        2
        > SORT g
        ["1\x00", "2"]
        > SADD h 1 01 1.0
        3
        > SORT h
        ["01", "1", "1.0"]
        > SORT h DESC
        ["1.0", "1", "01"]
    "#]]);
}

#[test]
fn limits() {
    check(expect![[r#"
        > SADD s 1 2 3 4 5
        5
        > SORT s LIMIT 0 2
        ["1", "2"]
        > SORT s LIMIT 2 2
        ["3", "4"]
        > SORT s LIMIT 4 10
        ["5"]
        > SORT s LIMIT 5 1
        []
        > SORT s LIMIT 100 1
        []
        > SORT s LIMIT -5 2
        ["1", "2"]
        > SORT s LIMIT 1 -1
        ["2", "3", "4", "5"]
        > SORT s LIMIT 1 -100
        ["2", "3", "4", "5"]
        > SORT s LIMIT 0 0
        []
        > SORT s LIMIT 9223372036854775807 9223372036854775807
        []
        > SORT s LIMIT -9223372036854775808 -9223372036854775808
        ["1", "2", "3", "4", "5"]
        > SORT s LIMIT 1 9223372036854775807
        ["2", "3", "4", "5"]
        > SORT s LIMIT 0 2 LIMIT 1 1
        ["2"]
        > SORT s LIMIT x 1
        -ERR value is not an integer or out of range
        > SORT s LIMIT 1 x
        -ERR value is not an integer or out of range
        > SORT s LIMIT 1
        -ERR syntax error
        > SORT s DESC LIMIT 0 2
        ["5", "4"]
    "#]]);
}

#[test]
fn by_other_keys() {
    check(expect![[r#"
        > SADD s 1 2 3
        3
        > MSET w1 30 w2 10 w3 20
        +OK
        > SORT s BY w*
        ["2", "3", "1"]
        > SORT s BY w* DESC
        ["1", "3", "2"]
        > SORT s BY w* LIMIT 0 2
        ["2", "3"]
        > SORT_RO s BY w*
        ["2", "3", "1"]
        > DEL w2
        1
        > SORT s BY w*
        ["2", "3", "1"]
        > SORT s BY w* ALPHA
        ["2", "3", "1"]
        > SET w2 x
        +OK
        > SORT s BY w*
        -ERR One or more scores can't be converted into double
        > SORT s BY w* ALPHA
        ["3", "1", "2"]
        > SORT s BY w* ALPHA DESC
        ["2", "1", "3"]
        > DEL w2
        1
        > SADD w2 member
        1
        > SORT s BY w*
        ["2", "3", "1"]
        > SET w3 5 EX 100
        +OK
        > SORT s BY w*
        ["2", "3", "1"]
        > SORT s BY missing*
        ["1", "2", "3"]
        > SORT s BY missing* DESC
        ["3", "2", "1"]
        > SORT s BY nosort
        ["1", "2", "3"]
        > SORT s BY nosort LIMIT 1 1
        ["2"]
        > SORT s BY ""
        ["1", "2", "3"]
        > SORT s BY "x\x00*"
        ["1", "2", "3"]
        > SORT s BY *
        ["1", "2", "3"]
        > SORT s BY w*_*
        ["1", "2", "3"]
        > SORT s BY w* BY nosort
        ["1", "2", "3"]
    "#]]);
}

#[test]
fn the_given_order_and_its_reverse() {
    check(expect![[r#"
        > ZADD z 1 a 5 b 2 c 10 d 3 e
        5
        > SORT z BY nosort
        ["a", "c", "e", "b", "d"]
        > SORT z BY nosort DESC
        ["d", "b", "e", "c", "a"]
        > SORT z BY nosort DESC LIMIT 1 2
        ["b", "e"]
        > SORT z BY nosort DESC LIMIT 4 9
        ["a"]
        > SORT z BY nosort DESC LIMIT 5 10
        []
        > SORT z BY nosort DESC LIMIT -10 100
        ["d", "b", "e", "c", "a"]
        > SORT missing BY nosort DESC
        []
        > RPUSH l 3 1 2
        3
        > SORT l BY nosort DESC
        ["2", "1", "3"]
        > SORT l BY nosort DESC LIMIT 1 1
        ["1"]
    "#]]);
}

#[test]
fn getting_other_values() {
    check(expect![[r#"
        > SADD s 1 2 3
        3
        > MSET v1 one v2 two v3 3
        +OK
        > SORT s GET v*
        ["one", "two", "3"]
        > SORT s GET #
        ["1", "2", "3"]
        > SORT s GET # GET v* GET missing*
        ["1", "one", $-1, "2", "two", $-1, "3", "3", $-1]
        > SORT s GET v
        [$-1, $-1, $-1]
        > SORT s GET nothing GET #
        [$-1, "1", $-1, "2", $-1, "3"]
        > SORT s DESC GET v* LIMIT 0 1
        ["3"]
        > DEL v2
        1
        > SORT s GET v*
        ["one", $-1, "3"]
        > SADD v2 a
        1
        > SORT s GET v*
        ["one", $-1, "3"]
        > SORT s BY nosort GET v*
        ["one", $-1, "3"]
        > SORT_RO s GET # GET v*
        ["1", "one", "2", $-1, "3", "3"]
        > SORT missing GET v*
        []
        @resp3
        > SORT s GET v*
        ["one", _, "3"]
        > SORT s GET # GET missing
        ["1", _, "2", _, "3", _]
    "#]]);
}

#[test]
fn invalid_requests() {
    check(expect![[r#"
        > SET k v
        +OK
        > SORT k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SORT_RO k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SORT k BY nosort
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > SADD s 1
        1
        > SORT s x
        -ERR syntax error
        > SORT s ASC DESC x
        -ERR syntax error
        > SORT s BY
        -ERR syntax error
        > SORT s GET
        -ERR syntax error
        > SORT s STORE
        -ERR syntax error
        > SORT s LIMIT
        -ERR syntax error
        > SORT_RO s STORE d
        -ERR syntax error
        > SORT
        -ERR wrong number of arguments for 'sort' command
        > SORT_RO
        -ERR wrong number of arguments for 'sort_ro' command
        > SORT k x
        -ERR syntax error
        > SORT s LIMIT x y z
        -ERR value is not an integer or out of range
        > COMMAND GETKEYS SORT a BY w* GET x* STORE d
        ["a", "d"]
        > COMMAND GETKEYS SORT a STORE d STORE e
        ["a", "e"]
        > COMMAND GETKEYS SORT a BY store STORE e
        ["a", "e"]
        > COMMAND GETKEYS SORT_RO a BY w* GET x*
        ["a"]
    "#]]);
}

#[test]
fn inside_a_transaction() {
    check(expect![[r#"
        > SADD s 2 1
        2
        > MSET w1 2 w2 1
        +OK
        > MULTI
        +OK
        > SORT s
        +QUEUED
        > SORT s BY w* GET w*
        +QUEUED
        > SORT_RO s BY w*
        +QUEUED
        > EXEC
        [["1", "2"], ["1", "2"], ["2", "1"]]
    "#]]);
}
