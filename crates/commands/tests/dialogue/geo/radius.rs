//! `GEORADIUS` and `GEORADIUSBYMEMBER`, with their read-only forms

use expect_test::expect;

use crate::check::check;

#[test]
fn around_a_point() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEORADIUS Sicily 15 37 200 km ASC
        ["Catania", "Agrigento", "Palermo"]
        @differs redis it shows the shortest digits
        > GEORADIUS Sicily 15 37 200 km WITHDIST WITHHASH WITHCOORD COUNT 2
        [["Catania", "56.4413", 3479447370796909, ["15.08726745843887329", "37.50266842333162032"]], ["Agrigento", "130.4235", 3479030013248308, ["13.5833314061164856", "37.31666804993816555"]]]
        > GEORADIUS_RO Sicily 15 37 200 KM DESC WITHDIST
        [["Palermo", "190.4424"], ["Agrigento", "130.4235"], ["Catania", "56.4413"]]
        > GEORADIUS Sicily 15 37 200 yd
        -ERR unsupported unit provided. please use M, KM, FT, MI
        > GEORADIUS Sicily 15 37 x km
        -ERR need numeric radius
        > GEORADIUS Sicily 15 37 -1 km
        -ERR radius cannot be negative
        > GEORADIUS Sicily 215 37 1 km
        -ERR invalid longitude,latitude pair 215.000000,37.000000
        > GEORADIUS Sicily x 37 1 km
        -ERR value is not a valid float
        > GEORADIUS nokey 15 37 1 km
        []
        > GEORADIUS nokey 15 37 1 yd
        -ERR unsupported unit provided. please use M, KM, FT, MI
        > GEORADIUS Sicily 15 37 1 km odd
        -ERR syntax error
        > GEORADIUS Sicily 15 37 1 km FROMMEMBER x
        -ERR syntax error
        > GEORADIUS Sicily 15 37 1 km ANY
        -ERR the ANY argument requires COUNT argument
        > GEORADIUS Sicily 15 37
        -ERR wrong number of arguments for 'georadius' command
    "#]]);
}

#[test]
fn around_a_member() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEORADIUSBYMEMBER Sicily Agrigento 100 km ASC
        ["Agrigento", "Palermo"]
        > GEORADIUSBYMEMBER_RO Sicily Agrigento 100 km WITHDIST COUNT 1
        [["Agrigento", "0.0000"]]
        @differs redis its error text differs
        > GEORADIUSBYMEMBER Sicily nobody 100 km
        -ERR member nobody does not exist
        > GEORADIUSBYMEMBER nokey nobody 100 km
        []
        > GEORADIUSBYMEMBER nokey nobody x yd
        []
        > GEORADIUSBYMEMBER nokey nobody x yd odd
        -ERR syntax error
        > GEORADIUSBYMEMBER Sicily Agrigento x km
        -ERR need numeric radius
        > GEORADIUSBYMEMBER Sicily Agrigento 100 yd
        -ERR unsupported unit provided. please use M, KM, FT, MI
    "#]]);
}

#[test]
fn storing() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEORADIUS Sicily 15 37 200 km STORE d
        3
        > ZRANGE d 0 -1 WITHSCORES
        ["Agrigento", "3479030013248308", "Palermo", "3479099956230698", "Catania", "3479447370796909"]
        > GEORADIUS Sicily 15 37 200 km STOREDIST d COUNT 2
        2
        > ZRANGE d 0 -1 WITHSCORES
        ["Catania", "56.4412578701582", "Agrigento", "130.42348706714702"]
        > GEORADIUSBYMEMBER Sicily Agrigento 100 km STOREDIST e
        2
        > ZRANGE e 0 -1 WITHSCORES
        ["Agrigento", "0", "Palermo", "90.97775353799604"]
        > GEORADIUS Sicily 15 37 200 km STORE f STOREDIST g
        3
        > EXISTS f
        0
        > ZRANGE g 0 -1 WITHSCORES
        ["Catania", "56.4412578701582", "Agrigento", "130.42348706714702", "Palermo", "190.44242984775784"]
        > GEORADIUS Sicily 15 37 200 km STOREDIST f STORE h
        3
        > ZRANGE h 0 -1 WITHSCORES
        ["Agrigento", "3479030013248308", "Palermo", "3479099956230698", "Catania", "3479447370796909"]
        > GEORADIUS Sicily 15 37 200 km STORE d WITHDIST
        -ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        > GEORADIUS_RO Sicily 15 37 200 km STORE d
        -ERR syntax error
        > GEORADIUSBYMEMBER_RO Sicily Agrigento 200 km STOREDIST d
        -ERR syntax error
        > GEORADIUS Sicily 15 37 200 km STORE
        -ERR syntax error
        > GEORADIUS Sicily 1 1 1 m STORE d
        0
        > EXISTS d
        0
        > GEORADIUSBYMEMBER nokey x 1 m STORE e
        0
        > EXISTS e
        0
        @differs redis it names both keys
        > COMMAND GETKEYS GEORADIUS Sicily 15 37 200 km STORE f STOREDIST g
        ["Sicily", "g"]
        > COMMAND GETKEYS GEORADIUS Sicily 15 37 200 km
        ["Sicily"]
    "#]]);
}
