//! The memory limit of scripts.
//!
//! The limit is on while code of Lua runs, and off while the host uses the state: an allocation of the host that fails
//! outside of a protected call would end the process. Functions of the host check the memory themselves (`meter.rs`).

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua};

use crate::natives;

/// Creates a function of the host, during which the limit is off. It refuses more arguments than the binding has references.
pub(crate) fn host_function<A, R>(
    lua: &Lua,
    body: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
) -> mlua::Result<Function>
where
    A: FromLuaMulti,
    R: IntoLuaMulti,
{
    let function = lua.create_function(move |lua, args: A| {
        let limit = lua.set_memory_limit(0)?;
        let result = body(lua, args);
        lua.set_memory_limit(limit)?;
        result
    })?;
    natives::limited(lua, function)
}

/// Creates the function that turns the limit on or off.
pub(crate) fn limit_function(lua: &Lua, limit: usize) -> mlua::Result<Function> {
    lua.create_function(move |lua, ()| {
        lua.set_memory_limit(limit)?;
        Ok(())
    })
}
