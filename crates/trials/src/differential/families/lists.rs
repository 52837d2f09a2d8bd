//! Lists and SORT. SORT also applies to sets and sorted sets, but its results are lists.

use super::Family;

/// Lists.
pub const LISTS: Family = Family {
    name: "lists",
    lines: &[
        (16, "RPUSH key value+"),
        (10, "LPUSH key value+"),
        (3, "RPUSH key value+ value+ value+ value+ value+ value+"),
        (3, "LPUSHX key value+"),
        (3, "RPUSHX key value+"),
        (5, "LPOP key [<0|1|2|3|1000|integer>]"),
        (5, "RPOP key [<0|1|2|3|1000|integer>]"),
        (4, "LLEN key"),
        (8, "LRANGE key index index"),
        (2, "LRANGE key 0 -1"),
        (5, "LINDEX key index"),
        (5, "LSET key index value"),
        (5, "LINSERT key <BEFORE|AFTER|odd> value value"),
        (5, "LREM key integer value"),
        (4, "LTRIM key index index"),
        (6, "LPOS key value [RANK integer] [COUNT integer] [MAXLEN integer]"),
        (5, "LMOVE key key <LEFT|RIGHT|odd> <LEFT|RIGHT>"),
        (3, "RPOPLPUSH key key"),
        (5, "LMPOP <1|2|3|integer> key key [key] <LEFT|RIGHT|odd> [COUNT integer]"),
        (4, "OBJECT ENCODING key"),
        (3, "SORT key [LIMIT integer integer] [ASC|DESC] [ALPHA]"),
        (3, "SORT key [BY <NOSORT|pattern>] [GET <#|pattern>] [ASC|DESC] [ALPHA] [STORE key]"),
        (2, "SORT key [BY NOSORT] [LIMIT integer integer] [GET <#|pattern>] [ASC|DESC] [ALPHA] [STORE key]"),
        (2, "SORT_RO key [BY <NOSORT|pattern>] [LIMIT integer integer] [GET <#|pattern>] [ASC|DESC] [ALPHA]"),
        (2, "COPY key key [REPLACE]"),
        (2, "RENAME key key"),
        (2, "DEL key"),
        (1, "SET key value"),
        (1, "SADD key value"),
        (1, "GET key"),
        (1, "TYPE key"),
        (1, "PEXPIRE key 1"),
        (1, "EXPIRE key seconds"),
        (1, "SCAN 0 TYPE LIST"),
    ],
};
