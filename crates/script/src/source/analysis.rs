//! Whether a script can access only keys that it declared, as far as its text proves it.
//!
//! A script whose text proves it is latched by its declared keys alone, and can never meet another one. The proof is
//! conservative: each command is a literal whose key positions do not depend on its other arguments, each key is an
//! element of `KEYS`, and nothing else can reach `redis`, `KEYS` or code. `flow.rs` follows keys through variables and
//! through functions that are only called by their names, `calls.rs` checks calls of commands, and `library.rs` finds the
//! functions that a library registers. A script without a proof may be as good; it is latched with more care.
//!
//! Invariants:
//! 1. `KEYS` is only read, so each of its elements is a declared key or nil, which no command accepts.
//! 2. In a library, a variable that holds keys belongs to one call of a function: no value that outlives a run refers to it.

mod calls;
mod flow;
mod library;
mod syntax;
mod tokens;

use std::collections::HashSet;

use self::calls::Faults;
use self::flow::Flow;
use self::syntax::{Syntax, parse};
use self::tokens::tokens;

/// What the text of a script proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// Every key that it accesses is declared.
    pub keeps_to_keys: bool,
}

/// What the code of a library proves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryAnalysis {
    /// The functions that access declared keys only, in lower case.
    proved: HashSet<Vec<u8>>,
}

impl LibraryAnalysis {
    /// Whether every key that a function accesses is declared.
    #[must_use]
    pub fn keeps_to_keys(&self, function: &[u8]) -> bool {
        self.proved.contains(&function.to_ascii_lowercase())
    }
}

/// Longer scripts are not analysed, in bytes.
const ANALYSED_SIZE_MAX: usize = 256 << 10;

/// Analyses a script.
#[must_use]
pub fn analyse(body: &[u8]) -> Analysis {
    let holds = with_syntax(body, |syntax| {
        let flow = Flow::new(syntax, None)?;
        Faults::new(&flow).map(|faults| faults.are_none())
    });
    Analysis { keeps_to_keys: holds == Some(true) }
}

/// Analyses the code of a library, without its first line.
#[must_use]
pub fn analyse_library(code: &[u8]) -> LibraryAnalysis {
    LibraryAnalysis { proved: with_syntax(code, library::proved_functions).unwrap_or_default() }
}

fn with_syntax<R>(code: &[u8], prove: impl FnOnce(&Syntax<'_>) -> Option<R>) -> Option<R> {
    if code.len() > ANALYSED_SIZE_MAX {
        return None;
    }
    let tokens = tokens(code)?;
    let syntax = parse(&tokens)?;
    // A global that is assigned to could be one of Lua's functions.
    if syntax.assigns_globals { None } else { prove(&syntax) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proves(body: &str) -> bool {
        analyse(body.as_bytes()).keeps_to_keys
    }

    #[test]
    fn scripts_that_keep_to_their_keys() {
        for body in [
            "return 1",
            "return redis.call('get', KEYS[1])",
            "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])",
            "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.call(\"del\", KEYS[1]) else return 0 end",
            "local key = KEYS[1]\nlocal n = redis.call('INCR', key) if n == 1 then redis.call('expire', key, 10) end return n",
            "local a, b = KEYS[1], KEYS[2] return redis.call('rename', a, b)",
            "return redis.call('del', unpack(KEYS))",
            "return redis.call('mget', KEYS[1], KEYS[2])",
            "for i = 1, #KEYS do redis.call('incr', KEYS[i]) end",
            "for _, key in ipairs(KEYS) do redis.call('incr', key) end",
            "redis.log(redis.LOG_NOTICE, 'x') return {redis.call('time'), redis.error_reply('ERR x')}",
            "return redis.call('sadd', KEYS[1], unpack(ARGV)) -- KEYS = {}",
            "local t = {a = 1, [2] = 3} t.x, t[1] = 1, 2 return redis.pcall('hget', KEYS[1], t.x)",
            "local keys = KEYS return redis.call('get', keys[1])",
            "local call = redis.call call('set', KEYS[1], 1) return call('get', KEYS[1])",
            "local function get(key) return redis.call('get', key) end return get(KEYS[1])",
            "local key = KEYS[1] local function get() return redis.call('get', key) end return pcall(get)",
            "local key = KEYS[1] do local key = 'x' end return redis.call('get', key)",
            "local redis = {call = function() return 'x' end} return redis.call('get', 'x')",
            "for i, key in pairs(KEYS) do redis.call('incrby', key, #KEYS + i) end return cjson.encode(KEYS)",
            "repeat local done = redis.call('incr', KEYS[1]) > 5 until done",
            "return 0xe+1, 1e+1, #KEYS..redis.call('get', KEYS[1])",
        ] {
            assert!(proves(body), "{body}");
        }
    }

    #[test]
    fn scripts_that_may_not() {
        for body in [
            "return redis.call('get', 'key')",
            "return redis.call('get', ARGV[1])",
            "return redis.call('get', KEYS[1] .. ':x')",
            "local key = KEYS[1] .. 'x' return redis.call('get', key)",
            "local key = KEYS[1] key = 'other' return redis.call('get', key)",
            "local key = KEYS[1] key, x = 'other', 1 return redis.call('get', key)",
            "local key = KEYS[1] or 'other' return redis.call('get', key)",
            "local key = KEYS[1] local function f(key) return redis.call('get', key) end return f('x')",
            "local key = KEYS[1] for key in ipairs({}) do redis.call('get', key) end",
            "KEYS[1] = 'x' return redis.call('get', KEYS[1])",
            "KEYS = {'x'} return redis.call('get', KEYS[1])",
            "local k = KEYS k[1] = 'x' return redis.call('get', KEYS[1])",
            "table.insert(KEYS, 'x') return redis.call('get', KEYS[1])",
            "local call = redis.call return call('get', ARGV[1])",
            "local r = redis return r.call('get', KEYS[1])",
            "return redis['call']('get', 'x')",
            "return redis.call(ARGV[1], KEYS[1])",
            "return redis.call('get' .. 'x', KEYS[1])",
            "return redis.call('mget', KEYS[1], 'x')",
            "return redis.call('mget', KEYS[1], unpack(ARGV))",
            "return redis.call('scan', 0)",
            "return redis.call('sort', KEYS[1], 'by', 'x*')",
            "return redis.call('eval', 'x', 1, KEYS[1])",
            "return _G.redis.call('get', 'x')",
            "return loadstring('return 1')()",
            "local unpack = function() return 'x' end return redis.call('del', unpack(KEYS))",
            "return redis.call('blpop', KEYS[1], ARGV[1], 0)",
            "return redis.call('zunionstore', KEYS[1], 1, ARGV[1])",
            "return redis.call 'x'",
            "return redis.call('bitop', 'and', KEYS[1], ARGV[1])",
            "return 0xe+redis.call('incr', 'x')",
            "local key, t = KEYS[1], {} key, (t).x = 'other', 1 return redis.call('get', key)",
            "local key = KEYS[1] local function f() key = 'x' end f() return redis.call('get', key)",
            "local keys = KEYS keys = {'x'} return redis.call('get', keys[1])",
            "local call = redis.call call = redis.pcall return call('get', KEYS[1])",
            "local call = redis.call return pcall(call, 'get', KEYS[1])",
            "local function get(key) return redis.call('get', key) end return get(KEYS[1]), get(ARGV[1])",
            "local function keys(k) k[1] = 'x' end keys(KEYS) return redis.call('get', KEYS[1])",
            "for key in pairs(KEYS) do redis.call('incr', key) end",
            "function unpack() return 'x' end return redis.call('del', unpack(KEYS))",
            "return redis:call('get', KEYS[1])",
            "return (redis).call('get', 'x')",
            "local t = {redis} return t[1].call('get', 'x')",
            "return redis.call('get', (KEYS[1] or 'x'))",
            "repeat local key = 'x' until redis.call('get', key)",
        ] {
            assert!(!proves(body), "{body}");
        }
    }

    #[test]
    fn texts_that_nest_deep_are_not_analysed() {
        let nested = |depth: usize| format!("return {}1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(proves(&nested(100)) && !proves(&nested(1_000)) && !proves(&nested(100_000)));
        let blocks = |depth: usize| "do ".repeat(depth) + &"end ".repeat(depth);
        assert!(proves(&blocks(100)) && !proves(&blocks(50_000)));
        // These nest in the syntax, not in the text.
        assert!(proves(&format!("return 1{}", "+1".repeat(50_000))));
        assert!(proves(&format!("return tostring{}", "(1)".repeat(50_000))));
        assert!(proves(&format!("return {}1", "not ".repeat(50_000))));
        assert!(proves(&format!("local t = {{}} return t{}", ".x".repeat(50_000))));
    }
}
