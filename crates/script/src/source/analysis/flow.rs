//! Where keys flow: through variables that are set once, and through the arguments of functions that are only called by
//! their names.

use std::collections::HashMap;

use super::syntax::{ExpressionForm, ExpressionId, FunctionId, MAIN, Origin, Syntax, VariableId};

/// How often the variables are visited until nothing changes. Longer chains of functions are not followed.
const PASS_COUNT_MAX: usize = 64;

/// What a variable or an expression holds, whenever it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldValue {
    /// Nothing yet: no call has been seen.
    Unset,
    /// The table of the declared keys, or nil.
    Keys,
    /// A declared key, or nil.
    Key,
    /// Anything.
    Other,
}

impl HeldValue {
    /// What holds one or the other.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unset, known) | (known, Self::Unset) => known,
            (one, other) if one == other => one,
            _ => Self::Other,
        }
    }
}

/// How a function is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    /// As a value: anything may call it, perhaps in a later run.
    pub(super) is_value: bool,
    /// As a function that a library registers.
    pub(super) is_registered: bool,
    /// The calls by its name.
    calls: Vec<ExpressionId>,
}

/// See the module documentation.
pub(super) struct Flow<'s, 'a> {
    pub(super) syntax: &'s Syntax<'a>,
    pub(super) is_library: bool,
    /// How each function is used.
    pub(super) uses: Vec<Uses>,
    /// The functions that variables always hold.
    named: HashMap<VariableId, FunctionId>,
    parameters: HashMap<(FunctionId, usize), VariableId>,
    kinds: Vec<HeldValue>,
}

impl<'s, 'a> Flow<'s, 'a> {
    /// `registered`: of a library, the expressions that it registers as functions. `None`: there is too much to follow.
    pub(super) fn new(syntax: &'s Syntax<'a>, registered: Option<&[ExpressionId]>) -> Option<Self> {
        let mut flow = Self {
            syntax,
            is_library: registered.is_some(),
            uses: vec![Uses::default(); syntax.functions.len()],
            named: HashMap::new(),
            parameters: HashMap::new(),
            kinds: vec![HeldValue::Unset; syntax.variables.len()],
        };
        flow.find_names();
        flow.find_uses(registered.unwrap_or_default());
        for _ in 0..PASS_COUNT_MAX {
            let mut is_settled = true;
            for variable in 0..flow.kinds.len() {
                let kind = flow.kinds[variable].or(flow.kind_of_origin(variable));
                is_settled &= kind == flow.kinds[variable];
                flow.kinds[variable] = kind;
            }
            if is_settled {
                return Some(flow);
            }
        }
        None
    }

    pub(super) fn form(&self, expression: ExpressionId) -> &'s ExpressionForm<'a> {
        &self.syntax.expressions[expression].form
    }

    /// The expression that a variable always holds the value of.
    pub(super) fn value_of(&self, variable: VariableId) -> Option<ExpressionId> {
        match self.syntax.variables[variable] {
            super::syntax::Variable { origin: Origin::Value(value), is_assigned: false, .. } => Some(value),
            _ => None,
        }
    }

    /// The function that a variable always holds.
    pub(super) fn function_of(&self, variable: VariableId) -> Option<FunctionId> {
        self.named.get(&variable).copied()
    }

    /// The parameter of a function at this place.
    pub(super) fn parameter(&self, function: FunctionId, place: usize) -> Option<VariableId> {
        self.parameters.get(&(function, place)).copied()
    }

    /// The function that a call by name calls.
    pub(super) fn called(&self, callee: ExpressionId) -> Option<FunctionId> {
        match self.form(callee) {
            ExpressionForm::Local(variable) => self.function_of(*variable),
            _ => None,
        }
    }

    pub(super) fn kind_of_variable(&self, variable: VariableId) -> HeldValue {
        self.kinds[variable]
    }

    pub(super) fn kind(&self, expression: ExpressionId) -> HeldValue {
        match self.form(expression) {
            ExpressionForm::Local(variable) => self.kinds[*variable],
            ExpressionForm::Global(b"KEYS") if !self.is_library => HeldValue::Keys,
            ExpressionForm::Index(table, _) if !matches!(self.form(*table), ExpressionForm::Index(..)) => {
                match self.kind(*table) {
                    HeldValue::Keys => HeldValue::Key,
                    HeldValue::Unset => HeldValue::Unset,
                    HeldValue::Key | HeldValue::Other => HeldValue::Other,
                }
            }
            _ => HeldValue::Other,
        }
    }

    fn find_names(&mut self) {
        for (variable, declared) in self.syntax.variables.iter().enumerate() {
            if let Origin::Parameter(function, place) = declared.origin {
                self.parameters.insert((function, place), variable);
            }
            if let Some(value) = self.value_of(variable)
                && let ExpressionForm::Function(function) = *self.form(value)
            {
                self.named.insert(variable, function);
            }
        }
    }

    fn find_uses(&mut self, registered: &[ExpressionId]) {
        let count = self.syntax.expressions.len();
        // The places where a function is named, called or registered, so that it is no value.
        let mut is_place = vec![false; count];
        for value in self.named.keys().filter_map(|variable| self.value_of(*variable)) {
            is_place[value] = true;
        }
        for expression in 0..count {
            if let ExpressionForm::Call(callee, _) = self.form(expression)
                && let Some(function) = self.called(*callee)
            {
                self.uses[function].calls.push(expression);
                is_place[*callee] = true;
            }
        }
        for expression in registered {
            if let Some(function) = self.function_at(*expression) {
                self.uses[function].is_registered = true;
                is_place[*expression] = true;
            }
        }
        for expression in (0..count).filter(|expression| !is_place[*expression]) {
            if let Some(function) = self.function_at(expression) {
                self.uses[function].is_value = true;
            }
        }
    }

    /// The function that an expression is or names.
    pub(super) fn function_at(&self, expression: ExpressionId) -> Option<FunctionId> {
        match *self.form(expression) {
            ExpressionForm::Function(function) => Some(function),
            ExpressionForm::Local(variable) => self.function_of(variable),
            _ => None,
        }
    }

    fn kind_of_origin(&self, variable: VariableId) -> HeldValue {
        let declared = self.syntax.variables[variable];
        match declared.origin {
            _ if declared.is_assigned => HeldValue::Other,
            Origin::Value(value) => self.kind(value),
            Origin::Iterated(iterator) => self.kind_of_elements(iterator),
            Origin::Parameter(function, place) => self.kind_of_parameter(function, place),
            Origin::Other => HeldValue::Other,
        }
    }

    /// `ipairs(KEYS)` or `pairs(KEYS)`
    fn kind_of_elements(&self, iterator: ExpressionId) -> HeldValue {
        let ExpressionForm::Call(callee, arguments) = self.form(iterator) else { return HeldValue::Other };
        match (self.form(*callee), &arguments[..]) {
            (ExpressionForm::Global(b"ipairs" | b"pairs"), [table]) => match self.kind(*table) {
                HeldValue::Keys => HeldValue::Key,
                HeldValue::Unset => HeldValue::Unset,
                HeldValue::Key | HeldValue::Other => HeldValue::Other,
            },
            _ => HeldValue::Other,
        }
    }

    fn kind_of_parameter(&self, function: FunctionId, place: usize) -> HeldValue {
        let uses = &self.uses[function];
        if uses.is_value {
            return HeldValue::Other;
        }
        let registered = match (uses.is_registered, place) {
            (false, _) => HeldValue::Unset,
            (true, 0) => HeldValue::Keys,
            (true, _) => HeldValue::Other,
        };
        uses.calls.iter().fold(registered, |kind, call| kind.or(self.kind_of_argument(*call, place)))
    }

    fn kind_of_argument(&self, call: ExpressionId, place: usize) -> HeldValue {
        let ExpressionForm::Call(_, arguments) = self.form(call) else { return HeldValue::Other };
        match (arguments.get(place), arguments.last()) {
            (Some(argument), _) => self.kind(*argument),
            (None, Some(last)) if self.is_several(*last) => HeldValue::Other,
            // It is nil.
            (None, _) => HeldValue::Unset,
        }
    }

    /// Whether an expression, as the last one of a list, may have other than one value.
    pub(super) fn is_several(&self, expression: ExpressionId) -> bool {
        matches!(
            self.form(expression),
            ExpressionForm::Call(..) | ExpressionForm::Method(_) | ExpressionForm::Varargs
        )
    }

    /// Whether a name is used in a function that may run later than the call that its variable belongs to, or in a later run.
    pub(super) fn is_kept(&self, variable: VariableId, mut user: FunctionId) -> bool {
        let owner = self.syntax.variables[variable].function;
        if owner == MAIN {
            return false;
        }
        while user != owner && user != MAIN {
            if self.uses[user].is_value || self.uses[user].is_registered {
                return true;
            }
            user = self.syntax.functions[user].parent;
        }
        false
    }
}
