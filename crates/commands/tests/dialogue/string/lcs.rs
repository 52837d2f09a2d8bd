//! `LCS`

use expect_test::expect;

use crate::check::check;

#[test]
fn the_subsequence_its_length_and_its_places() {
    check(expect![[r#"
        > MSET a ohmytext b mynewtext
        +OK
        > LCS a b
        "mytext"
        > LCS a b LEN
        6
        > LCS a b IDX
        ["matches", [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], "len", 6]
        > LCS a b IDX MINMATCHLEN 4
        ["matches", [[[4, 7], [5, 8]]], "len", 6]
        > LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN
        ["matches", [[[4, 7], [5, 8], 4]], "len", 6]
        > LCS a b IDX WITHMATCHLEN
        ["matches", [[[4, 7], [5, 8], 4], [[2, 3], [0, 1], 2]], "len", 6]
        > LCS a b idx minmatchlen -3
        ["matches", [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], "len", 6]
        > LCS a b IDX MINMATCHLEN 5
        ["matches", [], "len", 6]
        > LCS a b WITHMATCHLEN
        "mytext"
        > LCS a b LEN MINMATCHLEN 9
        6
        > LCS a a
        "ohmytext"
        > LCS a a IDX
        ["matches", [[[0, 7], [0, 7]]], "len", 8]
        @resp3
        > LCS a b
        "mytext"
        > LCS a b LEN
        6
        > LCS a b IDX WITHMATCHLEN
        {"matches": [[[4, 7], [5, 8], 4], [[2, 3], [0, 1], 2]], "len": 6}
    "#]]);
}

#[test]
fn empty_numeric_and_binary_values() {
    check(expect![[r#"
        > LCS a b
        ""
        > LCS a b LEN
        0
        > LCS a b IDX
        ["matches", [], "len", 0]
        > SET a 12345
        +OK
        > LCS a b
        ""
        > LCS a b IDX
        ["matches", [], "len", 0]
        > SET b 1x3x5
        +OK
        > LCS a b
        "135"
        > LCS a b IDX
        ["matches", [[[4, 4], [4, 4]], [[2, 2], [2, 2]], [[0, 0], [0, 0]]], "len", 3]
        > MSET a "\x00\x01\xff" b "\x01\x00\xff"
        +OK
        > LCS a b
        "\x01\xff"
        > LCS a b IDX
        ["matches", [[[2, 2], [2, 2]], [[1, 1], [0, 0]]], "len", 2]
        > MSET a abab b baba
        +OK
        > LCS a b
        "bab"
        > LCS a b IDX WITHMATCHLEN
        ["matches", [[[1, 3], [0, 2], 3]], "len", 3]
        > MSET a {ab*200} b {ba*200}
        +OK
        > LCS a b LEN
        399
        > LCS a b IDX
        ["matches", [[[1, 399], [0, 398]]], "len", 399]
        > MSET a xaxbxc b aybycy
        +OK
        > LCS a b IDX
        ["matches", [[[5, 5], [4, 4]], [[3, 3], [2, 2]], [[1, 1], [0, 0]]], "len", 3]
        > MSET a abc b xyz
        +OK
        > LCS a b
        ""
        > LCS a b IDX
        ["matches", [], "len", 0]
    "#]]);
}

#[test]
fn invalid_requests() {
    check(expect![[r#"
        > MSET a ohmytext b mynewtext
        +OK
        > LCS a
        -ERR wrong number of arguments for 'lcs' command
        > LCS a b LEN IDX
        -ERR If you want both the length and indexes, please just use IDX.
        > LCS a b bad
        -ERR syntax error
        > LCS a b MINMATCHLEN
        -ERR syntax error
        > LCS a b MINMATCHLEN x
        -ERR value is not an integer or out of range
        > LCS a b LEN bad
        -ERR syntax error
        @config proto-max-bulk-len 1048576
        > MSET a {x*512} b {x*512}
        +OK
        > LCS a b LEN
        -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len
        > MSET a {x*511} b {x*511}
        +OK
        > LCS a b LEN
        511
        > MSET a {x*1000000} b {x*1000000}
        +OK
        > LCS a b LEN
        -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len
    "#]]);
}
