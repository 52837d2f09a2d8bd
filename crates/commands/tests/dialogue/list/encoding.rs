//! `OBJECT ENCODING` of lists

use expect_test::expect;

use crate::check::check;

#[test]
fn by_size() {
    check(expect![[r#"
        > RPUSH l {x*4000}
        1
        > OBJECT ENCODING l
        "listpack"
        > RPUSH l {y*4000}
        2
        > OBJECT ENCODING l
        "listpack"
        > RPUSH l {z*300}
        3
        > OBJECT ENCODING l
        "quicklist"
        > RPOP l
        "zzzzzzzzzzzzzzzzzzzz"...(300)
        > OBJECT ENCODING l
        "quicklist"
        > RPOP l
        "yyyyyyyyyyyyyyyyyyyy"...(4000)
        > OBJECT ENCODING l
        "listpack"
        > LSET l 0 small
        +OK
        > OBJECT ENCODING l
        "listpack"
        > RPUSH big {x*9000}
        1
        > OBJECT ENCODING big
        "quicklist"
        > LPUSH big a
        2
        > RPOP big
        "xxxxxxxxxxxxxxxxxxxx"...(9000)
        > OBJECT ENCODING big
        "listpack"
    "#]]);
}

#[test]
fn lists_limited_by_count_turn_compact_only_when_small() {
    check(expect![[r#"
        @config list-max-listpack-size 8
        > RPUSH l {x*3000} {x*3000} {x*3000} 3 4 5 6 7 8
        9
        > OBJECT ENCODING l
        "quicklist"
        > LTRIM l 0 2
        +OK
        > OBJECT ENCODING l
        "quicklist"
        > LTRIM l 0 0
        +OK
        > OBJECT ENCODING l
        "listpack"
    "#]]);
}

#[test]
fn by_count() {
    check(expect![[r#"
        @config list-max-listpack-size 4
        > RPUSH l 1 2 3 4
        4
        > OBJECT ENCODING l
        "listpack"
        > RPUSH l 5
        5
        > OBJECT ENCODING l
        "quicklist"
        > LPOP l
        "1"
        > OBJECT ENCODING l
        "quicklist"
        > LPOP l 3
        ["2", "3", "4"]
        > OBJECT ENCODING l
        "listpack"
        > LPUSH l 4
        2
        > OBJECT ENCODING l
        "listpack"
        > COPY l m
        1
        > OBJECT ENCODING m
        "listpack"
        > LINSERT l AFTER 5 6
        3
        > LINSERT l AFTER nobody 6
        -1
    "#]]);
}

#[test]
fn copies_keep_the_encoding() {
    check(expect![[r#"
        > RPUSH l {x*9000}
        1
        > RPUSH l a
        2
        > COPY l m
        1
        > OBJECT ENCODING m
        "quicklist"
        > LRANGE m 1 -1
        ["a"]
        > RENAME m n
        +OK
        > LLEN n
        2
    "#]]);
}
