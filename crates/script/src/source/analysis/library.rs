//! The functions that a library registers, and what each of them reaches.
//!
//! The first parameter of a registered function is the table of the declared keys. A function is proved if nothing that it
//! reaches has a fault: the functions in it, those that it calls by name, and all functions that are values.

use std::collections::HashSet;

use super::calls::Faults;
use super::flow::Flow;
use super::syntax::{ExpressionForm, ExpressionId, FunctionId, MAIN, Syntax};

/// A call of `register_function`.
struct Registration<'a> {
    name: &'a [u8],
    callback: ExpressionId,
}

/// The names of the functions that are proved, in lower case. `None`: there is something that concerns all of them.
pub(super) fn proved_functions(syntax: &Syntax<'_>) -> Option<HashSet<Vec<u8>>> {
    let registrations = registrations(syntax)?;
    let callbacks: Vec<ExpressionId> = registrations.iter().map(|found| found.callback).collect();
    let flow = Flow::new(syntax, Some(&callbacks))?;
    let faults = Faults::new(&flow)?;
    let reaches_fault = reaching(&flow, faults);
    let is_of_all = |function: FunctionId| function == MAIN || flow.uses[function].is_value;
    if (0..reaches_fault.len()).any(|function| reaches_fault[function] && is_of_all(function)) {
        return None;
    }
    let (mut proved, mut refused) = (HashSet::new(), HashSet::new());
    for registration in &registrations {
        let name = registration.name.to_ascii_lowercase();
        let function = flow.function_at(registration.callback);
        if function.is_some_and(|function| !reaches_fault[function]) {
            proved.insert(name);
        } else {
            refused.insert(name);
        }
    }
    // Of two calls with one name, either may be the one that is made.
    proved.retain(|name| !refused.contains(name));
    Some(proved)
}

/// The calls of `register_function`. `None`: what one of them registers is not in the text.
fn registrations<'a>(syntax: &Syntax<'a>) -> Option<Vec<Registration<'a>>> {
    let form = |id: ExpressionId| &syntax.expressions[id].form;
    let text = |id: ExpressionId| match *form(id) {
        ExpressionForm::Text(text) => Some(text),
        _ => None,
    };
    let mut found = Vec::new();
    for expression in &syntax.expressions {
        let ExpressionForm::Call(callee, arguments) = &expression.form else { continue };
        let ExpressionForm::Index(table, field) = *form(*callee) else { continue };
        if !matches!(form(table), ExpressionForm::Global(b"redis" | b"server"))
            || text(field) != Some(b"register_function")
        {
            continue;
        }
        let (name, callback) = match arguments[..] {
            [name, callback] => (name, callback),
            [named] => {
                let ExpressionForm::Table(fields) = form(named) else { return None };
                let value_of = |name: &[u8]| {
                    let is_it = |key: &Option<ExpressionId>| {
                        key.and_then(text).is_some_and(|key| key.eq_ignore_ascii_case(name))
                    };
                    let mut values = fields.iter().filter(|(key, _)| is_it(key)).map(|(_, value)| *value);
                    values.next().filter(|_| values.next().is_none())
                };
                if !fields.iter().all(|(key, _)| key.and_then(text).is_some()) {
                    return None;
                }
                (value_of(b"function_name")?, value_of(b"callback")?)
            }
            _ => return None,
        };
        found.push(Registration { name: text(name)?, callback });
    }
    Some(found)
}

/// By function, whether it reaches a fault.
fn reaching(flow: &Flow<'_, '_>, faults: Faults) -> Vec<bool> {
    let mut users: Vec<Vec<FunctionId>> = vec![Vec::new(); flow.uses.len()];
    for (function, inner) in flow.syntax.functions.iter().enumerate() {
        // The code that runs while the library is loaded calls no commands.
        if inner.parent != MAIN {
            users[function].push(inner.parent);
        }
    }
    for expression in &flow.syntax.expressions {
        if let ExpressionForm::Call(callee, _) = expression.form
            && let Some(called) = flow.called(callee)
            && expression.function != MAIN
        {
            users[called].push(expression.function);
        }
    }
    let mut reaches = faults.is_in;
    let mut pending: Vec<FunctionId> = (0..reaches.len()).filter(|function| reaches[*function]).collect();
    while let Some(function) = pending.pop() {
        for user in &users[function] {
            if !std::mem::replace(&mut reaches[*user], true) {
                pending.push(*user);
            }
        }
    }
    reaches
}

#[cfg(test)]
mod tests {
    use crate::source::analysis::analyse_library;

    /// Whether the function `f` of a library is proved.
    fn proves(code: &str) -> bool {
        analyse_library(code.as_bytes()).keeps_to_keys(b"f")
    }

    #[test]
    fn libraries_that_keep_to_their_keys() {
        for code in [
            "redis.register_function('f', function(keys, args) return redis.call('get', keys[1]) end)",
            "server.register_function('f', function(KEYS, ARGV) return server.call('set', KEYS[1], ARGV[1]) end)",
            "local function f(keys, args) local key = keys[1] return redis.call('incr', key) end \
             redis.register_function('f', f) redis.register_function('g', f)",
            "redis.register_function{function_name='f', callback=function(k) return redis.call('get', k[1]) end, \
             flags={'no-writes'}}",
            "redis.register_function('f', function(a) return redis.call('mget', unpack(a)) end) \
             redis.register_function('g', function(b) return redis.call('get', b[1]) end)",
            "redis.register_function('f', function() return redis.call('time') end)",
            "redis.register_function('f', function(keys) local other = keys return redis.call('get', other[1]) end)",
        ] {
            assert!(proves(code), "{code}");
        }
    }

    #[test]
    fn libraries_that_may_not() {
        for code in [
            "redis.register_function('f', function(keys, args) return redis.call('get', args[1]) end)",
            "redis.register_function('f', function(keys, args) return redis.call('get', 'k') end)",
            "redis.register_function('f', function(keys) keys[1] = 'x' return redis.call('get', keys[1]) end)",
            "redis.register_function('f', function(...) local keys = ... return redis.call('get', keys[1]) end)",
            "redis.register_function('f', function(keys) return redis.call('get', KEYS[1]) end)",
            "local function f(keys) return redis.call('get', keys[1]) end redis.register_function('f', f) \
             redis.register_function('g', function(k) return f({'x'}) end)",
            "redis.register_function('f', function(keys) for keys in pairs({}) do redis.call('get', keys[1]) end end)",
            "local KEYS = {'x'} redis.register_function('f', function(keys) return redis.call('get', KEYS[1]) end)",
            "local f = redis.register_function f('f', function(keys) return redis.call('get', keys[1]) end)",
            "local x = {['register_function'] = select} redis.register_function('f', function(k) \
             return x.register_function('1', function(keys) return redis.call('get', keys[1]) end)({'x'}) end)",
            "redis.register_function('f', function(keys) return loadstring('return 1')() end)",
            "function f(keys) return redis.call('get', keys[1]) end redis.register_function('f', f)",
        ] {
            assert!(!proves(code), "{code}");
        }
    }

    const F: &str = "redis.register_function('f', function(keys, args)";

    /// Pairs of a form that is proved and one that is not, with the least difference.
    #[test]
    fn helpers() {
        for (proved, refused) in [
            // The table of keys, and one of them.
            (
                "local function get(k) return redis.call('get', k[1]) end F return get(keys) end)",
                "local function get(k) return redis.call('get', k[1]) end F return get(args) end)",
            ),
            (
                "local function get(key, n) return redis.call('get', key) end F return get(keys[1], args[1]) end)",
                "local function get(key, n) return redis.call('get', key) end F return get(args[1], keys[1]) end)",
            ),
            (
                "local get = function(key) return redis.call('get', key) end F return get(keys[1]) end)",
                "local get get = function(key) return redis.call('get', key) end F return get(keys[1]) end)",
            ),
            // Every call counts.
            (
                "local function get(key) return redis.call('get', key) end F return get(keys[1]) or get(keys[2]) end)",
                "local function get(key) return redis.call('get', key) end F return get(keys[1]) or get('other') end)",
            ),
            (
                "local function get(key) return redis.call('get', key) end F return get(keys[1]) end)",
                "local function get(key) return redis.call('get', key) end F return get(keys[1] .. ':x') end)",
            ),
            // Helpers of helpers, and recursion.
            (
                "local function a(k) return redis.call('get', k) end local function b(k) return a(k) end F return b(keys[1]) end)",
                "local function a(k) return redis.call('get', k) end local function b(k) return a(k .. '') end F return b(keys[1]) end)",
            ),
            (
                "local function all(k, n) if n > 0 then redis.call('incr', k[n]) all(k, n - 1) end end F all(keys, #keys) end)",
                "local function all(k, n) if n > 0 then redis.call('incr', k[n]) all({}, n - 1) end end F all(keys, #keys) end)",
            ),
            // A missing argument is nil; one that others expand to is anything.
            (
                "local function get(n, key) return redis.call('get', key) end F return get(1, keys[1]) or get(2) end)",
                "local function get(n, key) return redis.call('get', key) end F return get(1, keys[1]) or get(unpack(args)) end)",
            ),
            // Loops.
            (
                "local function get(k) return redis.call('get', k) end F for _, key in ipairs(keys) do get(key) end end)",
                "local function get(k) return redis.call('get', k) end F for _, key in ipairs(args) do get(key) end end)",
            ),
            // The table is only read.
            (
                "local function n(k) return #k end F n(keys) return redis.call('get', keys[1]) end)",
                "local function n(k) k[1] = 'x' end F n(keys) return redis.call('get', keys[1]) end)",
            ),
            (
                "F redis.log(redis.LOG_NOTICE, table.concat(keys)) return redis.call('get', keys[1]) end)",
                "F table.insert(keys, 1, 'x') return redis.call('get', keys[1]) end)",
            ),
            // Only called by its name: as a value, anything may call it.
            (
                "local function get(key) return redis.call('get', key) end F return get(keys[1]) end)",
                "local function get(key) return redis.call('get', key) end F return pcall(get, keys[1]) end)",
            ),
            (
                "local function get(key) return redis.call('get', key) end F return get(keys[1]) end)",
                "local function get(key) return redis.call('get', key) end local t = {get} F return get(keys[1]) end)",
            ),
            // Of two functions with one name, the one in scope counts.
            (
                "do local function get(key) return redis.call('get', key) end F return get(keys[1]) end) end",
                "do local function get(key) return redis.call('get', key) end end local function get(key) return redis.call('get', key .. '') end F return get(keys[1]) end)",
            ),
            // The hidden parameters of Lua.
            (
                "local function get(arg) return redis.call('get', arg[1]) end F return get(keys) end)",
                "local function get(arg, ...) return redis.call('get', arg[1]) end F return get(keys) end)",
            ),
            (
                "local t = {} function t.get(key) return key end F return redis.call('get', keys[1]) end)",
                "local t = {} function t.get(key) return redis.call('get', key) end F return t.get(keys[1]) end)",
            ),
        ] {
            let (proved, refused) = (proved.replace('F', F), refused.replace('F', F));
            assert!(proves(&proved), "{proved}");
            assert!(!proves(&refused), "{refused}");
        }
    }

    /// Values outlive a run, so they must not refer to its keys.
    #[test]
    fn closures() {
        for (proved, refused) in [
            // A function that is only called by its name ends with the call that it belongs to.
            (
                "F local key = keys[1] local function get() return redis.call('get', key) end return get() end)",
                "local kept F local key = keys[1] kept = kept or function() return redis.call('get', key) end return kept() end)",
            ),
            // A value must not call such a function either.
            (
                "local kept F local key = keys[1] local function get() return redis.call('get', key) end \
              kept = kept or function() return 1 end return get() end)",
                "local kept F local key = keys[1] local function get() return redis.call('get', key) end \
              kept = kept or coroutine.wrap(function() get() end) return kept() end)",
            ),
            // Functions of the main text belong to no call.
            (
                "local function now() return redis.call('time') end local kept \
              F kept = kept or function() return now() end return redis.call('get', keys[1]) end)",
                "local function get(k) return redis.call('get', k) end local kept \
              F kept = kept or function(k) return get(k) end get(keys[1]) return kept('x') end)",
            ),
            // Comparisons and the like.
            (
                "F local t = redis.call('lrange', keys[1], 0, -1) table.sort(t, function(a, b) return a > b end) return t end)",
                "F local t = redis.call('lrange', keys[1], 0, -1) table.sort(t, function(a, b) return redis.call('get', a) end) end)",
            ),
            // Constants, and functions over them.
            (
                "local limits = {max = 5} local function limit() return limits.max end \
              F return redis.call('expire', keys[1], limit()) end)",
                "local names = {a = 'x'} F return redis.call('get', names.a) end)",
            ),
            (
                "local GET = 'get' F return redis.call(GET, keys[1]) end)",
                "local GET = 'get' GET = 'keys' F return redis.call(GET, keys[1]) end)",
            ),
            // A kept key is not a key.
            (
                "local last F last = keys[1] return redis.call('get', keys[1]) end)",
                "local last F last = last or keys[1] return redis.call('get', last) end)",
            ),
            (
                "local kept = {} F kept[1] = keys[1] return redis.call('get', keys[1]) end)",
                "local kept = {} F kept.keys = kept.keys or keys return redis.call('get', kept.keys[1]) end)",
            ),
            // Functions that are registered from within a function.
            (
                "local function register() redis.register_function('f', function(keys) return redis.call('get', keys[1]) end) \
              end register()",
                "local function register(k) redis.register_function('f', function() return redis.call('get', k[1]) end) \
              end register() redis.register_function('g', function(keys) register(keys) end)",
            ),
        ] {
            let (proved, refused) = (proved.replace('F', F), refused.replace('F', F));
            assert!(proves(&proved), "{proved}");
            assert!(!proves(&refused), "{refused}");
        }
    }

    /// Each function is proved by what it reaches.
    #[test]
    fn several_functions() {
        let other = |text: &str| format!("redis.register_function('other', function(k, args) {text} end)");
        for (proved, refused) in [
            ("return redis.call('get', args[1])", "return loadstring(args[1])"),
            ("table.insert(k, 'x') return redis.call('get', k[1])", "return redis"),
            ("kept = function() return 1 end", "kept = function() return redis.call('get', 'x') end"),
            ("return get(k[1])", "return get(args[1])"),
            ("local f = redis.call return f('get', 'x')", "kept = redis.call"),
            (
                "redis.register_function('x', function(k) end)",
                "redis.register_function(k[1], function(k) end)",
            ),
            ("redis.register_function('x', unknown)", "redis.register_function('F', unknown)"),
        ] {
            let own = "local kept local function get(k) return redis.call('get', k) end \
                       redis.register_function('f', function(keys) return get(keys[1]) end) ";
            let (proved, refused) = ([own, &other(proved)].concat(), [own, &other(refused)].concat());
            assert!(proves(&proved), "{proved}");
            assert!(!proves(&refused), "{refused}");
            let others = ["get', args", "insert", "'x')"];
            let is_other = analyse_library(proved.as_bytes()).keeps_to_keys(b"OTHER");
            assert_eq!(is_other, !others.iter().any(|fault| proved.contains(fault)), "{proved}");
        }
    }

    #[test]
    fn long_chains_of_helpers_are_not_followed() {
        let chain = |count: usize| {
            let mut code = "local function h0(k) return redis.call('get', k) end ".to_owned();
            for number in 1..count {
                code += &format!("local function h{number}(k) return h{}(k) end ", number - 1);
            }
            code + &format!("redis.register_function('f', function(keys) return h{}(keys[1]) end)", count - 1)
        };
        assert!(proves(&chain(40)));
        assert!(!proves(&chain(180)));
    }
}
