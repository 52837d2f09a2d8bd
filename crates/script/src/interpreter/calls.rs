//! `redis.call` and `redis.pcall`, on the stack of Lua.
//!
//! The request and the reply are in buffers of the interpreter, which are used again.

use std::any::Any;
use std::rc::Rc;

use mlua::{Function, Lua};
use wire::request::ArgsBuf;

use crate::conversion;
use crate::interpreter::{Running, Server};
use crate::meter::Meter;
use crate::stack::{self, Callee, Leave, Stack};

/// Capacity of buffers that is kept between calls, in bytes.
const KEPT_CAPACITY: usize = 64 << 10;

pub(super) const NO_ARGUMENT: &str = "Please specify at least one argument for this call";
pub(super) const WRONG_ARGUMENT: &str = "Command arguments must be strings or integers";
pub(super) const NO_SERVER: &str = "redis.* functions can only be called while a script runs";

/// Creates `redis.call` if `RAISES`, otherwise `redis.pcall`.
pub(super) fn function<S: Server, const RAISES: bool>(
    lua: &Lua,
    running: &Rc<Running<S>>,
) -> mlua::Result<Function> {
    stack::function::<_, RAISES>(lua, running, &running.names)
}

impl<S: Server> Callee for Running<S> {
    fn called<const RAISES: bool>(&self, stack: &mut Stack<'_>) -> Leave {
        let (mut request, mut reply) = (self.request.borrow_mut(), self.reply.borrow_mut());
        if let Err(text) = fill(&mut request, stack) {
            return refuse(stack, text, RAISES);
        }
        // What follows has the room of the arguments, of which there may be thousands.
        stack.cut(0);
        reply.clear();
        let is_due = {
            let mut server = self.server.borrow_mut();
            let Some(server) = server.as_mut() else { return refuse(stack, NO_SERVER, true) };
            if !server.call(request.args(), self.is_resp3.get(), &mut reply) {
                return Leave::Again;
            }
            server.is_due()
        };
        let converted = conversion::to_lua(stack, &reply, &self.meter);
        let is_due = self.meter.add_bytes(reply.len()) || is_due;
        if reply.capacity() > KEPT_CAPACITY {
            *reply = Vec::new();
        }
        let is_error = match converted {
            Ok(succeeds) => !succeeds,
            Err(stopped) => return stack.stop(stopped),
        };
        if is_due && let Err(stopped) = self.meter.interrupt(stack.lua()) {
            return stack.stop(stopped);
        }
        if is_error && RAISES { Leave::Raise } else { Leave::Return(1) }
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.panic.set(Some(payload));
    }
}

/// Leaves with an error of the API.
#[cold]
fn refuse(stack: &mut Stack<'_>, text: &str, raises: bool) -> Leave {
    stack.cut(0);
    conversion::push_error(stack, format!("ERR {text}").as_bytes(), false);
    if raises { Leave::Raise } else { Leave::Return(1) }
}

/// Puts the values on the stack into a request.
fn fill(request: &mut ArgsBuf, stack: &Stack<'_>) -> Result<(), &'static str> {
    clear(request);
    if stack.top() == 0 {
        return Err(NO_ARGUMENT);
    }
    for at in 1..=stack.top() {
        if let Some(text) = stack.bytes(at) {
            request.push(text);
        } else if let Some(number) = stack.number(at) {
            push_number(request, number);
        } else {
            return Err(WRONG_ARGUMENT);
        }
    }
    Ok(())
}

pub(super) fn clear(request: &mut ArgsBuf) {
    if request.allocated_size() > KEPT_CAPACITY {
        *request = ArgsBuf::new();
    }
    request.clear();
}

/// Greater numbers are written as those with a fraction, as Valkey does: 2^62.
const INTEGER_MAX: f64 = (1_u64 << 62) as f64;

/// Numbers without a fraction have all their digits, others the shortest text that gives them back.
pub(super) fn push_number(request: &mut ArgsBuf, number: f64) {
    if number.fract() == 0.0 && number.abs() <= INTEGER_MAX {
        request.push_i64(number as i64);
    } else if number.is_nan() {
        request.push(if number.is_sign_negative() { b"-nan" } else { b"nan" });
    } else {
        let mut text = Vec::new();
        wire::number::write_f64(&mut text, number);
        request.push(&text);
    }
}
