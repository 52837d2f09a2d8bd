//! Whether a script can access only keys that it declared, as far as its text proves it.
//!
//! A script whose text proves it is latched by its declared keys alone, and can never meet another one. The proof is
//! conservative: each command is a literal whose key positions do not depend on its other arguments, each key is an
//! element of `KEYS` or a local variable that only ever holds one, and nothing else can reach `redis`, `KEYS` or code.
//! A script without a proof may be as good; it is latched with more care.
//!
//! Invariant: `KEYS` is only read, so each of its elements is a declared key or nil, which no command accepts.

mod tokens;

use std::collections::{HashMap, HashSet};

use commands::command::{Access, Begin, Find, Flags, KeySpec};
use commands::table::COMMANDS;

use self::tokens::{Token, tokens};

/// What the text of a script proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// Every key that it accesses is declared.
    pub keeps_to_keys: bool,
}

/// Longer scripts are not analysed, in bytes.
const ANALYSED_SIZE_MAX: usize = 256 << 10;

/// Names with which a script could reach more than its text shows.
const FORBIDDEN: [&[u8]; 12] = [
    b"_G",
    b"getfenv",
    b"setfenv",
    b"load",
    b"loadstring",
    b"rawset",
    b"rawget",
    b"setmetatable",
    b"getmetatable",
    b"newproxy",
    b"__redis__err__handler",
    b"__server__err__handler",
];

/// Fields of `redis` that run no command.
const HARMLESS: [&[u8]; 9] = [
    b"error_reply",
    b"status_reply",
    b"log",
    b"sha1hex",
    b"setresp",
    b"set_repl",
    b"replicate_commands",
    b"breakpoint",
    b"acl_check_cmd",
];

/// Analyses a script.
#[must_use]
pub fn analyse(body: &[u8]) -> Analysis {
    let proved = (body.len() <= ANALYSED_SIZE_MAX).then(|| tokens(body)).flatten();
    Analysis {
        keeps_to_keys: proved.is_some_and(|tokens| Proof::new(&tokens).is_some_and(|proof| proof.holds())),
    }
}

struct Proof<'a> {
    tokens: &'a [Token<'a>],
    /// Local variables that only ever hold an element of `KEYS`.
    keys: HashSet<&'a [u8]>,
}

impl<'a> Proof<'a> {
    /// Finds the variables. `None`: the script does more than a proof covers.
    fn new(tokens: &'a [Token<'a>]) -> Option<Self> {
        let mut proof = Self { tokens, keys: HashSet::new() };
        let bindings = proof.bindings()?;
        for reserved in [&b"redis"[..], b"server", b"KEYS", b"unpack", b"ipairs"] {
            if bindings.contains_key(reserved) {
                return None;
            }
        }
        let candidates = proof.candidates();
        proof.keys = candidates.into_iter().filter(|name| bindings.get(name) == Some(&1)).collect();
        Some(proof)
    }

    fn at(&self, index: usize) -> Token<'a> {
        self.tokens.get(index).copied().unwrap_or(Token::End)
    }

    fn is(&self, index: usize, symbol: &str) -> bool {
        self.at(index) == Token::Symbol(symbol.as_bytes())
    }

    fn name(&self, index: usize) -> Option<&'a [u8]> {
        match self.at(index) {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }

    fn is_name(&self, index: usize, name: &str) -> bool {
        self.name(index) == Some(name.as_bytes())
    }

    /// How often each name is bound: declared, a parameter, a loop variable, or assigned.
    fn bindings(&self) -> Option<HashMap<&'a [u8], usize>> {
        let mut bound = HashMap::new();
        for index in 0..self.tokens.len() {
            match self.at(index) {
                Token::Name(b"local") if !self.is_name(index + 1, "function") => {
                    self.bind_list(index + 1, &mut bound);
                }
                Token::Name(b"for") => self.bind_list(index + 1, &mut bound),
                Token::Name(b"function") => {
                    let mut at = index + 1;
                    while self.name(at).is_some() || self.is(at, ".") || self.is(at, ":") {
                        if let Some(name) = self.name(at) {
                            *bound.entry(name).or_insert(0) += 1;
                        }
                        at += 1;
                    }
                    self.bind_list(at + 1, &mut bound);
                }
                Token::Symbol(b"=") => self.bind_targets(index, &mut bound)?,
                _ => {}
            }
        }
        Some(bound)
    }

    fn bind_list(&self, mut at: usize, bound: &mut HashMap<&'a [u8], usize>) {
        while let Some(name) = self.name(at) {
            *bound.entry(name).or_insert(0) += 1;
            if !self.is(at + 1, ",") {
                break;
            }
            at += 2;
        }
    }

    /// Binds the targets of an assignment, backwards from its `=`. Those of a declaration are bound already.
    fn bind_targets(&self, equals: usize, bound: &mut HashMap<&'a [u8], usize>) -> Option<()> {
        let mut at = equals;
        let mut targets = Vec::new();
        loop {
            at = at.checked_sub(1)?;
            let base = loop {
                if self.is(at, "]") {
                    at = self.opening(at)?.checked_sub(1)?;
                    continue;
                }
                // Anything else is no variable: `{[1] = 2, f(), x = 3}` is a constructor.
                let Token::Name(name) = self.at(at) else { break None };
                match at.checked_sub(2) {
                    Some(before) if self.is(at - 1, ".") => at = before,
                    _ => break Some(name),
                }
            };
            let Some(base) = base else { break };
            targets.push(base);
            if at == 0 || !self.is(at - 1, ",") {
                break;
            }
            at -= 1;
        }
        let is_declaration = at > 0 && (self.is_name(at - 1, "local") || self.is_name(at - 1, "for"));
        if !is_declaration {
            targets.into_iter().for_each(|name| *bound.entry(name).or_insert(0) += 1);
        }
        Some(())
    }

    /// The bracket that this closing one belongs to.
    fn opening(&self, closing: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for index in (0..=closing).rev() {
            match self.at(index) {
                Token::Symbol(b"]" | b")" | b"}") => depth += 1,
                Token::Symbol(b"[" | b"(" | b"{") => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The bracket that closes this opening one.
    fn closing(&self, opening: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for index in opening..self.tokens.len() {
            match self.at(index) {
                Token::Symbol(b"[" | b"(" | b"{") => depth += 1,
                Token::Symbol(b"]" | b")" | b"}") => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The end of an element of `KEYS` that begins here.
    fn element_end(&self, index: usize) -> Option<usize> {
        (self.is_name(index, "KEYS") && self.is(index + 1, "["))
            .then(|| self.closing(index + 1))
            .flatten()
            .map(|end| end + 1)
    }

    /// Variables that are declared as elements of `KEYS`, or loop over them.
    fn candidates(&self) -> HashSet<&'a [u8]> {
        let mut candidates = HashSet::new();
        for index in 0..self.tokens.len() {
            if self.is_name(index, "local") {
                candidates.extend(self.declared_keys(index + 1).unwrap_or_default());
            }
            // for _, key in ipairs(KEYS) do
            if self.is_name(index, "for")
                && self.is(index + 2, ",")
                && self.is_name(index + 4, "in")
                && self.is_name(index + 5, "ipairs")
                && self.is(index + 6, "(")
                && self.is_name(index + 7, "KEYS")
                && self.is(index + 8, ")")
                && self.is_name(index + 9, "do")
            {
                candidates.extend(self.name(index + 3));
            }
        }
        candidates
    }

    fn declared_keys(&self, mut at: usize) -> Option<Vec<&'a [u8]>> {
        let mut names = vec![self.name(at)?];
        while self.is(at + 1, ",") {
            at += 2;
            names.push(self.name(at)?);
        }
        if !self.is(at + 1, "=") {
            return None;
        }
        let mut value = at + 2;
        for nth in 0..names.len() {
            value = self.element_end(value)?;
            if nth + 1 < names.len() {
                if !self.is(value, ",") {
                    return None;
                }
                value += 1;
            }
        }
        let is_operator = self.is_name(value, "and") || self.is_name(value, "or");
        let ends = matches!(self.at(value), Token::Name(_) | Token::End | Token::Symbol(b";"));
        (ends && !is_operator).then_some(names)
    }

    fn holds(&self) -> bool {
        (0..self.tokens.len()).all(|index| self.is_harmless(index))
    }

    fn is_harmless(&self, index: usize) -> bool {
        let Some(name) = self.name(index) else { return true };
        let is_field = index > 0 && (self.is(index - 1, ".") || self.is(index - 1, ":"));
        match name {
            _ if is_field => true,
            b"KEYS" => self.only_reads_keys(index),
            b"redis" | b"server" => self.is_call_of_own_keys(index),
            name => !FORBIDDEN.contains(&name),
        }
    }

    fn only_reads_keys(&self, index: usize) -> bool {
        if let Some(end) = self.element_end(index) {
            return !self.is(end, "=");
        }
        let is_whole = |function| {
            index > 1
                && self.is(index - 1, "(")
                && self.is_name(index - 2, function)
                && self.is(index + 1, ")")
        };
        (index > 0 && self.is(index - 1, "#")) || is_whole("unpack") || is_whole("ipairs")
    }

    fn is_call_of_own_keys(&self, index: usize) -> bool {
        if !self.is(index + 1, ".") {
            return false;
        }
        match self.name(index + 2) {
            Some(b"call" | b"pcall") if self.is(index + 3, "(") => {
                self.closing(index + 3).is_some_and(|end| self.names_own_keys(index + 4, end))
            }
            Some(field) => {
                let is_constant = field.starts_with(b"LOG_") || field.starts_with(b"REPL_");
                is_constant || (HARMLESS.contains(&field) && self.is(index + 3, "("))
            }
            None => false,
        }
    }

    /// Whether the call with these arguments accesses only elements of `KEYS`.
    fn names_own_keys(&self, begin: usize, end: usize) -> bool {
        let Some(arguments) = self.arguments(begin, end) else { return false };
        let [(at, after), ..] = arguments[..] else { return false };
        let Token::Text(name) = self.at(at) else { return false };
        if after != at + 1 {
            return false;
        }
        let mut commands = COMMANDS.iter();
        let Some(command) = commands.find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
        else {
            return false;
        };
        if !command.subcommands.is_empty() {
            return false;
        }
        match command.access {
            Access::Read | Access::Write => {
                !command.keys.is_empty() && command.keys.iter().all(|spec| self.are_keys(spec, &arguments))
            }
            // Others than these walk over the keys.
            Access::None => !command.flags.contains(Flags::READONLY) && command.keys.is_empty(),
            _ => false,
        }
    }

    /// The arguments of a call, each with where it begins and ends.
    fn arguments(&self, begin: usize, end: usize) -> Option<Vec<(usize, usize)>> {
        let (mut arguments, mut from, mut at) = (Vec::new(), begin, begin);
        while at < end {
            match self.at(at) {
                Token::Symbol(b"(" | b"[" | b"{") => at = self.closing(at)?,
                Token::Symbol(b",") => {
                    arguments.push((from, at));
                    from = at + 1;
                }
                // A function's body has commas of its own.
                Token::Name(b"function") => return None,
                _ => {}
            }
            at += 1;
        }
        arguments.push((from, end));
        Some(arguments)
    }

    fn are_keys(&self, spec: &KeySpec, arguments: &[(usize, usize)]) -> bool {
        if spec.is_first_only() {
            return arguments.get(1).is_some_and(|argument| self.is_key(*argument));
        }
        let (true, Begin::Index(first), Find::Range { last, step, limit: 0 | 1 }) =
            (spec.is_by_count(), spec.begin, spec.find)
        else {
            return false;
        };
        let Some(&(from, end)) = arguments.last() else { return false };
        // All arguments are keys, and the last ones are all elements.
        if self.is_all_elements(from, end) {
            return last == -1
                && step == 1
                && arguments[first as usize..arguments.len() - 1]
                    .iter()
                    .all(|argument| self.is_key(*argument));
        }
        // The last argument may be several.
        if self.is(end - 1, ")") || self.is(end - 1, "...") {
            return false;
        }
        let last = match usize::try_from(last) {
            Ok(more) => first as usize + more,
            Err(_) => match arguments.len().checked_sub(last.unsigned_abs() as usize) {
                Some(last) => last,
                None => return false,
            },
        };
        (first as usize..=last)
            .step_by(step.max(1) as usize)
            .all(|index| arguments.get(index).is_some_and(|argument| self.is_key(*argument)))
    }

    /// `unpack(KEYS)`
    fn is_all_elements(&self, from: usize, end: usize) -> bool {
        end == from + 4
            && self.is_name(from, "unpack")
            && self.is(from + 1, "(")
            && self.is_name(from + 2, "KEYS")
            && self.is(from + 3, ")")
    }

    fn is_key(&self, (from, end): (usize, usize)) -> bool {
        let is_variable = || end == from + 1 && self.name(from).is_some_and(|name| self.keys.contains(name));
        self.element_end(from) == Some(end) || is_variable()
    }
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
            "local call = redis.call return call('get', KEYS[1])",
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
        ] {
            assert!(!proves(body), "{body}");
        }
    }
}
