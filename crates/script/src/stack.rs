//! The stack of Lua, used by calls of commands and by runs without a value of the binding for each argument and result.
//!
//! With `stack/frame.rs`, `natives.rs` and `checked.rs` the only file of this crate with `unsafe`. A [`Stack`] checks each
//! access: positions against the top, types before they are relied on, room before a push. [`function`] makes functions that Lua
//! calls with a stack.
//!
//! Invariants:
//! 1. A stack borrows a live state of Lua, and belongs to the function that runs there.
//! 2. While there is a stack, the memory limit is off, and scripts have no finalizers (`sandbox.lua`). So no method raises an
//!    error of Lua or runs code of a script: no destructor of a caller is skipped.
//! 3. An error is raised by [`HostFrame::depart`] alone, when all values of Rust are dropped. No panic leaves [`call`].
#![allow(unsafe_code, reason = "the C interface of Lua, which the invariants above keep")]

mod frame;

use std::any::Any;
use std::convert::Infallible;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlua::ffi;
use mlua::{Function, IntoLua, IntoLuaMulti, LightUserData, Lua, MultiValue, Table, Value, WeakLua};

use crate::failure::{End, Failure, NO_MEMORY, Stopped};
use crate::meter::Meter;
pub(crate) use frame::{Frame, HostFrame};

/// The names of globals and of fields in replies, which a stack pushes without hashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Keys,
    Argv,
    Ok,
    Err,
    IsCounted,
    Source,
    Line,
    Double,
    BigNumber,
    Verbatim,
    Format,
    String,
    Map,
    Set,
}

impl Name {
    const TEXTS: [&str; 14] = [
        "KEYS",
        "ARGV",
        "ok",
        "err",
        "ignore_error_stats_update",
        "source",
        "line",
        "double",
        "big_number",
        "verbatim_string",
        "format",
        "string",
        "map",
        "set",
    ];

    /// Creates the table from which a stack takes the names.
    pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
        lua.create_sequence_from(Self::TEXTS)
    }
}

/// How a function leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Leave {
    /// It returns the topmost values.
    Return(c_int),
    /// It raises the topmost value as an error.
    Raise,
    /// It raises the error that ends the script: it must be run again.
    Again,
    /// It raises the error that ends the script: it was killed.
    Killed,
    /// It raises the error that ends the code of a library: it runs too long.
    Timeout,
}

/// What functions of [`function`] call.
pub(crate) trait Callee: 'static {
    /// Called with the arguments on the stack. `RAISES` tells two functions apart.
    fn called<const RAISES: bool>(&self, stack: &mut Stack<'_>) -> Leave;
    /// Takes the payload of a panic in [`Self::called`]. The script ends.
    fn panicked(&self, payload: Box<dyn Any + Send>);
    /// What functions of the host spend.
    fn meter(&self) -> &Meter;
}

/// What a function of [`function`] refers to. Kept by the state until it is closed.
pub(crate) struct Bound<C> {
    pub(crate) callee: Rc<C>,
    lua: WeakLua,
}

/// The values that belong to each function: what it refers to, the table of names, and the errors that end a script.
const BOUND: c_int = ffi::lua_upvalueindex(1);
const NAMES: c_int = ffi::lua_upvalueindex(2);
const AGAIN: c_int = ffi::lua_upvalueindex(3);
const KILLED: c_int = ffi::lua_upvalueindex(4);
const TIMEOUT: c_int = ffi::lua_upvalueindex(5);
/// Their number. Further values follow them.
pub(crate) const UPVALUE_COUNT: c_int = 5;

/// Creates a function that calls `callee`.
///
/// # Panics
/// If the state has another callee of the same type.
pub(crate) fn function<C: Callee, const RAISES: bool>(
    lua: &Lua,
    callee: &Rc<C>,
    names: &Table,
) -> mlua::Result<Function> {
    closure(lua, callee, names, (), enter::<C, RAISES>)
}

/// Creates a function with the values above and `further` ones.
pub(crate) fn closure<C: Callee>(
    lua: &Lua,
    callee: &Rc<C>,
    names: &Table,
    further: impl IntoLuaMulti,
    enter: ffi::lua_CFunction,
) -> mlua::Result<Function> {
    if lua.app_data_ref::<Rc<Bound<C>>>().is_none() {
        lua.set_app_data(Rc::new(Bound { callee: Rc::clone(callee), lua: lua.weak() }));
    }
    let bound = lua.app_data_ref::<Rc<Bound<C>>>().map(|kept| Rc::clone(&kept)).expect("it is kept there");
    assert!(Rc::ptr_eq(&bound.callee, callee), "a state has one callee of a type");
    let ends = [Failure::End(End::Again).into(), Stopped::Killed.into(), Stopped::Timeout.into()];
    let mut upvalues: MultiValue =
        (LightUserData(Rc::as_ptr(&bound).cast_mut().cast()), names).into_lua_multi(lua)?;
    upvalues.extend(ends.map(|end| Value::Error(Box::new(end))));
    upvalues.extend(further.into_lua_multi(lua)?);
    let count = upvalues.len() as c_int;
    let push = |state| {
        // SAFETY: the upvalues are on the stack, and their function needs no further room.
        unsafe { ffi::lua_pushcclosure(state, enter, count) };
    };
    // SAFETY: (1) `push` takes the values and leaves one. (2) It holds nothing with a destructor.
    unsafe { lua.exec_raw(upvalues, push) }
}

/// Called by Lua.
///
/// # Safety
/// 1. It is called by Lua as a function of [`closure`], with its upvalues.
unsafe extern "C-unwind" fn enter<C: Callee, const RAISES: bool>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let host = unsafe { HostFrame::<C>::new(state) };
    let leave = call(host.bound(), state, |callee, stack| callee.called::<RAISES>(stack));
    // SAFETY: (1) No value here has a destructor.
    unsafe { host.depart(leave) }
}

/// Calls without the memory limit. `None`: the state is being closed.
fn call<C: Callee>(
    bound: &Bound<C>,
    state: *mut ffi::lua_State,
    act: impl FnOnce(&C, &mut Stack<'_>) -> Leave,
) -> Option<Leave> {
    let lua = bound.lua.try_upgrade()?;
    let limit = lua.set_memory_limit(0).unwrap_or(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the state is live, as it calls this.
        let top = unsafe { ffi::lua_gettop(state) };
        let mut stack = Stack { lua: &lua, state, names: NAMES, base: 0, top, free: ffi::LUA_MINSTACK };
        let leave = act(&bound.callee, &mut stack);
        let count = match leave {
            Leave::Return(count) => count,
            Leave::Raise => 1,
            Leave::Again | Leave::Killed | Leave::Timeout => 0,
        };
        assert!(stack.top >= count, "there are values to leave with");
        leave
    }));
    // The limit was there before, so it can be set.
    let _ = lua.set_memory_limit(limit);
    Some(result.unwrap_or_else(|payload| {
        bound.callee.panicked(payload);
        Leave::Again
    }))
}

/// Runs `act` with the stack of the main thread, and removes what it has left there. The memory limit is off afterwards.
pub(crate) fn with_stack<R>(lua: &Lua, names: &Table, act: impl FnOnce(&mut Stack<'_>) -> R) -> R {
    // States have the allocator of the binding, which has a limit.
    let _ = lua.set_memory_limit(0);
    let state = lua.exec_raw_lua(|raw| raw.state());
    // SAFETY: the state is live: `lua` keeps it.
    let base = unsafe { ffi::lua_gettop(state) };
    let mut stack = Stack { lua, state, names: 0, base, top: base, free: 0 };
    assert!(stack.reserve(2), "there is room between runs");
    stack.push(names);
    stack.names = stack.top;
    let result = act(&mut stack);
    stack.cut(base);
    result
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LuaType {
    Nil,
    Boolean,
    Number,
    String,
    Table,
    Other,
}

/// See the module documentation. Positions begin at 1.
pub(crate) struct Stack<'a> {
    lua: &'a Lua,
    pub(crate) state: *mut ffi::lua_State,
    /// Where the table of names is.
    names: c_int,
    /// What is below is not touched.
    pub(crate) base: c_int,
    /// The position of the topmost value.
    top: c_int,
    /// The values that may be pushed.
    free: c_int,
}

impl<'a> Stack<'a> {
    /// The state of Lua.
    pub(crate) fn lua(&self) -> &'a Lua {
        self.lua
    }

    /// Leaves with an error of Lua's own that has no place, or with one that ends the script.
    pub(crate) fn stop(&mut self, stopped: Stopped) -> Leave {
        match stopped {
            Stopped::Killed => Leave::Killed,
            Stopped::Timeout => Leave::Timeout,
            Stopped::Memory => {
                self.cut(self.base);
                self.push_bytes(NO_MEMORY.as_bytes());
                Leave::Raise
            }
        }
    }

    /// The position of the topmost value.
    pub(crate) fn top(&self) -> c_int {
        self.top
    }

    /// Makes room for values. `false`: the function would have too many of them.
    pub(crate) fn reserve(&mut self, count: c_int) -> bool {
        if self.free >= count {
            return true;
        }
        // SAFETY: the state is live. It grows the stack without an error, as the limit is off.
        let is_there = unsafe { ffi::lua_checkstack(self.state, count) } != 0;
        if is_there {
            self.free = count;
        }
        is_there
    }

    pub(crate) fn take_room(&mut self) {
        assert!(self.free > 0, "room is reserved");
        self.free -= 1;
        self.top += 1;
    }

    fn check(&self, at: c_int) {
        assert!(self.base < at && at <= self.top, "there is such a position");
    }

    fn check_table(&self, at: c_int) {
        assert!(self.kind(at) == LuaType::Table, "it is a table");
    }

    /// Removes the topmost values.
    pub(crate) fn pop(&mut self, count: c_int) {
        self.cut(self.top - count);
    }

    /// Removes the values above a position.
    pub(crate) fn cut(&mut self, top: c_int) {
        assert!(self.base <= top && top <= self.top, "there is such a position");
        // SAFETY: the position is between the base and the top.
        unsafe { ffi::lua_settop(self.state, top) };
        self.free += self.top - top;
        self.top = top;
    }

    /// The type of a value.
    pub(crate) fn kind(&self, at: c_int) -> LuaType {
        self.check(at);
        // SAFETY: there is such a position.
        match unsafe { ffi::lua_type(self.state, at) } {
            ffi::LUA_TNIL => LuaType::Nil,
            ffi::LUA_TBOOLEAN => LuaType::Boolean,
            ffi::LUA_TNUMBER => LuaType::Number,
            ffi::LUA_TSTRING => LuaType::String,
            ffi::LUA_TTABLE => LuaType::Table,
            _ => LuaType::Other,
        }
    }

    /// The bytes of a string.
    pub(crate) fn bytes(&self, at: c_int) -> Option<&[u8]> {
        if self.kind(at) != LuaType::String {
            return None;
        }
        let mut len = 0;
        // SAFETY: it is a string, which is not converted.
        let text = unsafe { ffi::lua_tolstring(self.state, at, &raw mut len) };
        // SAFETY: the string has that many bytes. It neither moves nor changes, and is alive while it is on the stack, which
        // only a `&mut self` changes.
        Some(unsafe { std::slice::from_raw_parts(text.cast(), len) })
    }

    /// The value of a number.
    pub(crate) fn number(&self, at: c_int) -> Option<f64> {
        // SAFETY: there is such a position, and it is a number.
        (self.kind(at) == LuaType::Number).then(|| unsafe { ffi::lua_tonumber(self.state, at) })
    }

    /// Whether a value is neither nil nor false.
    pub(crate) fn is_true(&self, at: c_int) -> bool {
        self.check(at);
        // SAFETY: there is such a position.
        unsafe { ffi::lua_toboolean(self.state, at) != 0 }
    }

    /// Pushes nil.
    pub(crate) fn push_nil(&mut self) {
        self.take_room();
        // SAFETY: there is room.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    /// Pushes the value that stands for null in texts of JSON.
    pub(crate) fn push_null(&mut self) {
        self.take_room();
        // SAFETY: there is room.
        unsafe { ffi::lua_pushlightuserdata(self.state, std::ptr::null_mut()) };
    }

    /// Pushes a boolean.
    pub(crate) fn push_boolean(&mut self, value: bool) {
        self.take_room();
        // SAFETY: there is room.
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) };
    }

    /// Pushes a number.
    pub(crate) fn push_number(&mut self, value: f64) {
        self.take_room();
        // SAFETY: there is room.
        unsafe { ffi::lua_pushnumber(self.state, value) };
    }

    /// Pushes a string.
    pub(crate) fn push_bytes(&mut self, text: &[u8]) {
        self.take_room();
        let start: *const c_char = text.as_ptr().cast();
        // SAFETY: there is room; Lua copies the bytes.
        unsafe { ffi::lua_pushlstring_(self.state, start, text.len()) };
    }

    /// Pushes an empty table with room for elements and fields.
    pub(crate) fn push_table(&mut self, element_count: usize, field_count: usize) {
        const COUNT_MAX: usize = 1 << 26;
        self.take_room();
        let elements = element_count.min(COUNT_MAX) as c_int;
        let fields = field_count.min(COUNT_MAX) as c_int;
        // SAFETY: there is room; tables of that size are not refused.
        unsafe { ffi::lua_createtable(self.state, elements, fields) };
    }

    /// Pushes a name.
    pub(crate) fn push_name(&mut self, name: Name) {
        self.take_room();
        // SAFETY: there is room, and the table of names is there.
        unsafe { ffi::lua_rawgeti_(self.state, self.names, name as c_int + 1) };
    }

    /// Pushes a value that is kept elsewhere. Needs room for two.
    pub(crate) fn push<T>(&mut self, value: &T)
    where
        for<'v> &'v T: IntoLua,
    {
        assert!(self.free > 1, "room is reserved");
        let (state, before) = (self.state, self.top);
        let pushed = self.lua.exec_raw_lua(|raw| {
            assert_eq!(raw.state(), state, "a run has the stack of the main thread");
            // SAFETY: there is room for two values.
            unsafe { raw.push(value) }
        });
        self.take_room();
        // SAFETY: the state is live.
        let top = unsafe { ffi::lua_gettop(state) };
        assert!(pushed.is_ok() && top == before + 1, "a reference is pushed");
    }

    /// Pushes a value again.
    pub(crate) fn push_copy(&mut self, at: c_int) {
        self.check(at);
        self.take_room();
        // SAFETY: there is such a position, and room.
        unsafe { ffi::lua_pushvalue(self.state, at) };
    }

    /// Pushes an element of a table.
    pub(crate) fn push_element(&mut self, table: c_int, index: c_int) {
        self.check_table(table);
        self.take_room();
        // SAFETY: it is a table, and there is room.
        unsafe { ffi::lua_rawgeti_(self.state, table, index) };
    }

    /// Pushes a field of a table.
    pub(crate) fn push_field(&mut self, table: c_int, name: Name) {
        self.check_table(table);
        self.push_name(name);
        // SAFETY: it is a table, and the name on the stack is replaced by the value.
        unsafe { ffi::lua_rawget_(self.state, table) };
    }

    /// Pops a value, which becomes an element of a table.
    pub(crate) fn put_element(&mut self, table: c_int, index: c_int) {
        self.check_table(table);
        assert!(self.top > table, "a value is above the table");
        // SAFETY: it is a table, with a value above it.
        unsafe { ffi::lua_rawseti_(self.state, table, index) };
        self.top -= 1;
        self.free += 1;
    }

    /// Pops a key and a value, which become a field of a table. A key that no table can have is dropped.
    pub(crate) fn put(&mut self, table: c_int) {
        self.check_table(table);
        let key = self.top - 1;
        assert!(key > table, "a key and a value are above the table");
        if self.kind(key) == LuaType::Nil || self.number(key).is_some_and(f64::is_nan) {
            return self.pop(2);
        }
        // SAFETY: it is a table, with a key and a value above it.
        unsafe { ffi::lua_rawset(self.state, table) };
        self.top -= 2;
        self.free += 2;
    }

    /// Visits the fields of a table, each with its key below its value on the top. What is above them is removed afterwards.
    pub(crate) fn pairs(&mut self, table: c_int, mut visit: impl FnMut(&mut Self)) {
        let visited = self.try_pairs::<Infallible>(table, |stack| {
            visit(stack);
            Ok(())
        });
        visited.unwrap_or_else(|never| match never {});
    }

    /// As [`Self::pairs`], until `visit` fails.
    pub(crate) fn try_pairs<E>(
        &mut self,
        table: c_int,
        mut visit: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_table(table);
        self.push_nil();
        let key = self.top;
        loop {
            self.cut(key);
            self.take_room();
            // SAFETY: it is a table, and there is room for a value above the key, which is nil or from the call before.
            if unsafe { ffi::lua_next(self.state, table) } == 0 {
                self.top -= 2;
                self.free += 2;
                return Ok(());
            }
            if let Err(error) = visit(self) {
                self.cut(key - 1);
                return Err(error);
            }
        }
    }

    /// Calls the function below its arguments with the memory limit, and leaves one value in their place. `false`: it is the
    /// error, as returned by the function at `handler`.
    pub(crate) fn call(&mut self, argument_count: c_int, handler: c_int, memory_max: usize) -> bool {
        self.check(self.top - argument_count);
        assert!(
            self.base < handler && handler < self.top - argument_count,
            "the handler is below the function"
        );
        // States have the allocator of the binding, which has a limit.
        let _ = self.lua.set_memory_limit(memory_max);
        // SAFETY: a function, its arguments and a handler are on the stack. Errors end there.
        let status = unsafe { ffi::lua_pcall(self.state, argument_count, 1, handler) };
        let _ = self.lua.set_memory_limit(0);
        self.top -= argument_count;
        self.free += argument_count;
        status == ffi::LUA_OK
    }

    /// Pops a value of the binding: an error, as functions of the host raise it, among others.
    ///
    /// # Panics
    /// If the value is a panic of a function of the host.
    pub(crate) fn pop_value(&mut self) -> Value {
        self.check(self.top);
        assert!(self.reserve(1), "there is room for one value");
        self.top -= 1;
        self.free += 1;
        let state = self.state;
        self.lua.exec_raw_lua(|raw| {
            assert_eq!(raw.state(), state, "a run has the stack of the main thread");
            // SAFETY: there is a value, and room.
            unsafe { raw.pop_value() }
        })
    }
}
