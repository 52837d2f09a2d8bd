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
local explain, where = host.explain, host.where

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

-- Functions that write to a table, guarded against protected ones.
local function guarded(write)
    return function(target, ...)
        if target ~= nil and backing[target] then error(READONLY, 0) end
        return write(target, ...)
    end
end

local function next_of(target, key) return next(target ~= nil and backing[target] or target, key) end

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
for _, name in pairs({"insert", "remove", "sort", "setn"}) do
    if tables[name] then tables[name] = guarded(tables[name]) end
end
maths.random, maths.randomseed = host.random, host.randomseed
strings.rep = host.rep(raw.string.rep)
function coroutines.resume(...) return settle_resumed(raw.coroutine.resume(...)) end

for _, name in pairs({
    "assert", "error", "gcinfo", "ipairs", "rawequal", "select", "tonumber", "tostring", "type", "unpack",
}) do
    globals[name] = _G[name]
end
globals._VERSION = _VERSION
globals._G = G
globals.load, globals.loadstring, globals.getmetatable = load, loadstring, getmetatable
globals.rawset, globals.setmetatable = guarded(rawset), guarded(raw_setmetatable)
function globals.rawget(target, key)
    return rawget(target ~= nil and backing[target] or target, key)
end
function globals.next(target, key) return next_of(target, key) end
function globals.pairs(target)
    if target ~= nil and backing[target] then return next_of, target, nil end
    return pairs(target)
end
-- Lua 5.1.5 counts the results in an `int`, which overflows.
local raw_unpack, tonumber = unpack, tonumber
function globals.unpack(list, first, last)
    local from = tonumber(first or 1)
    local to = tonumber(last or (type(list) == "table" and #list or 0))
    if from and to and not (to - from < 8000) then error("too many results to unpack", 2) end
    -- The arguments count towards Lua's limit of 8,000 values on the stack.
    if last == nil and first == nil then return raw_unpack(list) end
    if last == nil then return raw_unpack(list, first) end
    return raw_unpack(list, first, last)
end
local raw_collectgarbage = collectgarbage
function globals.collectgarbage(what, ...)
    -- The settings of the collector are those of the server.
    if what == "stop" or what == "restart" or what == "setpause" or what == "setstepmul" then return 0 end
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
        if type(target) ~= "function" then error("'setfenv' cannot change environment of given object", 2) end
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
local function environment_for_library(library_api)
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
