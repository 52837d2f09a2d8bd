//! Libraries of functions: their first line, and what they register when they are loaded.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use wire::request::words_of;

use crate::failure::{Failure, api_error, failure_of, text_of};
use crate::interpreter::{Interpreter, Server};
use crate::loaded::{CheckedLibrary, LoadedFunction, LoadedLibrary};
use crate::memory::host_function;
use crate::source::ScriptFlags;

/// Why a library is refused: the text of the error, which begins with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryError(pub Vec<u8>);

impl LibraryError {
    fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

/// The first line of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryHeader {
    /// The name of the language, as written.
    pub engine: Vec<u8>,
    /// The name of the library.
    pub name: Vec<u8>,
    /// Where the code begins.
    pub size: usize,
}

impl LibraryHeader {
    /// Parses the first line of a library.
    ///
    /// # Errors
    /// If it is missing or malformed, or names another language than Lua.
    pub fn parse(code: &[u8]) -> Result<Self, LibraryError> {
        if !code.starts_with(b"#!") {
            return Err(LibraryError::new("ERR Missing library metadata"));
        }
        let Some(size) = code.iter().position(|byte| *byte == b'\n') else {
            return Err(LibraryError::new("ERR Invalid library metadata"));
        };
        let words =
            words_of(&code[..size]).ok_or_else(|| LibraryError::new("ERR Invalid library metadata"))?;
        let engine = words.first().map_or(&b""[..], |word| &word[2..]);
        let mut name = None;
        for word in &words[1..] {
            let given = match word.get(..5) {
                Some(prefix) if prefix.eq_ignore_ascii_case(b"name=") => &word[5..],
                _ => return Err(LibraryError([b"ERR Invalid metadata value given: ", &word[..]].concat())),
            };
            if name.replace(given.to_vec()).is_some() {
                return Err(LibraryError::new(
                    "ERR Invalid metadata value, name argument was given multiple times",
                ));
            }
        }
        let name = name.ok_or_else(|| LibraryError::new("ERR Library name was not given"))?;
        if !is_valid_name(&name) {
            return Err(LibraryError::new(
                "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                 character long",
            ));
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(LibraryError([b"ERR Engine '", engine, b"' not found"].concat()));
        }
        Ok(Self { engine: b"LUA".to_vec(), name, size })
    }
}

fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// How many interrupts the code of a library may see: some ten million instructions.
const LOAD_INTERRUPT_COUNT: u32 = 1_000;

/// What the code of a library has registered. The binding has few references, so functions are in a table.
struct Registering {
    functions: Vec<LoadedFunction>,
    callbacks: Table,
}

/// There is none when the code has ended.
type Registered = Rc<RefCell<Option<Registering>>>;

/// Functions that are found without the table.
const RECENT_COUNT_MAX: usize = 500;

impl<S: Server> Interpreter<S> {
    /// Runs the code of a library, and keeps the functions that it registers, which replace those of the same names. Code
    /// that runs too many instructions is ended. Returns about how much memory the library takes, in bytes. A library that
    /// was just checked is not run again.
    ///
    /// # Errors
    /// If the code fails; then nothing is kept.
    pub fn load_library(&mut self, code: &[u8]) -> Result<usize, LibraryError> {
        let failed = |error: mlua::Error| LibraryError::new(&format!("ERR {}", text_of(&error)));
        let CheckedLibrary { functions, callbacks, size, .. } =
            match self.checked.take().filter(|checked| checked.code == code) {
                Some(checked) => checked,
                None => self.registered(code)?,
            };
        for (function, index) in functions.iter().zip(1..) {
            let name = self.lua.create_string(&function.name);
            let callback: mlua::Result<Function> = callbacks.raw_get(index);
            let kept = name.and_then(|name| self.functions.raw_set(name, callback?));
            kept.map_err(failed)?;
            self.recent.remove(&function.name);
        }
        Ok(size)
    }

    /// Runs the code of a library, and returns what it registers, which can't be called yet.
    ///
    /// # Errors
    /// If the code fails.
    pub fn check_library(&mut self, code: &[u8]) -> Result<LoadedLibrary, LibraryError> {
        self.checked = None;
        let checked = self.registered(code)?;
        let functions = checked.functions.clone();
        self.checked = Some(checked);
        Ok(LoadedLibrary { functions })
    }

    /// Forgets the library that was checked last, unless it was loaded.
    pub fn forget_checked(&mut self) {
        self.checked = None;
    }

    /// Runs the code of a library.
    fn registered(&mut self, code: &[u8]) -> Result<CheckedLibrary, LibraryError> {
        let used_before = self.used_memory();
        let header = LibraryHeader::parse(code)?;
        let failed = |error: mlua::Error| LibraryError::new(&format!("ERR {}", text_of(&error)));
        let callbacks = self.lua.create_table().map_err(failed)?;
        let begun = Registering { functions: Vec::new(), callbacks: callbacks.clone() };
        let registered: Registered = Rc::new(RefCell::new(Some(begun)));
        let result = self.run_library(&code[header.size..], &registered);
        let functions = registered.borrow_mut().take().map(|all| all.functions).unwrap_or_default();
        result?;
        if functions.is_empty() {
            return Err(LibraryError::new("ERR No functions registered"));
        }
        let mut names = HashSet::new();
        for function in &functions {
            if !is_valid_name(&function.name) {
                return Err(LibraryError::new(
                    "ERR Function names can only contain letters, numbers, or underscores(_) and must be at least one \
                     character long",
                ));
            }
            if !names.insert(function.name.to_ascii_lowercase()) {
                return Err(LibraryError::new("ERR Function already exists in the library"));
            }
        }
        // Garbage may have been collected meanwhile.
        let size = self.used_memory().saturating_sub(used_before).max(code.len());
        Ok(CheckedLibrary { code: code.to_vec(), functions, callbacks, size })
    }

    /// Forgets a function.
    pub fn forget_function(&mut self, name: &[u8]) {
        self.recent.remove(name);
        // Removing a field does not fail; it needs memory for the name.
        let key = self.lua.create_string(name);
        let _ = key.and_then(|key| self.functions.raw_set(key, Value::Nil));
    }

    /// Forgets all functions.
    pub fn forget_functions(&mut self) {
        self.recent.clear();
        // `Table::clear` of the binding leaves a value on the stack.
        self.functions = self.lua.create_table().expect("the memory limit is off between runs");
    }

    /// The function with this name.
    pub(crate) fn function(&mut self, name: &[u8]) -> Option<&Function> {
        if !self.recent.contains_key(name) {
            let key = self.lua.create_string(name).ok()?;
            let found: Function = self.functions.raw_get::<Option<Function>>(key).ok()??;
            if self.recent.len() >= RECENT_COUNT_MAX {
                self.recent.clear();
            }
            self.recent.insert(name.to_vec(), found);
        }
        self.recent.get(name)
    }

    fn run_library(&mut self, code: &[u8], registered: &Registered) -> Result<(), LibraryError> {
        let failed = |stage: &str, error: mlua::Error| {
            let text = match failure_of(&error) {
                Some(Failure::Reply { text, .. }) => text.clone(),
                Some(Failure::Text(text)) => [b"ERR ", &text[..]].concat(),
                Some(other) => [b"ERR ", other.to_string().as_bytes()].concat(),
                None => [b"ERR ", text_of(&error).as_bytes()].concat(),
            };
            let shown = if stage == "compiling function" {
                text.strip_prefix(b"ERR ").unwrap_or(&text)
            } else {
                &text
            };
            let line = [b"ERR Error ", stage.as_bytes(), b": ", shown].concat();
            LibraryError(crate::conversion::one_line(&line))
        };
        let (environment, finish) =
            self.library_environment(registered).map_err(|error| failed("registering functions", error))?;
        let main = self.compile_text(code, "@user_function", &environment);
        let main = main.map_err(|text| failed("compiling function", Failure::Text(text).into()))?;
        self.begin_library();
        self.running.interrupts_left.set(Some(LOAD_INTERRUPT_COUNT));
        let result = match self.parts.run_library.call::<(bool, Value)>(main) {
            Ok((true, _)) => Ok(()),
            Ok((false, Value::Error(error))) => Err(*error),
            Ok((false, Value::String(text))) => Err(Failure::Text(text.as_bytes().to_vec()).into()),
            Ok((false, _)) => Err(mlua::Error::RuntimeError("unknown error".to_owned())),
            Err(error) => Err(error),
        };
        self.running.interrupts_left.set(None);
        self.settle_memory();
        let finished = finish.call::<()>(());
        result.and(finished).map_err(|error| failed("registering functions", error))
    }

    fn library_environment(&self, registered: &Registered) -> mlua::Result<(Table, Function)> {
        let list = Rc::clone(registered);
        let register = host_function(&self.lua, move |lua, args: MultiValue| {
            let mut list = list.borrow_mut();
            let Some(list) = list.as_mut() else {
                return Err(api_error(
                    "server.register_function can only be called on FUNCTION LOAD command",
                ));
            };
            let (function, callback) = registration(lua, &args)?;
            list.callbacks.raw_push(callback)?;
            list.functions.push(function);
            Ok(())
        })?;
        self.parts.environment_for_library.call((&self.parts.library_api, register))
    }
}

/// Reads the arguments of `register_function`.
fn registration(lua: &Lua, args: &MultiValue) -> mlua::Result<(LoadedFunction, Function)> {
    let text = |value: &Value| -> mlua::Result<Option<Vec<u8>>> {
        Ok(match value {
            Value::String(_) | Value::Number(_) | Value::Integer(_) => {
                lua.coerce_string(value.clone())?.map(|text| text.as_bytes().to_vec())
            }
            _ => None,
        })
    };
    match args.iter().collect::<Vec<_>>()[..] {
        [Value::Table(named)] => named_registration(named, &text),
        [_] => Err(api_error(
            "calling server.register_function with a single argument is only applicable to Lua table (representing \
             named arguments).",
        )),
        [name, callback] => {
            let Some(name) = text(name)? else {
                return Err(api_error("first argument to server.register_function must be a string"));
            };
            let Value::Function(callback) = callback else {
                return Err(api_error("second argument to server.register_function must be a function"));
            };
            let function = LoadedFunction { name, description: None, flags: ScriptFlags::empty() };
            Ok((function, callback.clone()))
        }
        _ => Err(api_error("wrong number of arguments to server.register_function")),
    }
}

fn named_registration(
    named: &Table,
    text: &dyn Fn(&Value) -> mlua::Result<Option<Vec<u8>>>,
) -> mlua::Result<(LoadedFunction, Function)> {
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::empty());
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = text(&key)? else {
            return Err(api_error("named argument key given to server.register_function is not a string"));
        };
        let must_be = |what: &str| {
            let key = String::from_utf8_lossy(&key).to_lowercase();
            api_error(&format!("{key} argument given to server.register_function must be a {what}"))
        };
        match &key.to_ascii_lowercase()[..] {
            b"function_name" => name = Some(text(&value)?.ok_or_else(|| must_be("string"))?),
            b"description" => description = Some(text(&value)?.ok_or_else(|| must_be("string"))?),
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => return Err(must_be("function")),
            },
            b"flags" => {
                let Value::Table(list) = value else {
                    return Err(api_error(
                        "flags argument to server.register_function must be a table representing function flags",
                    ));
                };
                for flag in list.sequence_values::<Value>() {
                    let known =
                        text(&flag?)?.and_then(|name| ScriptFlags::by_name(&name.to_ascii_lowercase()));
                    flags |= known.ok_or_else(|| api_error("unknown flag given"))?;
                }
            }
            _ => return Err(api_error("unknown argument given to server.register_function")),
        }
    }
    let name = name.ok_or_else(|| api_error("server.register_function must get a function name argument"))?;
    let callback =
        callback.ok_or_else(|| api_error("server.register_function must get a callback argument"))?;
    Ok((LoadedFunction { name, description, flags }, callback))
}
