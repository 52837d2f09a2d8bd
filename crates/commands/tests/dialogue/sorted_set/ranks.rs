//! `ZSCORE`, `ZMSCORE`, `ZRANK`, `ZREVRANK`, `ZCARD`, `ZCOUNT` and `ZLEXCOUNT`

use expect_test::expect;

use crate::check::check;

#[test]
fn ranks() {
    check(expect![[r#"
        > ZADD z 1 a 2 b 2 c 3 d
        4
        > ZRANK z a
        0
        > ZRANK z c
        2
        > ZREVRANK z c
        1
        > ZREVRANK z a
        3
        > ZRANK z nobody
        $-1
        > ZRANK nokey a
        $-1
        > ZRANK z c WITHSCORE
        [2, "2"]
        > ZREVRANK z d withscore
        [0, "3"]
        > ZRANK z nobody WITHSCORE
        *-1
        > ZRANK nokey a WITHSCORE
        *-1
        > ZRANK z c WITHSCORES
        -ERR syntax error
        > ZRANK z c WITHSCORE x
        -ERR wrong number of arguments for 'zrank' command
        > ZRANK z
        -ERR wrong number of arguments for 'zrank' command
        @resp3
        > ZRANK z c WITHSCORE
        [2, ,2]
        > ZRANK z nobody
        _
        > ZRANK z nobody WITHSCORE
        _
        > ZREVRANK nokey a
        _
    "#]]);
}

#[test]
fn scores() {
    check(expect![[r#"
        > ZADD z 1 a 2.5 b
        2
        > ZSCORE z a
        "1"
        > ZSCORE z x
        $-1
        > ZSCORE nokey x
        $-1
        > ZMSCORE z a x b
        ["1", $-1, "2.5"]
        > ZMSCORE nokey a b
        [$-1, $-1]
        > ZMSCORE z
        -ERR wrong number of arguments for 'zmscore' command
        @resp3
        > ZMSCORE z a x b
        [,1, _, ,2.5]
        > ZSCORE z b
        ,2.5
        > ZMSCORE nokey a
        [_]
    "#]]);
}

#[test]
fn counts() {
    check(expect![[r#"
        > ZADD z -inf a 1 b 2 c 2 d 3 e inf f
        6
        > ZCARD z
        6
        > ZCARD nokey
        0
        > ZCOUNT z -inf +inf
        6
        > ZCOUNT z 2 2
        2
        > ZCOUNT z (2 3
        1
        > ZCOUNT z 2 (3
        2
        > ZCOUNT z (2 (3
        0
        > ZCOUNT z (2 (2
        0
        > ZCOUNT z 3 1
        0
        > ZCOUNT z (-inf (inf
        4
        > ZCOUNT z "" 2
        3
        > ZCOUNT z ( 2
        3
        > ZCOUNT z nan 2
        -ERR min or max is not a float
        > ZCOUNT z 1 nan
        -ERR min or max is not a float
        > ZCOUNT z x 2
        -ERR min or max is not a float
        > ZCOUNT z (x 2
        -ERR min or max is not a float
        > ZCOUNT z " 1" 2
        -ERR min or max is not a float
        > ZCOUNT z 0x1 2
        -ERR min or max is not a float
        > ZCOUNT z 1e400 inf
        1
        > ZCOUNT z -1e400 inf
        6
        > ZCOUNT z ((1 2
        -ERR min or max is not a float
        > ZCOUNT nokey x 1
        -ERR min or max is not a float
        > ZCOUNT nokey 0 1
        0
    "#]]);
}

#[test]
fn lexicographical_counts() {
    check(expect![[r#"
        > ZADD z 0 a 0 b 0 c 0 bb
        4
        > ZLEXCOUNT z - +
        4
        > ZLEXCOUNT z [b [c
        3
        > ZLEXCOUNT z (b [c
        2
        > ZLEXCOUNT z [b (c
        2
        > ZLEXCOUNT z (b (bb
        0
        > ZLEXCOUNT z + -
        0
        > ZLEXCOUNT z - -
        0
        > ZLEXCOUNT z + +
        0
        > ZLEXCOUNT z [c [a
        0
        > ZLEXCOUNT z [ [z
        4
        > ZLEXCOUNT z ( [z
        4
        > ZLEXCOUNT z - [
        0
        > ZLEXCOUNT z a [c
        -ERR min or max not valid string range item
        > ZLEXCOUNT z [a c
        -ERR min or max not valid string range item
        > ZLEXCOUNT z "" +
        -ERR min or max not valid string range item
        > ZLEXCOUNT z -x +
        -ERR min or max not valid string range item
        > ZLEXCOUNT nokey - +
        0
        > ZLEXCOUNT nokey a +
        -ERR min or max not valid string range item
    "#]]);
}
