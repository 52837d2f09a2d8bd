//! The frame of a running function in C, which raises errors of Lua and calls code of scripts: without the checks of a [`Stack`].
#![allow(unsafe_code, reason = "the C interface of Lua, as in `stack.rs`")]

use std::ffi::c_int;
use std::marker::PhantomData;

use mlua::ffi;

use super::{AGAIN, BOUND, Bound, Callee, KILLED, Leave, Stack, TIMEOUT, call};
use crate::meter::Meter;

/// The values of a running function in C: its arguments, and what it adds to them. A function may add
/// [`ffi::LUA_MINSTACK`] values to its arguments.
///
/// Values are read by their positions, from 1, or as upvalues. Those that are not there are read as none.
///
/// Invariant: the state is live, and runs the function.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) state: *mut ffi::lua_State,
}

impl Frame {
    /// # Safety
    /// 1. Lua has called a function in C with this state, which runs as long as the frame is used.
    pub(crate) unsafe fn new(state: *mut ffi::lua_State) -> Self {
        Self { state }
    }

    /// The number of values.
    #[inline]
    pub(crate) fn top(self) -> c_int {
        // SAFETY: the state is live.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// Removes the values above a position; those up to there that are missing become nil.
    #[inline]
    pub(crate) fn set_top(self, top: c_int) {
        debug_assert!((0..=ffi::LUA_MINSTACK).contains(&top));
        // SAFETY: there is room for them.
        unsafe { ffi::lua_settop(self.state, top) };
    }

    /// The type of a value, as the interface of Lua numbers them.
    #[inline]
    pub(crate) fn type_of(self, at: c_int) -> c_int {
        debug_assert!(Self::may_be_read(at));
        // SAFETY: it is an argument, an upvalue, or none.
        unsafe { ffi::lua_type(self.state, at) }
    }

    /// A value as a number; 0 if it is none.
    #[inline]
    pub(crate) fn number(self, at: c_int) -> f64 {
        debug_assert!(Self::may_be_read(at));
        // SAFETY: it is an argument, an upvalue, or none.
        unsafe { ffi::lua_tonumber(self.state, at) }
    }

    /// Whether a value is a number, or a string that is one.
    #[inline]
    pub(crate) fn is_number(self, at: c_int) -> bool {
        debug_assert!(Self::may_be_read(at));
        // SAFETY: it is an argument, an upvalue, or none.
        unsafe { ffi::lua_isnumber(self.state, at) != 0 }
    }

    /// Whether a value is neither nil nor false.
    #[inline]
    pub(crate) fn is_true(self, at: c_int) -> bool {
        debug_assert!(Self::may_be_read(at));
        // SAFETY: it is an argument, an upvalue, or none.
        unsafe { ffi::lua_toboolean(self.state, at) != 0 }
    }

    /// The length of a string or a table.
    #[inline]
    pub(crate) fn len(self, at: c_int) -> usize {
        debug_assert!(matches!(self.type_of(at), ffi::LUA_TSTRING | ffi::LUA_TTABLE));
        // SAFETY: it is an argument that has a length and needs no conversion.
        unsafe { ffi::lua_objlen(self.state, at) }
    }

    /// Calls another function with the arguments of the running one. Returns the number of its results, which it leaves.
    ///
    /// # Safety
    /// 1. `function` is an upvalue with a function.
    /// 2. There are only the arguments.
    /// 3. No caller has a value with a destructor.
    pub(crate) unsafe fn call_instead(self, function: c_int) -> c_int {
        let count = self.top();
        // SAFETY: (1) it is an upvalue. (2) There is room beside the arguments.
        unsafe { ffi::lua_pushvalue(self.state, function) };
        // SAFETY: the function goes below its arguments.
        unsafe { ffi::lua_insert(self.state, 1) };
        // SAFETY: (1) a function and its arguments are on the stack. (3) An error skips nothing.
        unsafe { ffi::lua_call(self.state, count, ffi::LUA_MULTRET) };
        self.top()
    }

    /// Replaces a value by a number.
    ///
    /// # Safety
    /// 1. There is such a value, and room for another one.
    pub(crate) unsafe fn put_number(self, at: c_int, number: f64) {
        // SAFETY: (1) there is room.
        unsafe { ffi::lua_pushnumber(self.state, number) };
        // SAFETY: (1) the number takes the place of the value.
        unsafe { ffi::lua_replace(self.state, at) };
    }

    fn may_be_read(at: c_int) -> bool {
        !(ffi::LUA_GLOBALSINDEX..=0).contains(&at)
    }
}

/// The frame of a function of [`closure`].
pub(crate) struct HostFrame<C> {
    pub(crate) values: Frame,
    callee: PhantomData<*const C>,
}

impl<C: Callee> HostFrame<C> {
    /// # Safety
    /// 1. Lua has called a function of [`closure`] for this type with this state, which runs as long as the frame is used.
    /// 2. While a [`Self::part`] runs, nothing else uses the frame.
    pub(crate) unsafe fn new(state: *mut ffi::lua_State) -> Self {
        // SAFETY: (1) it is a function in C.
        Self { values: unsafe { Frame::new(state) }, callee: PhantomData }
    }

    /// What the function refers to.
    pub(crate) fn bound(&self) -> &Bound<C> {
        // SAFETY: it is the first upvalue.
        let bound: *const Bound<C> = unsafe { ffi::lua_touserdata(self.values.state, BOUND) }.cast();
        // SAFETY: the state keeps it until it is closed, which runs the function, and it is never changed.
        unsafe { &*bound }
    }

    /// Runs a part of the function, which leaves values or raises an error.
    pub(crate) fn part(&self, act: impl FnOnce(&Meter, &mut Stack<'_>) -> Leave) -> Option<Leave> {
        call(self.bound(), self.values.state, |callee, stack| act(callee.meter(), stack))
    }

    /// Leaves the function: returns the number of its results, or raises an error.
    ///
    /// # Safety
    /// 1. No caller has a value with a destructor.
    pub(crate) unsafe fn depart(&self, leave: Option<Leave>) -> c_int {
        let state = self.values.state;
        let end = match leave {
            None => return 0,
            Some(Leave::Return(count)) => return count,
            // SAFETY: a value is on the stack, and (1).
            Some(Leave::Raise) => unsafe { ffi::lua_error(state) },
            Some(Leave::Again) => AGAIN,
            Some(Leave::Killed) => KILLED,
            Some(Leave::Timeout) => TIMEOUT,
        };
        self.values.set_top(0);
        // SAFETY: it is an upvalue. There is room, as the stack is empty.
        unsafe { ffi::lua_pushvalue(state, end) };
        // SAFETY: as above, and (1).
        unsafe { ffi::lua_error(state) }
    }
}
