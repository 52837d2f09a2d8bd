//! What a text does that a proof does not cover: calls of commands with other keys than declared ones, and uses of `redis`
//! and of the declared keys that could lead to such calls.

use commands::command::{Access, Begin, Find, Flags, KeySpec};
use commands::table::COMMANDS;

use super::flow::{Flow, HeldValue};
use super::syntax::{ExpressionForm, ExpressionId, FunctionId, VariableId};

/// Names with which a script could reach more than its text shows.
const FORBIDDEN: [&[u8]; 12] = [
    b"_G",
    b"getfenv",
    b"setfenv",
    b"load",
    b"loadstring",
    b"rawset",
    b"rawget",
    b"setmetatable",
    b"getmetatable",
    b"newproxy",
    b"__redis__err__handler",
    b"__server__err__handler",
];

/// Fields of `redis` that run no command.
const HARMLESS: [&[u8]; 10] = [
    b"error_reply",
    b"status_reply",
    b"log",
    b"sha1hex",
    b"setresp",
    b"set_repl",
    b"replicate_commands",
    b"breakpoint",
    b"acl_check_cmd",
    // The interpreter refuses it in a script, and in a function that runs.
    b"register_function",
];

/// Functions that only read a table which is their argument, and do not return it.
const READERS: [&[u8]; 5] = [b"ipairs", b"pairs", b"unpack", b"next", b"type"];

/// The functions with something that the proof does not cover.
pub(super) struct Faults {
    pub(super) is_in: Vec<bool>,
}

impl Faults {
    /// `None`: there is something that concerns all functions.
    pub(super) fn new(flow: &Flow<'_, '_>) -> Option<Self> {
        let mut search = Search { flow, is_allowed: vec![false; flow.syntax.expressions.len()] };
        search.allow();
        let mut is_in = vec![false; flow.syntax.functions.len()];
        for (id, expression) in flow.syntax.expressions.iter().enumerate() {
            match search.fault(id) {
                None => {}
                Some(Fault::Own) => is_in[expression.function] = true,
                Some(Fault::General) => return None,
            }
        }
        Some(Self { is_in })
    }

    pub(super) fn are_none(&self) -> bool {
        !self.is_in.contains(&true)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It concerns the functions that reach it.
    Own,
    /// Other functions may reach more than their text shows.
    General,
}

/// A call of a command, or of another function of `redis`.
enum Api<'a> {
    /// `redis.call` or `redis.pcall`
    Command,
    Field(&'a [u8]),
}

struct Search<'f, 's, 'a> {
    flow: &'f Flow<'s, 'a>,
    /// By expression: whether `redis`, a field of it, or the table of keys may be used there.
    is_allowed: Vec<bool>,
}

impl<'a> Search<'_, '_, 'a> {
    fn allow(&mut self) {
        let flow = self.flow;
        for id in 0..self.is_allowed.len() {
            match flow.form(id) {
                ExpressionForm::Index(table, _) if !flow.syntax.expressions[id].is_target => {
                    self.allow_keys(*table);
                    if let Some(api) = self.field_of_api(id) {
                        self.is_allowed[*table] = true;
                        self.is_allowed[id] |= matches!(api, Api::Field(name) if is_constant(name));
                    }
                }
                ExpressionForm::Length(table) => self.allow_keys(*table),
                ExpressionForm::Call(callee, arguments) => self.allow_call(*callee, arguments),
                _ => {}
            }
        }
        for variable in 0..flow.syntax.variables.len() {
            if let Some(value) = flow.value_of(variable) {
                self.is_allowed[value] |=
                    flow.kind_of_variable(variable) == HeldValue::Keys || self.is_command_function(variable);
            }
        }
    }

    fn allow_keys(&mut self, expression: ExpressionId) {
        self.is_allowed[expression] |= self.flow.kind(expression) == HeldValue::Keys;
    }

    fn allow_call(&mut self, callee: ExpressionId, arguments: &[ExpressionId]) {
        if let Some(api) = self.api(callee) {
            self.is_allowed[callee] |= match api {
                Api::Command => true,
                Api::Field(name) => HARMLESS.contains(&name),
            };
        }
        if let Some(function) = self.flow.called(callee) {
            for (place, argument) in arguments.iter().enumerate() {
                let parameter = self.flow.parameter(function, place);
                if parameter.is_some_and(|parameter| self.flow.kind_of_variable(parameter) == HeldValue::Keys)
                {
                    self.allow_keys(*argument);
                }
            }
        }
        if self.only_reads(callee) {
            arguments.iter().for_each(|argument| self.allow_keys(*argument));
        }
    }

    /// Whether a function only reads the tables that are its arguments.
    fn only_reads(&self, callee: ExpressionId) -> bool {
        match self.flow.form(callee) {
            ExpressionForm::Global(name) => READERS.contains(name),
            ExpressionForm::Index(library, field) => matches!(
                (self.flow.form(*library), self.flow.form(*field)),
                (ExpressionForm::Global(b"table"), ExpressionForm::Text(b"concat" | b"getn"))
                    | (ExpressionForm::Global(b"cjson"), ExpressionForm::Text(b"encode"))
                    | (ExpressionForm::Global(b"cmsgpack"), ExpressionForm::Text(b"pack"))
            ),
            _ => false,
        }
    }

    /// The function of `redis` that an expression is.
    fn api(&self, expression: ExpressionId) -> Option<Api<'a>> {
        match *self.flow.form(expression) {
            ExpressionForm::Local(variable) if self.is_command_function(variable) => Some(Api::Command),
            ExpressionForm::Index(..) => self.field_of_api(expression),
            _ => None,
        }
    }

    fn field_of_api(&self, expression: ExpressionId) -> Option<Api<'a>> {
        let ExpressionForm::Index(table, field) = *self.flow.form(expression) else { return None };
        match (self.flow.form(table), self.flow.form(field)) {
            (ExpressionForm::Global(b"redis" | b"server"), ExpressionForm::Text(b"call" | b"pcall")) => {
                Some(Api::Command)
            }
            (ExpressionForm::Global(b"redis" | b"server"), ExpressionForm::Text(name)) => {
                Some(Api::Field(name))
            }
            _ => None,
        }
    }

    /// Whether a variable always holds `redis.call` or `redis.pcall`.
    fn is_command_function(&self, variable: VariableId) -> bool {
        let value = self.flow.value_of(variable);
        value.is_some_and(|value| matches!(self.field_of_api(value), Some(Api::Command)))
    }

    fn fault(&self, id: ExpressionId) -> Option<Fault> {
        let (flow, is_allowed) = (self.flow, self.is_allowed[id]);
        let user = flow.syntax.expressions[id].function;
        match flow.form(id) {
            ExpressionForm::Global(b"redis" | b"server") if !is_allowed => Some(Fault::General),
            ExpressionForm::Global(b"KEYS") if !is_allowed => Some(Fault::Own),
            ExpressionForm::Global(name) if FORBIDDEN.contains(name) => Some(Fault::General),
            ExpressionForm::Index(..) if self.field_of_api(id).is_some() && !is_allowed => {
                Some(Fault::General)
            }
            ExpressionForm::Local(variable) => self.fault_of_variable(*variable, user, is_allowed),
            ExpressionForm::Call(callee, arguments) => match self.api(*callee) {
                Some(Api::Command) => (!self.has_own_keys(arguments)).then_some(Fault::Own),
                _ => None,
            },
            _ => None,
        }
    }

    fn fault_of_variable(&self, variable: VariableId, user: FunctionId, is_allowed: bool) -> Option<Fault> {
        if self.is_command_function(variable) {
            return (!is_allowed).then_some(Fault::General);
        }
        let kind = self.flow.kind_of_variable(variable);
        if kind == HeldValue::Keys && !is_allowed {
            return Some(Fault::Own);
        }
        // Values of a library outlive a run, so they must not refer to keys.
        let refers =
            matches!(kind, HeldValue::Keys | HeldValue::Key) || self.flow.function_of(variable).is_some();
        (self.flow.is_library && refers && self.flow.is_kept(variable, user)).then_some(Fault::Own)
    }

    /// Whether a call of a command with these arguments accesses only declared keys.
    fn has_own_keys(&self, arguments: &[ExpressionId]) -> bool {
        let Some(name) = arguments.first().and_then(|name| self.text(*name)) else { return false };
        let mut commands = COMMANDS.iter();
        let Some(command) = commands.find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
        else {
            return false;
        };
        if !command.subcommands.is_empty() {
            return false;
        }
        match command.access {
            Access::Read | Access::Write => {
                !command.keys.is_empty() && command.keys.iter().all(|spec| self.are_keys(spec, arguments))
            }
            // Others than these walk over the keys.
            Access::None => !command.flags.contains(Flags::READONLY) && command.keys.is_empty(),
            _ => false,
        }
    }

    /// The text that an expression always is.
    fn text(&self, expression: ExpressionId) -> Option<&'a [u8]> {
        let value = match *self.flow.form(expression) {
            ExpressionForm::Local(variable) => self.flow.value_of(variable)?,
            _ => expression,
        };
        match *self.flow.form(value) {
            ExpressionForm::Text(text) => Some(text),
            _ => None,
        }
    }

    fn are_keys(&self, spec: &KeySpec, arguments: &[ExpressionId]) -> bool {
        let is_key = |index: usize| {
            arguments.get(index).is_some_and(|argument| self.flow.kind(*argument) == HeldValue::Key)
        };
        if spec.is_first_only() {
            return is_key(1);
        }
        let (true, Begin::Index(first), Find::Range { last, step, limit: 0 | 1 }) =
            (spec.is_by_count(), spec.begin, spec.find)
        else {
            return false;
        };
        let Some(&final_argument) = arguments.last() else { return false };
        // All arguments are keys, and the last ones are all elements.
        if self.is_all_elements(final_argument) {
            return last == -1 && step == 1 && (first as usize..arguments.len() - 1).all(is_key);
        }
        if self.flow.is_several(final_argument) {
            return false;
        }
        let last = match usize::try_from(last) {
            Ok(more) => first as usize + more,
            Err(_) => match arguments.len().checked_sub(last.unsigned_abs() as usize) {
                Some(last) => last,
                None => return false,
            },
        };
        (first as usize..=last).step_by(step.max(1) as usize).all(is_key)
    }

    /// `unpack(KEYS)`
    fn is_all_elements(&self, expression: ExpressionId) -> bool {
        let ExpressionForm::Call(callee, arguments) = self.flow.form(expression) else { return false };
        matches!(self.flow.form(*callee), ExpressionForm::Global(b"unpack"))
            && arguments.first().is_some_and(|table| self.flow.kind(*table) == HeldValue::Keys)
    }
}

fn is_constant(name: &[u8]) -> bool {
    name.starts_with(b"LOG_") || name.starts_with(b"REPL_")
}
