//! Functions of Lua in C with a check before them: of protected tables, of what they cost, and of arguments with which they
//! would run for long or fail.
//!
//! They are written as functions of Lua in C are: see `natives.rs`, which has further ones.
//!
//! Invariant: an error of Lua is raised, and code of a script is called, where no value has a destructor.
#![allow(unsafe_code, reason = "the C interface of Lua, as in `stack.rs`")]

use std::ffi::c_int;
use std::rc::Rc;

use mlua::ffi;
use mlua::{Function, Lua, Table, Value};

use crate::conversion;
use crate::stack::{Callee, Frame, HostFrame, Leave, UPVALUE_COUNT, closure};
use crate::strings;

/// What a function of Lua with a check before it is called with.
const ORIGINAL: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 1);
const PROTECTED: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 2);
const COST: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 3);
const TABLE_FROM: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 4);
const COMPARE: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 5);
const READS: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 6);
const UNPACKS: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 7);
const SLOW: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 8);
const SLOW_TAKES: c_int = ffi::lua_upvalueindex(UPVALUE_COUNT + 9);

/// Lists longer than this are sorted with a function of Lua, which can be interrupted.
const SORTED_AT_ONCE_MAX: usize = 10_000;

/// Elements that functions of Lua in C visit at once. More are visited by a function of Lua, which can be interrupted.
const VISITED_AT_ONCE_MAX: i64 = 10_000;

/// Results of `unpack`, which are all on the stack. Lua 5.1.5 counts them in an `int`, which overflows.
const UNPACKED_COUNT_MAX: i64 = 8_000;

/// A check before a function of Lua.
#[derive(Debug, Default)]
pub(crate) struct Check {
    /// The protected tables, each with the one behind it. The function must not change them.
    pub(crate) protected: Option<Table>,
    /// Whether the function reads only: then it is called with the table behind a protected one.
    pub(crate) reads: bool,
    /// Whether it is `unpack`.
    pub(crate) unpacks: bool,
    /// Its work, beside that for the sizes of its arguments.
    pub(crate) cost: u32,
    /// With so many arguments, its work grows with the table that is the first.
    pub(crate) table_from: Option<u32>,
    /// Compares two elements, if it is `table.sort`.
    pub(crate) compare: Option<Function>,
    /// Does the same in Lua, if it visits the elements from its second argument to the end: those from a place, or all with a
    /// function.
    pub(crate) slow: Option<Function>,
    /// Whether its second argument is a function.
    pub(crate) calls: bool,
}

/// Returns a function of Lua with a check before it. It runs in the frame of the check, so its errors name the same place.
/// `None`: it is not one of Lua's own in C.
pub(crate) fn checked<C: Callee>(
    lua: &Lua,
    callee: &Rc<C>,
    names: &Table,
    original: Function,
    check: Check,
) -> mlua::Result<Option<Function>> {
    let original = Value::Function(original);
    let is_native = lua.exec_raw_lua(|raw| {
        let state = raw.state();
        // SAFETY: room for one value is always left between calls of the binding.
        let is_pushed = unsafe { ffi::lua_checkstack(state, 2) } != 0;
        // SAFETY: there is room.
        if !is_pushed || unsafe { raw.push(&original) }.is_err() {
            return false;
        }
        // SAFETY: a value is on the top.
        let is_native = unsafe { ffi::lua_tocfunction(state, -1) }.is_some();
        // SAFETY: as above.
        unsafe { ffi::lua_settop(state, -2) };
        is_native
    });
    if !is_native {
        return Ok(None);
    }
    let table_from = check.table_from.unwrap_or(u32::MAX);
    let (cost, table_from) = (f64::from(check.cost), f64::from(table_from));
    let slow_takes = if check.calls { ffi::LUA_TFUNCTION } else { ffi::LUA_TNUMBER };
    let further = (
        original,
        check.protected,
        cost,
        table_from,
        check.compare,
        check.reads,
        check.unpacks,
        check.slow,
        slow_takes,
    );
    closure(lua, callee, names, further, enter_checked::<C>).map(Some)
}

/// A function of Lua with a check before it.
///
/// # Safety
/// 1. It is called by Lua as a function of [`closure`], with the upvalues of [`checked`].
unsafe extern "C-unwind" fn enter_checked<C: Callee>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: (1) as above.
    let host = unsafe { HostFrame::<C>::new(state) };
    let values = host.values;
    let count = values.top();
    // SAFETY: (1) as above.
    if count > 0 && unsafe { push_behind(values) } {
        if !values.is_true(READS) {
            // SAFETY: there is room beside the arguments.
            unsafe { ffi::lua_pushliteral(state, c"Attempt to modify a readonly table") };
            // SAFETY: a value is on the stack, and none here has a destructor.
            unsafe { ffi::lua_error(state) };
        }
        // SAFETY: the table behind the argument is on the top, and takes its place.
        unsafe { ffi::lua_replace(state, 1) };
    }
    // SAFETY: (1) as above.
    match unsafe { unpacking(values, count) } {
        Unpacking::Proceed => {}
        Unpacking::Nothing => return 0,
        Unpacking::TooMuch => {
            let leave = host.part(|_, stack| stack.fail("too many results to unpack"));
            // SAFETY: (1) There is no such value.
            return unsafe { host.depart(leave) };
        }
    }
    let mut work = values.number(COST) as usize;
    let table_from = values.number(TABLE_FROM);
    for at in 1..=count {
        let kind = values.type_of(at);
        if kind == ffi::LUA_TSTRING || (kind == ffi::LUA_TTABLE && at == 1 && f64::from(count) >= table_from)
        {
            let len = values.len(at);
            work += if kind == ffi::LUA_TSTRING { len / 16 } else { len };
        }
    }
    if host.bound().callee.meter().add(work) {
        let leave = host.part(strings::interrupt);
        if !matches!(leave, Some(Leave::Return(_))) {
            // SAFETY: (1) There is no such value.
            return unsafe { host.depart(leave) };
        }
    }
    if let Some(place) = slow_from(values, count) {
        // SAFETY: (1) as above. (2) It is one of the arguments.
        return unsafe { run_slowly(values, place) };
    }
    let sorts = values.type_of(COMPARE) == ffi::LUA_TFUNCTION;
    if sorts && count == 1 && work > SORTED_AT_ONCE_MAX {
        // SAFETY: (1) as above; there is room beside the argument.
        unsafe { ffi::lua_pushvalue(state, COMPARE) };
    }
    // SAFETY: (1) it is a function of Lua in C.
    match unsafe { ffi::lua_tocfunction(state, ORIGINAL) } {
        // SAFETY: it expects its arguments on the stack, and has no upvalues of its own.
        Some(original) => unsafe { original(state) },
        None => 0,
    }
}

/// Pushes the table behind the first argument if that is a protected table. `false`: it is not, and nothing is pushed.
///
/// # Safety
/// 1. The running function is one of [`checked`] or `pairs`, and has an argument.
pub(crate) unsafe fn push_behind(values: Frame) -> bool {
    if values.type_of(PROTECTED) != ffi::LUA_TTABLE || values.type_of(1) != ffi::LUA_TTABLE {
        return false;
    }
    // SAFETY: (1) there is an argument, and room beside the arguments.
    unsafe { ffi::lua_pushvalue(values.state, 1) };
    // SAFETY: it is a table; the key on the top is replaced.
    unsafe { ffi::lua_rawget_(values.state, PROTECTED) };
    let top = values.top();
    if values.type_of(top) != ffi::LUA_TNIL {
        return true;
    }
    // SAFETY: a value is on the top.
    unsafe { ffi::lua_settop(values.state, top - 1) };
    false
}

/// From where a function of [`checked`] visits the elements of its first argument, if these are many, and a function of Lua can
/// do it. `count`: of its arguments.
fn slow_from(values: Frame, count: c_int) -> Option<i32> {
    if values.type_of(SLOW) != ffi::LUA_TFUNCTION {
        return None;
    }
    let from = values.number(TABLE_FROM);
    // Lua refuses further arguments of `insert`.
    let is_complete = f64::from(count) >= from && (from < 3.0 || count == 3);
    if !is_complete || values.type_of(1) != ffi::LUA_TTABLE {
        return None;
    }
    let place = if values.number(SLOW_TAKES) == f64::from(ffi::LUA_TFUNCTION) {
        (values.type_of(2) == ffi::LUA_TFUNCTION).then_some(0)
    } else {
        int_at(values, 2)
    }?;
    let len = values.len(1) as i64;
    (len - i64::from(place) > VISITED_AT_ONCE_MAX).then_some(place)
}

/// Calls the function of Lua that does the same as the running one.
///
/// # Safety
/// 1. The running function is one of [`checked`] with such a function. On the stack are its arguments, at least two.
/// 2. The second is a number with this value, or a function.
unsafe fn run_slowly(values: Frame, place: i32) -> c_int {
    if values.type_of(2) != ffi::LUA_TFUNCTION {
        // SAFETY: (1) there are two arguments, and room beside them.
        unsafe { values.put_number(2, f64::from(place)) };
    }
    // SAFETY: (1) it is a function. (2) There are only the arguments. (3) No value here has a destructor.
    unsafe { values.call_instead(SLOW) }
}

/// An argument as Lua converts it to an `int`. `None`: it is no number.
fn int_at(values: Frame, at: c_int) -> Option<i32> {
    values.is_number(at).then(|| conversion::to_integer(values.number(at)) as i32)
}

/// What `unpack` is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unpacking {
    /// What Lua's own function does: return the elements, or refuse the arguments.
    Proceed,
    /// Return nothing.
    Nothing,
    /// Refuse: so many elements are not on the stack.
    TooMuch,
}

/// What the function is to do, if it is `unpack`. Numbers that are no `int` are replaced by those that C makes of them.
///
/// # Safety
/// 1. The running function is one of [`checked`], and has so many arguments.
unsafe fn unpacking(values: Frame, count: c_int) -> Unpacking {
    if count == 0 || !values.is_true(UNPACKS) || values.type_of(1) != ffi::LUA_TTABLE {
        return Unpacking::Proceed;
    }
    let len = values.len(1) as i32;
    let mut range = [1, len];
    for (at, bound) in (2..=count).zip(&mut range) {
        if values.type_of(at) == ffi::LUA_TNIL {
            continue;
        }
        let Some(given) = int_at(values, at) else { return Unpacking::Proceed };
        *bound = given;
        // SAFETY: (1) there is such an argument, and room beside the arguments.
        unsafe { values.put_number(at, f64::from(given)) };
    }
    let [from, to] = range.map(i64::from);
    if from > to {
        Unpacking::Nothing
    } else if to - from >= UNPACKED_COUNT_MAX {
        Unpacking::TooMuch
    } else {
        Unpacking::Proceed
    }
}
