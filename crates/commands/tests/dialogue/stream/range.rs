//! `XRANGE`, `XREVRANGE` and `XREAD`

use expect_test::expect;

use crate::check::check;

#[test]
fn ranges() {
    check(expect![[r#"
        > XADD s 1-1 a 1 b 2
        "1-1"
        > XADD s 1-2 a 3 b 4
        "1-2"
        > XADD s 2-1 c 5
        "2-1"
        > XADD s 3-1 a 1 b ""
        "3-1"
        > XRANGE s - +
        [["1-1", ["a", "1", "b", "2"]], ["1-2", ["a", "3", "b", "4"]], ["2-1", ["c", "5"]], ["3-1", ["a", "1", "b", ""]]]
        > XREVRANGE s + -
        [["3-1", ["a", "1", "b", ""]], ["2-1", ["c", "5"]], ["1-2", ["a", "3", "b", "4"]], ["1-1", ["a", "1", "b", "2"]]]
        > XRANGE s 1 1
        [["1-1", ["a", "1", "b", "2"]], ["1-2", ["a", "3", "b", "4"]]]
        > XRANGE s 1-2 2
        [["1-2", ["a", "3", "b", "4"]], ["2-1", ["c", "5"]]]
        > XRANGE s (1-1 (3-1
        [["1-2", ["a", "3", "b", "4"]], ["2-1", ["c", "5"]]]
        > XREVRANGE s (3-1 (1-1
        [["2-1", ["c", "5"]], ["1-2", ["a", "3", "b", "4"]]]
        > XRANGE s - + COUNT 2
        [["1-1", ["a", "1", "b", "2"]], ["1-2", ["a", "3", "b", "4"]]]
        > XREVRANGE s + - COUNT 1
        [["3-1", ["a", "1", "b", ""]]]
        > XRANGE s - + COUNT 0
        *-1
        > XRANGE s - + COUNT -1
        *-1
        > XRANGE s + -
        []
        > XRANGE s - + COUNT
        -ERR syntax error
        > XRANGE s - + COUNT x
        -ERR value is not an integer or out of range
        > XRANGE s - + FOO 1
        -ERR syntax error
        > XRANGE s (- +
        -ERR Invalid stream ID specified as stream command argument
        > XRANGE s x +
        -ERR Invalid stream ID specified as stream command argument
        > XRANGE s (18446744073709551615-18446744073709551615 +
        -ERR invalid start ID for the interval
        > XRANGE s - (0-0
        -ERR invalid end ID for the interval
        > XRANGE none - +
        []
        > XRANGE none x +
        -ERR Invalid stream ID specified as stream command argument
        > XDEL s 1-2
        1
        > XRANGE s 1-1 2-1
        [["1-1", ["a", "1", "b", "2"]], ["2-1", ["c", "5"]]]
        > SET t 1
        +OK
        > XRANGE t - +
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn reading() {
    check(expect![[r#"
        > XADD s 1-1 a 1
        "1-1"
        > XADD s 1-2 a 2
        "1-2"
        > XADD u 5-1 b 3
        "5-1"
        > XREAD STREAMS s 0
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
        > XREAD COUNT 1 STREAMS s u 0 0
        [["s", [["1-1", ["a", "1"]]]], ["u", [["5-1", ["b", "3"]]]]]
        > XREAD STREAMS s u 1-1 5-1
        [["s", [["1-2", ["a", "2"]]]]]
        > XREAD STREAMS s u $ $
        *-1
        > XREAD STREAMS s u + +
        [["s", [["1-2", ["a", "2"]]]], ["u", [["5-1", ["b", "3"]]]]]
        > XREAD STREAMS none $
        *-1
        > XREAD STREAMS none +
        *-1
        > XREAD COUNT 0 STREAMS s 1-1
        [["s", [["1-2", ["a", "2"]]]]]
        > XREAD COUNT -5 STREAMS s 1-1
        [["s", [["1-2", ["a", "2"]]]]]
        @differs redis its error text differs
        > XREAD STREAMS s u 0
        -ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.
        > XREAD STREAMS s >
        -ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.
        > XREAD STREAMS s -
        -ERR Invalid stream ID specified as stream command argument
        > XREAD STREAMS s x
        -ERR Invalid stream ID specified as stream command argument
        > XREAD STREAMS
        -ERR wrong number of arguments for 'xread' command
        > XREAD FOO STREAMS s 0
        -ERR syntax error
        > XREAD COUNT x STREAMS s 0
        -ERR value is not an integer or out of range
        > XREAD NOACK STREAMS s 0
        -ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.
        > XREAD GROUP g c STREAMS s 0
        -ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.
        > XREAD BLOCK x STREAMS s 0
        -ERR timeout is not an integer or out of range
        > XREAD BLOCK -1 STREAMS s 0
        -ERR timeout is negative
        > XREAD BLOCK 0 STREAMS s 0
        [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
        > XREAD BLOCK 10 STREAMS s 18446744073709551615-18446744073709551615
        *-1
        > SET t 1
        +OK
        > XREAD STREAMS s t 0 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        @resp3
        > XREAD STREAMS s u 0 0
        {"s": [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]], "u": [["5-1", ["b", "3"]]]}
        > XREAD STREAMS none 0
        _
        > XRANGE s - +
        [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]
        > XRANGE s - + COUNT 0
        _
    "#]]);
}
