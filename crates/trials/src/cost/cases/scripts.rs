//! Scripts and functions.

use super::Case;

/// Cases of scripts.
#[rustfmt::skip] // A line each.
pub(super) const CASES: &[Case] = &[
    Case::arguments("EVAL, deep pipeline", &[], r"N: EVAL return(redis.call('incr',KEYS[1])) 1 k#"),
    Case::arguments("EVALSHA, deep pipeline", &["SCRIPT LOAD return(redis.call('incr',KEYS[1]))"], "N: EVALSHA a79a73d4efb6d4d8861290b54f6770d6422c2144 1 k#"),
    Case::arguments("EVAL_RO, deep pipeline", &["MSET {k# v#}*N"], "N: EVAL_RO return(redis.call('get',KEYS[1])) 1 k#"),
    Case::arguments("EVALSHA_RO, deep pipeline", &["MSET {k# v#}*N", "SCRIPT LOAD return(redis.call('get',KEYS[1]))"], "N: EVALSHA_RO c77382aa965ed715a9230ae8a1d2409e254c2b00 1 k#"),
    Case::arguments("EVAL with an undeclared key", &["SET k v"], "N: EVAL return(redis.call('get','k')) 0"),
    Case::arguments("EVAL of many commands", &[], r"EVAL for\si=1,ARGV[1]\sdo\sredis.call('incr',KEYS[1])\send 1 k N"),
    Case::arguments("EVAL of many undeclared keys", &[], r"EVAL for\si=1,ARGV[1]\sdo\sredis.call('set','k'..i,i)\send 0 N"),
    Case::arguments("EVAL with many keys", &[], "EVAL return(#KEYS) N {k#}*N"),
    Case::arguments("EVAL with many arguments", &[], "EVAL return(#ARGV) 0 {k#}*N"),
    Case::elements("EVAL with a long reply", &["RPUSH l {e#}*N"], "EVAL return(redis.call('lrange',KEYS[1],0,-1)) 1 l"),
    Case::arguments("EVAL of many texts", &[], "N/25: EVAL return(#) 0 ; SCRIPT FLUSH"),
    Case::arguments("SCRIPT LOAD of many texts", &[], "N/25: SCRIPT LOAD return(#) ; SCRIPT FLUSH"),
    Case::arguments("SCRIPT EXISTS", &["SCRIPT LOAD return(1)"], "SCRIPT EXISTS {930269f31393d0be681588b6ab08dccee7d6bb67}*N"),
    Case::arguments("FCALL, deep pipeline", &[r"FUNCTION LOAD REPLACE #!lua\sname=l\nredis.register_function('f',function(k)return(redis.call('incr',k[1]))end)"], "N: FCALL f 1 k#"),
    Case::arguments("FCALL_RO, deep pipeline", &["MSET {k# v#}*N", r"FUNCTION LOAD REPLACE #!lua\sname=l\nredis.register_function\(function_name='f',callback=function(k)return(redis.call('get',k[1]))end,flags=\('no-writes'\)\)"], "N: FCALL_RO f 1 k#"),
    Case::arguments("FUNCTION LOAD of many libraries", &[], r"N/250: FUNCTION LOAD \h!lua\sname=l#\nredis.register_function('f#',function()end) ; FUNCTION FLUSH").up_to(100.0, "every slot is latched"),
    Case::arguments("FUNCTION LOAD of many functions", &[], r"FUNCTION LOAD REPLACE #!lua\sname=l\nfor\si=1,2000\sdo\sredis.register_function('f'..i,function()end)\send"),
];
