//! Scripts and functions. Their texts are in `script_texts`.

use super::Family;

/// Scripts and functions.
pub const SCRIPTS: Family = Family {
    name: "scripts",
    lines: &[
        (60, "EVAL script 1 key value*"),
        (12, "EVAL script 2 key key value*"),
        (6, "EVAL script 0 value*"),
        (8, "EVAL_RO script 1 key value*"),
        (4, "EVAL script integer key value*"),
        (
            20,
            "EVAL script 1 key <GET|INCR|HGETALL|LRANGE|SET|TYPE|ZRANGE|SMEMBERS|OBJECT|odd> <key|ENCODING> value*",
        ),
        (3, "EVALSHA sha 0"),
        (6, "<EVALSHA|EVALSHA_RO> sha 1 key"),
        (1, "SCRIPT LOAD loaded"),
        (3, "SCRIPT EXISTS sha odd"),
        (1, "SCRIPT <FLUSH [SYNC|ASYNC|odd]|KILL|HELP odd|odd>"),
        (12, "FUNCTION LOAD [REPLACE] library"),
        (2, "FUNCTION LOAD odd library"),
        (3, "FUNCTION LIST LIBRARYNAME function [WITHCODE]"),
        (2, "FUNCTION DELETE function"),
        (1, "FUNCTION <FLUSH [SYNC|ASYNC|odd]|KILL|STATS odd|odd>"),
        (16, "FCALL function 1 key value*"),
        (6, "FCALL_RO function 1 key value*"),
        (3, "FCALL function integer key value*"),
        (2, "FCALL_RO function 0 <GET|SET|PING> key value"),
        (6, "SET key <value|integer>"),
        (4, "RPUSH key value+"),
        (4, "HSET key <name value>+"),
        (4, "SADD key member"),
        (4, "ZADD key integer member"),
        (3, "DEL key"),
        (1, "PING"),
        (3, "MULTI"),
        (4, "EXEC"),
        (1, "SELECT 0"),
    ],
};
