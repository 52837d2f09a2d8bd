//! `GEOSEARCH` and `GEOSEARCHSTORE`

use expect_test::expect;

use crate::check::check;

#[test]
fn shapes() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km ASC
        ["Catania", "Agrigento", "Palermo"]
        @differs redis it shows the shortest digits
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km DESC WITHDIST WITHHASH WITHCOORD
        [["Palermo", "190.4424", 3479099956230698, ["13.36138933897018433", "38.11555639549629859"]], ["Agrigento", "130.4235", 3479030013248308, ["13.5833314061164856", "37.31666804993816555"]], ["Catania", "56.4413", 3479447370796909, ["15.08726745843887329", "37.50266842333162032"]]]
        > GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 100 km ASC WITHDIST
        [["Palermo", "0.0000"], ["edge", "79.2062"], ["Agrigento", "90.9778"]]
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHDIST
        [["Catania", "56.4413"], ["Agrigento", "130.4235"], ["Palermo", "190.4424"]]
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 200 100 mi DESC WITHDIST
        [["Agrigento", "81.0416"], ["Catania", "35.0711"]]
        > GEOSEARCH Sicily FROMMEMBER Palermo BYBOX 0 0 m
        ["Palermo"]
        @differs redis it has no such option
        > GEOSEARCH Sicily BYPOLYGON 4 12 37 12 39 14 39 14 37 ASC WITHDIST WITHCOORD
        [["Palermo", "33984.8484", ["13.36138933897018433", "38.11555639549629859"]], ["edge", "45359.0890", ["12.49999791383743286", "37.90000117338495755"]], ["Agrigento", "92122.6859", ["13.5833314061164856", "37.31666804993816555"]]]
        @differs redis it has no such option
        > GEOSEARCH Sicily BYPOLYGON 3 14 36 16 36 15 40 WITHDIST
        [["Catania", "20082.1837"]]
        > GEOSEARCH Sicily FROMLONLAT 0 0 BYRADIUS 1 m
        []
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 0 m
        []
        > GEOSEARCH nokey FROMMEMBER a BYRADIUS 1 m
        []
        > GEOSEARCH nokey FROMLONLAT 1 1 BYRADIUS 1 m
        []
        @resp3
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHDIST WITHHASH WITHCOORD COUNT 1
        [["Catania", "56.4413", 3479447370796909, [,15.087267458438873, ,37.50266842333162]]]
    "#]]);
}

#[test]
fn counts() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT 2
        ["Catania", "Agrigento"]
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT 2 DESC
        ["edge", "Palermo"]
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT 2 ANY
        ["edge", "Agrigento"]
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT 2 ANY ASC
        ["Agrigento", "edge"]
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT 100
        ["Catania", "Agrigento", "Palermo", "edge"]
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km ANY
        -ERR the ANY argument requires COUNT argument
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT 0
        -ERR COUNT must be > 0
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT -1
        -ERR COUNT must be > 0
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT x
        -ERR value is not an integer or out of range
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 500 km COUNT
        -ERR syntax error
    "#]]);
}

#[test]
fn arguments() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 yd
        -ERR unsupported unit provided. please use M, KM, FT, MI
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS -1 km
        -ERR radius cannot be negative
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS x km
        -ERR need numeric radius
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX -1 1 km
        -ERR height or width cannot be negative
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX x 1 km
        -ERR need numeric width
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 1 x km
        -ERR need numeric height
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 1 1 yd
        -ERR unsupported unit provided. please use M, KM, FT, MI
        > GEOSEARCH Sicily FROMLONLAT 200 37 BYRADIUS 1 km
        -ERR invalid longitude,latitude pair 200.000000,37.000000
        @differs redis its error text differs
        > GEOSEARCH Sicily FROMMEMBER nobody BYRADIUS 1 km
        -ERR member nobody does not exist
        > GEOSEARCH Sicily FROMMEMBER Palermo FROMLONLAT 15 37 BYRADIUS 1 km
        -ERR syntax error
        > GEOSEARCH Sicily FROMLONLAT 15 37 FROMMEMBER Palermo BYRADIUS 1 km
        -ERR syntax error
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 1 km BYBOX 1 1 km
        -ERR syntax error
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 1 1 km BYRADIUS 1 km
        -ERR syntax error
        > GEOSEARCH Sicily BYRADIUS 1 km ASC
        -ERR wrong number of arguments for 'geosearch' command
        @differs redis its error text differs
        > gEOsearch Sicily FROMLONLAT 15 37 ASC DESC ASC
        -ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for gEOsearch
        > GEOSEARCH Sicily BYRADIUS 1 km WITHDIST DESC
        -ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 1 km STORE x
        -ERR syntax error
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 1 km STOREDIST
        -ERR syntax error
        > GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 1 km odd
        -ERR syntax error
        @differs redis it has no such option
        > GEOSEARCH Sicily BYPOLYGON 2 1 1 2 2
        -ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        @differs redis it has no such option
        > GEOSEARCH Sicily BYPOLYGON 3 1 1 2 2 3
        -ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        @differs redis it has no such option
        > GEOSEARCH Sicily BYPOLYGON x 1 1 2 2 3 3
        -ERR invalid number of vertices
        @differs redis it has no such option
        > GEOSEARCH Sicily BYPOLYGON -3 1 1 2 2 3 3
        -ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        @differs redis it has no such option
        > GEOSEARCH Sicily BYPOLYGON 3 1 1 2 2 300 3
        -ERR invalid longitude,latitude pair 300.000000,3.000000
        > GEOSEARCH Sicily BYPOLYGON 3 1 1 2 2 3 3 BYRADIUS 1 km
        -ERR syntax error
        > GEOSEARCH Sicily BYPOLYGON 3 1 1 2 2 3 3 FROMMEMBER Palermo
        -ERR syntax error
        > GEOSEARCH Sicily FROMMEMBER Palermo BYPOLYGON 3 1 1 2 2 3 3
        -ERR syntax error
        > GEOSEARCH Sicily BYPOLYGON 3 1 1 2 2 3 3 4 4
        -ERR syntax error
        > GEOSEARCH nokey FROMMEMBER a BYRADIUS x m
        -ERR need numeric radius
        > SET s x
        +OK
        > GEOSEARCH s odd odd odd odd odd
        -WRONGTYPE Operation against a key holding the wrong kind of value
    "#]]);
}

#[test]
fn storing() {
    check(expect![[r#"
        > GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento 12.5 37.9 edge
        4
        > GEOSEARCHSTORE d Sicily FROMLONLAT 15 37 BYRADIUS 200 km
        3
        > ZRANGE d 0 -1 WITHSCORES
        ["Agrigento", "3479030013248308", "Palermo", "3479099956230698", "Catania", "3479447370796909"]
        > GEOSEARCHSTORE d Sicily FROMLONLAT 15 37 BYBOX 400 400 km STOREDIST COUNT 2
        2
        > ZRANGE d 0 -1 WITHSCORES
        ["Catania", "56.4412578701582", "Agrigento", "130.42348706714702"]
        @differs redis it has no such option
        > GEOSEARCHSTORE d Sicily BYPOLYGON 4 12 37 12 39 14 39 14 37 STOREDIST
        3
        @differs redis without BYPOLYGON nothing was stored
        > ZRANGE d 0 -1 WITHSCORES
        ["Palermo", "3.398484842873441e+4", "edge", "4.535908904019247e+4", "Agrigento", "9.212268593118753e+4"]
        > GEOSEARCHSTORE d Sicily FROMLONLAT 15 37 BYRADIUS 200 km WITHDIST
        -ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        > GEOSEARCHSTORE d Sicily FROMLONLAT 0 0 BYRADIUS 1 m
        0
        > EXISTS d
        0
        > SET d x
        +OK
        > GEOSEARCHSTORE d nokey FROMMEMBER a BYRADIUS 1 m
        0
        > EXISTS d
        0
        > GEOSEARCHSTORE Sicily Sicily FROMMEMBER Palermo BYRADIUS 100 km
        3
        > ZCARD Sicily
        3
        @differs redis its error text differs
        > GEOSEARCHSTORE d Sicily STOREDIST FROMMEMBER nobody BYRADIUS 100 km
        -ERR member nobody does not exist
    "#]]);
}

#[test]
fn the_poles_and_the_date_line() {
    check(expect![[r#"
        > GEOADD w 179.9 0 east -179.9 0 west 0 85 north 0 -85 south 90 80 a -90 80 b 180 0 line
        7
        > GEOSEARCH w FROMLONLAT 180 0 BYRADIUS 1 km ASC WITHDIST
        [["line", "0.0001"]]
        > GEOSEARCH w FROMLONLAT 180 0 BYRADIUS 100 km ASC WITHDIST
        [["line", "0.0001"], ["east", "11.1227"]]
        > GEOSEARCH w FROMLONLAT 180 0 BYRADIUS 3000 km ASC WITHDIST
        [["line", "0.0001"], ["east", "11.1227"]]
        > GEOSEARCH w FROMLONLAT 180 0 BYRADIUS 9000 km ASC WITHDIST
        [["line", "0.0001"], ["east", "11.1227"]]
        > GEOSEARCH w FROMLONLAT 180 0 BYRADIUS 21000 km ASC WITHDIST
        [["line", "0.0001"], ["east", "11.1227"], ["a", "10010.3669"], ["north", "10566.4985"], ["south", "10566.4985"]]
        > GEOSEARCH w FROMLONLAT -180 0 BYRADIUS 1 km ASC WITHDIST
        []
        > GEOSEARCH w FROMLONLAT -180 0 BYRADIUS 100 km ASC WITHDIST
        [["east", "11.1227"], ["west", "11.1227"]]
        > GEOSEARCH w FROMLONLAT -180 0 BYRADIUS 3000 km ASC WITHDIST
        [["east", "11.1227"], ["west", "11.1227"]]
        > GEOSEARCH w FROMLONLAT -180 0 BYRADIUS 9000 km ASC WITHDIST
        [["east", "11.1227"], ["west", "11.1227"]]
        > GEOSEARCH w FROMLONLAT -180 0 BYRADIUS 21000 km ASC WITHDIST
        [["east", "11.1227"], ["west", "11.1227"], ["a", "10010.3669"], ["b", "10010.3671"], ["north", "10566.4985"], ["south", "10566.4985"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYRADIUS 1 km ASC WITHDIST
        [["north", "0.0000"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYRADIUS 100 km ASC WITHDIST
        [["north", "0.0000"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYRADIUS 3000 km ASC WITHDIST
        [["north", "0.0000"], ["b", "1242.2812"], ["a", "1242.2812"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYRADIUS 9000 km ASC WITHDIST
        [["north", "0.0000"], ["b", "1242.2812"], ["a", "1242.2812"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYRADIUS 21000 km ASC WITHDIST
        [["north", "0.0000"], ["b", "1242.2812"], ["a", "1242.2812"], ["east", "10566.4975"], ["west", "10566.4975"], ["south", "18908.4710"]]
        > GEOSEARCH w FROMLONLAT 0 -85 BYRADIUS 1 km ASC WITHDIST
        [["south", "0.0000"]]
        > GEOSEARCH w FROMLONLAT 0 -85 BYRADIUS 100 km ASC WITHDIST
        [["south", "0.0000"]]
        > GEOSEARCH w FROMLONLAT 0 -85 BYRADIUS 3000 km ASC WITHDIST
        [["south", "0.0000"]]
        > GEOSEARCH w FROMLONLAT 0 -85 BYRADIUS 9000 km ASC WITHDIST
        [["south", "0.0000"]]
        > GEOSEARCH w FROMLONLAT 0 -85 BYRADIUS 21000 km ASC WITHDIST
        [["south", "0.0000"], ["east", "10566.4978"], ["west", "10566.4978"], ["b", "18778.4528"], ["a", "18778.4528"], ["north", "18908.4710"]]
        > GEOSEARCH w FROMLONLAT 0 0 BYRADIUS 1 km ASC WITHDIST
        []
        > GEOSEARCH w FROMLONLAT 0 0 BYRADIUS 100 km ASC WITHDIST
        []
        > GEOSEARCH w FROMLONLAT 0 0 BYRADIUS 3000 km ASC WITHDIST
        []
        > GEOSEARCH w FROMLONLAT 0 0 BYRADIUS 9000 km ASC WITHDIST
        []
        > GEOSEARCH w FROMLONLAT 0 0 BYRADIUS 21000 km ASC WITHDIST
        [["north", "9454.2355"], ["south", "9454.2355"], ["b", "10010.3669"], ["a", "10010.3671"], ["east", "20009.6113"], ["west", "20009.6113"]]
        > GEOSEARCH w FROMLONLAT 180 0 BYBOX 100 100 km ASC WITHDIST
        [["line", "0.0001"], ["east", "11.1227"]]
        > GEOSEARCH w FROMLONLAT 180 0 BYBOX 9000 9000 km ASC WITHDIST
        [["line", "0.0001"], ["east", "11.1227"]]
        > GEOSEARCH w FROMLONLAT 180 0 BYBOX 50000 50000 km ASC WITHDIST
        [["line", "0.0001"], ["east", "11.1227"], ["a", "10010.3669"], ["north", "10566.4985"], ["south", "10566.4985"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYBOX 100 100 km ASC WITHDIST
        [["north", "0.0000"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYBOX 9000 9000 km ASC WITHDIST
        [["north", "0.0000"], ["b", "1242.2812"], ["a", "1242.2812"]]
        > GEOSEARCH w FROMLONLAT 0 85 BYBOX 50000 50000 km ASC WITHDIST
        [["north", "0.0000"], ["b", "1242.2812"], ["a", "1242.2812"], ["east", "10566.4975"], ["west", "10566.4975"], ["south", "18908.4710"]]
        > GEOSEARCH w FROMLONLAT 0 0 BYBOX 100 100 km ASC WITHDIST
        []
        > GEOSEARCH w FROMLONLAT 0 0 BYBOX 9000 9000 km ASC WITHDIST
        []
        > GEOSEARCH w FROMLONLAT 0 0 BYBOX 50000 50000 km ASC WITHDIST
        [["north", "9454.2355"], ["south", "9454.2355"], ["b", "10010.3669"], ["a", "10010.3671"], ["east", "20009.6113"], ["west", "20009.6113"]]
    "#]]);
}
