//! `GEOADD`, `GEOPOS`, `GEOHASH` and `GEODIST`

use expect_test::expect;

use crate::check::check;

#[test]
fn adding() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEOADD Sicily CH 13.4 38.1 Palermo 15.087269 37.502669 Catania
        1
        > GEOADD Sicily XX 1 1 new
        0
        > GEOADD Sicily NX CH 2 2 Palermo 3 3 new
        1
        > GEOADD Sicily NX XX 1 1 a
        -ERR syntax error
        > GEOADD Sicily 1 1
        -ERR wrong number of arguments for 'geoadd' command
        > GEOADD Sicily 1 1 a 2
        -ERR syntax error
        > GEOADD Sicily NX
        -ERR wrong number of arguments for 'geoadd' command
        > GEOADD Sicily 181 1 a
        -ERR invalid longitude,latitude pair 181.000000,1.000000
        > GEOADD Sicily 1 86 a
        -ERR invalid longitude,latitude pair 1.000000,86.000000
        > GEOADD Sicily -180.0000001 1 a
        -ERR invalid longitude,latitude pair -180.000000,1.000000
        > GEOADD Sicily inf 1 a
        -ERR invalid longitude,latitude pair inf,1.000000
        > GEOADD Sicily x 1 a
        -ERR value is not a valid float
        > GEOADD Sicily 1 x a
        -ERR value is not a valid float
        > GEOADD Sicily 1 nan a
        -ERR value is not a valid float
        > ZRANGE Sicily 0 -1 WITHSCORES
        ["new", "3379368329318596", "edge", "3478968686430933", "Agrigento", "3479030013248308", "Palermo", "3479099937378871", "Catania", "3479447370796909"]
        > GEOADD p 180 85.05112878 ne -180 -85.05112878 sw 0 0 null
        3
        > ZADD odd inf a -inf b 1e300 c
        3
        @differs redis it shows the shortest digits
        > GEOPOS odd a b c
        [["-179.99999731779098511", "-85.05112751263942528"], ["180", "-85.05112751263942528"], ["-179.99999731779098511", "-85.05112751263942528"]]
        > ZRANGE p 0 -1 WITHSCORES
        ["sw", "0", "null", "3377699720527872", "ne", "13510798882111488"]
        @differs redis it shows the shortest digits
        > GEOPOS p ne sw null
        [["180", "85.0511287799999991"], ["-179.99999731779098511", "-85.05112751263942528"], ["0.00000268220901489", "0.00000126736058093"]]
        > SET s x
        +OK
        > GEOADD s 1 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > GEOADD s 200 1 a
        -ERR invalid longitude,latitude pair 200.000000,1.000000
    "#]]);
}

#[test]
fn positions() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        @differs redis it shows the shortest digits
        > GEOPOS Sicily Palermo nobody Catania
        [["13.36138933897018433", "38.11555639549629859"], *-1, ["15.08726745843887329", "37.50266842333162032"]]
        > GEOPOS Sicily
        []
        > GEOPOS nokey a b
        [*-1, *-1]
        > GEOHASH Sicily Palermo nobody Catania
        ["sqc8b49rny0", $-1, "sqdtr74hyu0"]
        > GEOHASH Sicily
        []
        > GEOHASH nokey a
        [$-1]
        @resp3
        > GEOPOS Sicily Palermo nobody
        [[,13.361389338970184, ,38.1155563954963], _]
        > GEOHASH Sicily Palermo nobody
        ["sqc8b49rny0", _]
        > GEOPOS nokey a
        [_]
        @resp2
        > SET s x
        +OK
        > GEOPOS s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > GEOHASH s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        > ZADD odd 0 a 1 b 4503599627370495 c 1.5 d
        4
        @differs redis it shows the shortest digits
        > GEOPOS odd a b c d
        [["-179.99999731779098511", "-85.05112751263942528"], ["-179.99999731779098511", "-85.05112497791824921"], ["179.99999731779098511", "85.05112751263942528"], ["-179.99999731779098511", "-85.05112497791824921"]]
        > GEOHASH odd a b c d
        ["00bh0hbj200", "00bh0hbj210", "zzpgzgpfxz0", "00bh0hbj210"]
    "#]]);
}

#[test]
fn distances() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEODIST Sicily Palermo Catania
        "166274.1516"
        > GEODIST Sicily Palermo Catania m
        "166274.1516"
        > GEODIST Sicily Palermo Catania KM
        "166.2742"
        > GEODIST Sicily Palermo Catania ft
        "545518.8700"
        > GEODIST Sicily Palermo Catania Mi
        "103.3182"
        > GEODIST Sicily Palermo Catania yd
        -ERR unsupported unit provided. please use M, KM, FT, MI
        > GEODIST Sicily Palermo Catania km x
        -ERR syntax error
        > GEODIST Sicily Palermo Palermo
        "0.0000"
        > GEODIST Sicily Palermo nobody
        $-1
        > GEODIST nokey a b
        $-1
        > GEODIST nokey a b yd
        -ERR unsupported unit provided. please use M, KM, FT, MI
        @resp3
        > GEODIST Sicily Palermo Catania
        "166274.1516"
        > GEODIST nokey a b
        _
    "#]]);
}
