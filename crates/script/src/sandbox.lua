-- The sandbox: what scripts see of Lua. Run once in each interpreter, with the functions of the host.
--
-- Lua 5.1 has no read-only tables. A protected table is an empty proxy in front of the real one, which no script can
-- reach: reading goes through `__index`, every way to write is refused. Errors of the host are userdata; `pcall`,
-- `xpcall` and `coroutine.resume` turn them into what scripts expect, and pass on those that end the script.
local host, api, libraries, allows_insecure = ...

local raw = {
    coroutine = coroutine, error = error, getfenv = getfenv, getmetatable = getmetatable, load = load,
    loadstring = loadstring, math = math, next = next, newproxy = newproxy, os = os, pairs = pairs, pcall = pcall,
    rawequal = rawequal, rawget = rawget, rawset = rawset, select = select, setfenv = setfenv,
    setmetatable = setmetatable, string = string, table = table, tostring = tostring, type = type, xpcall = xpcall,
    concat = table.concat, byte = string.byte,
}
local type, error, next, pairs, rawget, rawset, tostring = type, error, next, pairs, rawget, rawset, tostring
local raw_pcall, raw_xpcall, raw_setmetatable, raw_getmetatable = host.pcall, host.xpcall, setmetatable, getmetatable
local explain, where, charge, is_shared = host.explain, host.where, host.charge, host.is_shared

-- Protected tables --------------------------------------------------------------------------------------------

local READONLY = "Attempt to modify a readonly table"
local backing = raw_setmetatable({}, {__mode = "k"})

local function refuse() error(READONLY, 2) end

local function protect(real)
    local proxy = {}
    backing[proxy] = real
    return raw_setmetatable(proxy, {__index = real, __newindex = refuse})
end

local shown_metatable = protect({__index = refuse, __newindex = refuse})
local string_metatable

-- The metatable of arrays that `cjson` marks.
backing[host.array_metatable] = {}
raw_setmetatable(host.array_metatable, {__newindex = refuse})

local globals = {}
local G = {}

-- Scripts have no finalizers: their errors would end functions of the host in the middle of an allocation. So a script sees
-- the metatable of a proxy of `newproxy` through a table that keeps a finalizer to itself, so that it never runs.
local shown_of = raw_setmetatable({}, {__mode = "kv"})

local function without_finalizer(real)
    if type(real) ~= "table" then return real end
    local shown = shown_of[real]
    if not shown then
        shown = raw_setmetatable({}, {__index = real, __newindex = function(own, name, value)
            rawset(name == "__gc" and own or real, name, value)
        end})
        backing[shown], shown_of[real] = real, shown
    end
    return shown
end

local function getmetatable(value)
    if backing[value] ~= nil and value ~= nil then return shown_metatable end
    if type(value) == "string" then return string_metatable end
    if type(value) == "userdata" then return without_finalizer(raw_getmetatable(value)) end
    return raw_getmetatable(value)
end

-- Functions of Lua's own in C, with a check before them: of protected tables, of what they cost, or of both.
local function checked(original, options)
    return host.checked(original, options) or original
end

local next_of = checked(next, {protected = backing, reads = true})

-- Errors ------------------------------------------------------------------------------------------------------

local function settle(ok, failure, ...)
    if ok then return true, failure, ... end
    if type(failure) == "userdata" then
        local explained = explain(failure)
        if explained == nil then error(failure, 0) end
        failure = explained
    end
    if type(failure) == "table" then
        local text = failure.err
        if type(text) == "string" or type(text) == "number" then failure = text end
    end
    return false, failure
end

local function settle_resumed(ok, failure, ...)
    if ok then return true, failure, ... end
    if type(failure) == "userdata" then
        local explained = explain(failure)
        if explained == nil then error(failure, 0) end
        failure = explained
    end
    return false, failure
end

local function pass_on(ok, failure, ...)
    if not ok and type(failure) == "userdata" and explain(failure) == nil then error(failure, 0) end
    return ok, failure, ...
end

local function handle(failure)
    if type(failure) == "userdata" then
        local explained = explain(failure)
        if explained == nil then return failure end
        failure = explained
    end
    local source, line = where()
    if type(failure) ~= "table" then failure = {err = "ERR " .. tostring(failure)} end
    if source and not backing[failure] then
        rawset(failure, "source", source)
        rawset(failure, "line", line)
    end
    return failure
end

-- Loading of code ---------------------------------------------------------------------------------------------

local function loadstring(code, name)
    if type(code) == "string" and raw.byte(code, 1) == 27 then return nil, "bytecode is not loaded" end
    local loaded, failure = raw.loadstring(code, name)
    if loaded then raw.setfenv(loaded, G) end
    return loaded, failure
end

-- Compiles the text of a script or library. Returns nil and the error if that fails.
local function compile(code, name, environment)
    if raw.byte(code, 1) == 27 then
        return nil, raw.string.sub(name, 2) .. ":1: unexpected symbol near '<bytecode>'"
    end
    local compiled, failure = raw.loadstring(code, name)
    if compiled then raw.setfenv(compiled, environment) end
    return compiled, failure
end

local function load(read, name)
    if type(read) ~= "function" then
        error("bad argument #1 to 'load' (function expected, got " .. (read == nil and "no value" or type(read)) .. ")", 2)
    end
    local parts, count = {}, 0
    while true do
        local part = read()
        if part == nil or part == "" then break end
        if type(part) ~= "string" then error("reader function must return a string", 2) end
        count = count + 1
        parts[count] = part
    end
    return loadstring(raw.concat(parts), name or "=(load)")
end

-- The globals -------------------------------------------------------------------------------------------------

local function copy(source)
    local result = {}
    for name, value in pairs(source) do result[name] = value end
    return result
end

local strings, tables, maths, coroutines = copy(raw.string), copy(raw.table), copy(raw.math), copy(raw.coroutine)
-- The number of arguments from which the work grows with the table.
local costs_of_tables = {insert = 3, remove = 2, sort = 1, concat = 1, maxn = 1, setn = 9, foreachi = 2}
local writing = {insert = true, remove = true, sort = true, setn = true}

-- In the place of functions in C that would visit very many elements: a list may seem long, or a place be far below it.
local slow = {}
function slow.insert(list, place, value)
    for index = #list + 1, place + 1, -1 do rawset(list, index, rawget(list, index - 1)) end
    rawset(list, place, value)
end
function slow.remove(list, place)
    local count = #list
    if place < 1 or place > count then return end
    local removed = rawget(list, place)
    for index = place, count - 1 do rawset(list, index, rawget(list, index + 1)) end
    rawset(list, count, nil)
    return removed
end
function slow.foreachi(list, visit)
    for index = 1, #list do
        local result = visit(index, rawget(list, index))
        if result ~= nil then return result end
    end
end

for name, count in pairs(costs_of_tables) do
    tables[name] = checked(tables[name], {
        protected = writing[name] and backing or nil, cost = 1, table_from = count,
        compare = name == "sort" and function(left, right) return left < right end or nil,
        slow = slow[name], calls = name == "foreachi",
    })
end
for _, name in pairs({"byte", "format", "lower", "reverse", "sub", "upper"}) do
    strings[name] = checked(strings[name], {cost = 1})
end
for name, run in pairs(host.patterns) do strings[name] = run end
-- Each thread of Lua has its own count of instructions: creating one costs as much as it may run until it is interrupted.
for _, name in pairs({"create", "wrap"}) do coroutines[name] = checked(coroutines[name], {cost = 500}) end
maths.random, maths.randomseed = host.random, host.randomseed
strings.rep = host.rep
function coroutines.resume(...) return settle_resumed(raw.coroutine.resume(...)) end

for _, name in pairs({
    "assert", "error", "gcinfo", "ipairs", "rawequal", "select", "tonumber", "tostring", "type", "unpack",
}) do
    globals[name] = _G[name]
end
globals._VERSION = _VERSION
globals._G = G
globals.load, globals.loadstring, globals.getmetatable = load, loadstring, getmetatable
globals.rawset = checked(rawset, {protected = backing})
globals.setmetatable = checked(raw_setmetatable, {protected = backing})
globals.rawget = checked(rawget, {protected = backing, reads = true})
globals.next, globals.pairs = next_of, host.pairs(next, backing, next_of)
globals.unpack = checked(unpack, {unpacks = true, cost = 1})
local raw_collectgarbage = collectgarbage
function globals.collectgarbage(what, ...)
    -- The settings of the collector are those of the server. Lua ends their names at a NUL.
    local name = type(what) == "string" and raw.string.match(what, "^%Z*") or what
    if name == "stop" or name == "restart" or name == "setpause" or name == "setstepmul" then return 0 end
    if type(name) == "string" and name ~= "collect" and name ~= "step" and name ~= "count" then
        error("bad argument #1 to 'collectgarbage' (invalid option '" .. name .. "')", 2)
    end
    if name ~= "count" then charge(raw_collectgarbage("count")) end
    return raw_collectgarbage(what, ...)
end
function globals.pcall(...) return settle(raw_pcall(...)) end
function globals.xpcall(run, handler)
    return pass_on(raw_xpcall(run, function(failure)
        if type(failure) == "userdata" then
            local explained = explain(failure)
            if explained == nil then return failure end
            failure = explained
        end
        return handler(failure)
    end))
end
if allows_insecure then
    globals.newproxy = newproxy
    function globals.getfenv(target)
        if type(target) == "function" then
            local environment = raw.getfenv(target)
            return environment == _G and G or environment
        end
        return G
    end
    function globals.setfenv(target, environment)
        if type(target) ~= "function" or is_shared(target) then
            error("'setfenv' cannot change environment of given object", 2)
        end
        return raw.setfenv(target, environment)
    end
end
globals.os = protect({clock = raw.os.clock})
globals.string, globals.table, globals.math = protect(strings), protect(tables), protect(maths)
globals.coroutine = protect(coroutines)
for name, library in pairs(libraries) do globals[name] = protect(library) end
globals.server = protect(api)
globals.redis = globals.server
globals.__server__err__handler, globals.__redis__err__handler = handle, handle
raw_getmetatable("").__index = strings
string_metatable = protect({__index = globals.string})

local function refuse_global(_, name)
    if type(name) ~= "string" and type(name) ~= "number" then
        error("Second argument to luaProtectedTableError must be a string or number", 2)
    end
    local shown = raw.string.match(tostring(name), "^%Z*")
    error("Script attempted to access nonexistent global variable '" .. shown .. "'", 2)
end
raw_setmetatable(globals, {__index = refuse_global})
backing[G] = globals
raw_setmetatable(G, {__index = globals, __newindex = refuse})

-- What the host calls -----------------------------------------------------------------------------------------

local limit_on, limit_off = host.limit_on, host.limit_off

-- Further results are dropped here: the host takes these two.
local function finish(ok, result)
    limit_off()
    return ok, result
end

-- Runs the code of a library.
local function run_library(main)
    limit_on()
    return finish(raw_pcall(main))
end

-- The environment of a library while its code runs: `server` registers functions there, and runs no commands. Returns it
-- with the function that ends this.
local function environment_for_library(template, register)
    local library_api = copy(template)
    library_api.register_function = register
    raw_setmetatable(library_api, {__index = refuse_global})
    local protected = protect(library_api)
    -- Nothing else exists until the library is loaded.
    local while_loading = raw_setmetatable({server = protected, redis = protected}, {__index = refuse_global})
    local metatable = {__index = while_loading, __newindex = refuse}
    local environment = raw_setmetatable({}, metatable)
    backing[environment] = globals
    return environment, function() metatable.__index = globals end
end

return {G = G, globals = globals, handle = handle, compile = compile, run_library = run_library,
        environment_for_library = environment_for_library}
