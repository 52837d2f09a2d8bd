//! Functions of the host in the place of Lua's own: the matching of strings, which can be ended, and `pairs`.
//!
//! They are written as functions of Lua in C are, as scripts call them often, and since Lua runs code of the script in the
//! middle of `gsub`. What they do is in `strings.rs`.
//!
//! Invariant: an error of Lua is raised, and code of a script is called, where no value has a destructor.
#![allow(unsafe_code, reason = "the C interface of Lua, as in `stack.rs`")]

use std::ffi::{CStr, c_int};
use std::ops::Range;
use std::rc::Rc;

use mlua::ffi;
use mlua::{Function, Lua, Table};

use crate::checked::push_behind;
use crate::stack::{Callee, Frame, HostFrame, Leave, LuaType, Stack, UPVALUE_COUNT, closure};
use crate::strings::{self, Replacing};

/// The frames that are searched for the place of an error.
const FRAME_COUNT_MAX: c_int = 8;

/// What `pairs` has: the functions that iterate over tables and over protected ones.
const NEXT: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 1);
const NEXT_OF_PROTECTED: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 3);

/// What an iterator of `gmatch` has: the text, the pattern, and where the next match may begin.
const TEXT: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 1);
const PATTERN: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 2);
const POSITION: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 3);

/// Adds the functions for strings to a table.
pub(crate) fn add_string_functions<C: Callee>(
    lua: &Lua,
    callee: &Rc<C>,
    names: &Table,
    table: &Table,
) -> mlua::Result<()> {
    table.raw_set("find", closure(lua, callee, names, (), find::<C>)?)?;
    table.raw_set("match", closure(lua, callee, names, (), first_match::<C>)?)?;
    table.raw_set("gmatch", closure(lua, callee, names, (), gmatch::<C>)?)?;
    table.raw_set("gsub", closure(lua, callee, names, (), gsub::<C>)?)
}

/// Returns `pairs`, with the functions that iterate over tables and over protected ones.
pub(crate) fn pairs<C: Callee>(
    lua: &Lua,
    callee: &Rc<C>,
    names: &Table,
    (next, protected, next_of_protected): (Function, Table, Function),
) -> mlua::Result<Function> {
    closure(lua, callee, names, (next, protected, next_of_protected), enter_pairs)
}

/// Arguments of functions of the host. The binding takes a reference for each, has 8,000 of them, and ends the process when
/// there is none.
const ARGUMENT_COUNT_MAX: c_int = 2_000;

/// Returns a function that calls another one, but refuses many arguments.
pub(crate) fn limited(lua: &Lua, function: Function) -> mlua::Result<Function> {
    let push = |state| {
        // SAFETY: the upvalue is on the stack, and the function needs no further room.
        unsafe { ffi::lua_pushcclosure(state, enter_limited, 1) };
    };
    // SAFETY: (1) `push` takes the value and leaves one. (2) It holds nothing with a destructor.
    unsafe { lua.exec_raw(function, push) }
}

/// A function that calls another one.
///
/// # Safety
/// 1. It is called by Lua as a function of [`limited`].
unsafe extern "C-unwind" fn enter_limited(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let values = unsafe { Frame::new(state) };
    if values.top() > ARGUMENT_COUNT_MAX {
        // SAFETY: there is room beside the arguments. Here and below no value has a destructor.
        unsafe { ffi::luaL_where(state, 1) };
        // SAFETY: as above.
        unsafe { ffi::lua_pushliteral(state, c"too many arguments") };
        // SAFETY: two strings are on the top.
        unsafe { ffi::lua_concat(state, 2) };
        // SAFETY: a value is on the top.
        unsafe { ffi::lua_error(state) };
    }
    // SAFETY: (1) as above: it is a function. (2) There are only the arguments. (3) No value here has a destructor.
    unsafe { values.call_instead(ffi::lua_upvalueindex(1)) }
}

/// Returns `pcall` and `xpcall`. Those of Lua rely on reserves of the stack where there are many results, which builds with
/// assertions refuse.
pub(crate) fn protected_calls(lua: &Lua) -> mlua::Result<(Function, Function)> {
    // SAFETY: (1) Lua calls it as a function.
    let pcall = unsafe { lua.create_c_function(protected_call::<false>) };
    // SAFETY: as above.
    let xpcall = unsafe { lua.create_c_function(protected_call::<true>) };
    Ok((pcall?, xpcall?))
}

/// `pcall(function, ...)`, or `xpcall(function, handler)` if `HANDLES`.
///
/// # Safety
/// 1. It is called by Lua as a function.
unsafe extern "C-unwind" fn protected_call<const HANDLES: bool>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let values = unsafe { Frame::new(state) };
    // SAFETY: (1) with arguments on the stack. Here and below no value has a destructor which an error would skip.
    unsafe { ffi::luaL_checkany(state, if HANDLES { 2 } else { 1 }) };
    if HANDLES {
        values.set_top(2);
        // SAFETY: there are two: the handler goes below the function.
        unsafe { ffi::lua_insert(state, 1) };
    }
    let below = c_int::from(HANDLES);
    let argument_count = values.top() - 1 - below;
    // SAFETY: a function and its arguments are on the top, below them the handler if there is one.
    let status = unsafe { ffi::lua_pcall(state, argument_count, ffi::LUA_MULTRET, below) };
    // SAFETY: the state is live.
    if unsafe { ffi::lua_checkstack(state, 1) } == 0 {
        // Then there is room.
        values.set_top(0);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushboolean(state, 0) };
        // SAFETY: there is room.
        unsafe { ffi::lua_pushliteral(state, c"too many results") };
        return 2;
    }
    // SAFETY: there is room.
    unsafe { ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK)) };
    if HANDLES {
        // SAFETY: the handler is at 1, and a value above it.
        unsafe { ffi::lua_replace(state, 1) };
    } else {
        // SAFETY: there is a value.
        unsafe { ffi::lua_insert(state, 1) };
    }
    values.top()
}

/// Sets the instructions until the next interrupt, of the thread that runs and of those that it creates.
pub(crate) fn set_interval(lua: &Lua, instruction_count: u32) {
    lua.exec_raw_lua(|raw| {
        let state = raw.state();
        // SAFETY: the state is live.
        let hook = unsafe { ffi::lua_gethook(state) };
        // SAFETY: as above.
        let mask = unsafe { ffi::lua_gethookmask(state) };
        // SAFETY: as above; the hook stays.
        unsafe { ffi::lua_sethook(state, hook, mask, instruction_count as c_int) };
    });
}

/// `string.find`
///
/// # Safety
/// 1. It is called by Lua as a function of [`closure`].
unsafe extern "C-unwind" fn find<C: Callee>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let host = unsafe { HostFrame::<C>::new(state) };
    let leave = host.part(strings::find);
    // SAFETY: (1) There is no such value.
    unsafe { host.depart(leave) }
}

/// `string.match`
///
/// # Safety
/// 1. It is called by Lua as a function of [`closure`].
unsafe extern "C-unwind" fn first_match<C: Callee>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let host = unsafe { HostFrame::<C>::new(state) };
    let leave = host.part(strings::first_match);
    // SAFETY: (1) There is no such value.
    unsafe { host.depart(leave) }
}

/// `string.gmatch`: returns an iterator.
///
/// # Safety
/// 1. It is called by Lua as a function of [`closure`].
unsafe extern "C-unwind" fn gmatch<C: Callee>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let host = unsafe { HostFrame::<C>::new(state) };
    let leave = host.part(strings::begin_gmatch);
    if !matches!(leave, Some(Leave::Return(_))) {
        // SAFETY: (1) There is no such value.
        return unsafe { host.depart(leave) };
    }
    // There is room for 18 more.
    host.values.set_top(2);
    for number in 1..=UPVALUE_COUNT {
        // SAFETY: (1) it has these upvalues; there is room.
        unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(number)) };
    }
    for at in 1..=2 {
        // SAFETY: there are two values, and room.
        unsafe { ffi::lua_pushvalue(state, at) };
    }
    // SAFETY: there is room.
    unsafe { ffi::lua_pushnumber(state, 0.0) };
    // SAFETY: the upvalues are on the top.
    unsafe { ffi::lua_pushcclosure(state, next_match::<C>, UPVALUE_COUNT + 3) };
    1
}

/// The iterator of `gmatch`.
///
/// # Safety
/// 1. It is called by Lua as a closure of [`gmatch`].
unsafe extern "C-unwind" fn next_match<C: Callee>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let host = unsafe { HostFrame::<C>::new(state) };
    host.values.set_top(0);
    for upvalue in [TEXT, PATTERN, POSITION] {
        // SAFETY: (1) it has these upvalues; the stack is empty, so there is room.
        unsafe { ffi::lua_pushvalue(state, upvalue) };
    }
    let leave = host.part(strings::next_match);
    if matches!(leave, Some(Leave::Return(count)) if count > 0) {
        // The place at 3 is the new one.
        // SAFETY: the stack was left with three values and more; the room for one is kept.
        unsafe { ffi::lua_pushvalue(state, 3) };
        // SAFETY: (1) it has this upvalue.
        unsafe { ffi::lua_replace(state, POSITION) };
    }
    // SAFETY: (1) There is no such value.
    unsafe { host.depart(leave) }
}

/// `string.gsub`
///
/// # Safety
/// 1. It is called by Lua as a function of [`closure`].
unsafe extern "C-unwind" fn gsub<C: Callee>(state: *mut ffi::lua_State) -> c_int {
    let mut replacing = Replacing::default();
    // SAFETY: (1) as above.
    let host = unsafe { HostFrame::<C>::new(state) };
    let begun = host.part(|meter, stack| strings::begin_gsub(meter, stack, &mut replacing));
    if !matches!(begun, Some(Leave::Return(0))) {
        // SAFETY: (1) There is no such value.
        return unsafe { host.depart(begun) };
    }
    loop {
        let leave = host.part(|meter, stack| strings::next_gsub(meter, stack, &mut replacing));
        // The arguments of the function, or the key.
        let Some(Leave::Return(count)) = leave else {
            // SAFETY: (1) There is no such value.
            return unsafe { host.depart(leave) };
        };
        if replacing.is_complete {
            return count;
        }
        if replacing.calls {
            // SAFETY: a function and its arguments are on the top. No value here has a destructor.
            unsafe { ffi::lua_call(state, count, 1) };
        } else {
            // SAFETY: a table is at 3, and a key on the top. No value here has a destructor.
            unsafe { ffi::lua_gettable(state, 3) };
        }
    }
}

/// `pairs`
///
/// # Safety
/// 1. It is called by Lua as a function of [`pairs`].
unsafe extern "C-unwind" fn enter_pairs(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let values = unsafe { Frame::new(state) };
    // SAFETY: the state is live; no value here has a destructor.
    unsafe { ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE) };
    values.set_top(1);
    // SAFETY: (1) as above; there is an argument.
    let is_protected = unsafe { push_behind(values) };
    values.set_top(1);
    // SAFETY: (1) they are functions; there is room.
    unsafe { ffi::lua_pushvalue(state, if is_protected { NEXT_OF_PROTECTED } else { NEXT }) };
    // SAFETY: the function goes below the table.
    unsafe { ffi::lua_insert(state, 1) };
    // SAFETY: there is room.
    unsafe { ffi::lua_pushnil(state) };
    3
}

impl Stack<'_> {
    /// Makes a number a string. `false`: it is neither.
    pub(crate) fn make_text(&mut self, at: c_int) -> bool {
        if at > self.top() || !matches!(self.kind(at), LuaType::String | LuaType::Number) {
            return false;
        }
        // SAFETY: it is a string or a number. There is no error, as the limit is off.
        unsafe { ffi::lua_tolstring(self.state, at, std::ptr::null_mut()) };
        true
    }

    /// The value of a number, or of a string that is one.
    pub(crate) fn as_number(&self, at: c_int) -> Option<f64> {
        // SAFETY: positions above the top are none.
        let is_number = unsafe { ffi::lua_isnumber(self.state, at) } != 0;
        // SAFETY: as above.
        is_number.then(|| unsafe { ffi::lua_tonumber(self.state, at) })
    }

    /// The type of an argument, as errors name it.
    pub(crate) fn type_name(&self, at: c_int) -> &'static str {
        if at > self.top() {
            return "no value";
        }
        // SAFETY: there is such a position.
        match unsafe { ffi::lua_type(self.state, at) } {
            ffi::LUA_TNIL => "nil",
            ffi::LUA_TBOOLEAN => "boolean",
            ffi::LUA_TNUMBER => "number",
            ffi::LUA_TSTRING => "string",
            ffi::LUA_TTABLE => "table",
            ffi::LUA_TFUNCTION => "function",
            ffi::LUA_TTHREAD => "thread",
            _ => "userdata",
        }
    }

    /// Pushes a part of a string.
    pub(crate) fn push_part(&mut self, at: c_int, range: Range<usize>) {
        let text = self.bytes(at).and_then(|text| text.get(range)).unwrap_or_default();
        let (start, len) = (text.as_ptr(), text.len());
        self.take_room();
        // SAFETY: there is room. The string is on the stack, so it stays while its bytes are copied.
        unsafe { ffi::lua_pushlstring_(self.state, start.cast(), len) };
    }

    /// Leaves with an error that begins with the place in the script that called the running function.
    pub(crate) fn fail(&mut self, text: &str) -> Leave {
        let place = self.place_of_caller();
        self.cut(self.base);
        self.push_bytes(format!("{place}{text}").as_bytes());
        Leave::Raise
    }

    /// Leaves with the error of an argument.
    pub(crate) fn refuse(&mut self, number: c_int, problem: &str) -> Leave {
        let (name, is_method) = self.name_of_called();
        let text = match (number - c_int::from(is_method), name) {
            (0, name) => format!("calling '{name}' on bad self ({problem})"),
            (number, name) => format!("bad argument #{number} to '{name}' ({problem})"),
        };
        self.fail(&text)
    }

    /// Leaves with the error of an argument of another type.
    pub(crate) fn refuse_type(&mut self, number: c_int, expected: &str) -> Leave {
        let found = self.type_name(number);
        self.refuse(number, &format!("{expected} expected, got {found}"))
    }

    /// How the running function was called: its name, and whether as a method.
    fn name_of_called(&self) -> (String, bool) {
        let unknown = || ("?".to_owned(), false);
        let Some(frame) = self.frame(0, c"n") else { return unknown() };
        if frame.name.is_null() {
            return unknown();
        }
        // SAFETY: both are strings that live while the function runs.
        let name = unsafe { CStr::from_ptr(frame.name) }.to_string_lossy().into_owned();
        // SAFETY: as above.
        let is_method = unsafe { CStr::from_ptr(frame.namewhat) } == c"method";
        (name, is_method)
    }

    fn place_of_caller(&self) -> String {
        for level in 1..FRAME_COUNT_MAX {
            let Some(frame) = self.frame(level, c"Sl") else { break };
            // SAFETY: it is a string within the frame.
            let source = unsafe { CStr::from_ptr(frame.short_src.as_ptr()) }.to_string_lossy();
            if source != "sandbox" {
                return if frame.currentline > 0 {
                    format!("{source}:{}: ", frame.currentline)
                } else {
                    String::new()
                };
            }
        }
        String::new()
    }

    /// What is known about a function that runs.
    fn frame(&self, level: c_int, what: &CStr) -> Option<ffi::lua_Debug> {
        let mut frame = std::mem::MaybeUninit::<ffi::lua_Debug>::zeroed();
        // SAFETY: the state is live.
        if unsafe { ffi::lua_getstack(self.state, level, frame.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: the frame was found.
        unsafe { ffi::lua_getinfo(self.state, what.as_ptr(), frame.as_mut_ptr()) };
        // SAFETY: it is a structure of C, of which all bytes were set.
        Some(unsafe { frame.assume_init() })
    }
}
