//! `redis.call` and `redis.pcall`, on the stack of Lua.
//!
//! The request and the reply are in buffers of the interpreter, which are used again.

use std::any::Any;
use std::rc::Rc;

use mlua::{Function, Lua};
use wire::request::ArgsBuf;

use crate::conversion;
use crate::failure::{End, Failure};
use crate::interpreter::{Running, Server};
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
    stack::function::<_, RAISES>(lua, running, &running.names, Failure::End(End::Again).into())
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
        let mut server = self.server.borrow_mut();
        let Some(server) = server.as_mut() else { return refuse(stack, NO_SERVER, true) };
        if !server.call(request.args(), self.is_resp3.get(), &mut reply) {
            return Leave::End;
        }
        let is_error = !conversion::to_lua(stack, &reply);
        if reply.capacity() > KEPT_CAPACITY {
            *reply = Vec::new();
        }
        if is_error && RAISES { Leave::Raise } else { Leave::Return }
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
    if raises { Leave::Raise } else { Leave::Return }
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

/// Numbers without a fraction have all their digits, others the shortest text that gives them back.
pub(super) fn push_number(request: &mut ArgsBuf, number: f64) {
    if number.fract() == 0.0 && number >= i64::MIN as f64 && number < -(i64::MIN as f64) {
        request.push_i64(number as i64);
    } else {
        let mut text = Vec::new();
        wire::number::write_f64(&mut text, number);
        request.push(&text);
    }
}
