//! The syntax of Lua 5.1, as far as a proof needs it: which variable each name is, what each variable is set to, and what
//! is called with which arguments.
//!
//! Expressions are a flat list, so neither the parser nor its readers recurse deeper than [`DEPTH_MAX`]. Operators are
//! [`ExpressionForm::Other`]: their operands are in the list. Programs that Lua refuses may be accepted: they never run.

use std::collections::HashMap;

use super::tokens::Token;

/// How deep blocks and expressions may nest. Lua nests 200 levels.
const DEPTH_MAX: usize = 200;

/// The index of an expression.
pub(super) type ExpressionId = usize;
/// The index of a local variable.
pub(super) type VariableId = usize;
/// The index of a function.
pub(super) type FunctionId = usize;

/// The function that is the whole text.
pub(super) const MAIN: FunctionId = 0;

const KEYWORDS: [&[u8]; 21] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

/// What an expression is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpressionForm<'a> {
    /// A string in quotes without escapes, or the name of a field.
    Text(&'a [u8]),
    /// `...`
    Varargs,
    Local(VariableId),
    Global(&'a [u8]),
    /// `table[key]` or `table.key`
    Index(ExpressionId, ExpressionId),
    Call(ExpressionId, Vec<ExpressionId>),
    /// A call of a method. The name is of no interest.
    Method(ExpressionId),
    Function(FunctionId),
    /// `#operand`
    Length(ExpressionId),
    /// A constructor: keys, as far as they are given, and values.
    Table(Vec<(Option<ExpressionId>, ExpressionId)>),
    /// Any other one.
    Other,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression<'a> {
    pub(super) form: ExpressionForm<'a>,
    /// The function that it belongs to.
    pub(super) function: FunctionId,
    /// Whether it is assigned to.
    pub(super) is_target: bool,
}

/// What a variable is declared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The first value of an expression.
    Value(ExpressionId),
    /// The second value of an iterator, which is the only expression of its loop.
    Iterated(ExpressionId),
    /// A parameter, by its place.
    Parameter(FunctionId, usize),
    /// Anything else.
    Other,
}

/// A local variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) origin: Origin,
    /// Whether it is assigned to after its declaration.
    pub(super) is_assigned: bool,
    /// The function that declares it.
    pub(super) function: FunctionId,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// The function that it is in.
    pub(super) parent: FunctionId,
    pub(super) parameter_count: usize,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Syntax<'a> {
    pub(super) expressions: Vec<Expression<'a>>,
    pub(super) variables: Vec<Variable>,
    pub(super) functions: Vec<Function>,
    /// Whether a global variable is assigned to.
    pub(super) assigns_globals: bool,
}

/// Parses a text. `None`: it is not Lua, or nests too deep.
pub(super) fn parse<'a>(tokens: &'a [Token<'a>]) -> Option<Syntax<'a>> {
    let mut parser = Parser { tokens, ..Parser::default() };
    parser.syntax.functions.push(Function { parent: MAIN, parameter_count: 0 });
    parser.block()?;
    (parser.at == tokens.len()).then_some(parser.syntax)
}

#[derive(Default)]
struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    depth: usize,
    /// The function whose text is parsed.
    function: FunctionId,
    /// The variables in scope by name, inner ones last.
    named: HashMap<&'a [u8], Vec<VariableId>>,
    /// Their names, in the order of declaration.
    scope: Vec<&'a [u8]>,
    syntax: Syntax<'a>,
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn is(&self, word: &str) -> bool {
        match self.token() {
            Token::Name(text) | Token::Symbol(text) => text == word.as_bytes(),
            _ => false,
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let is_there = self.is(word);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, word: &str) -> Option<()> {
        self.take(word).then_some(())
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        match self.token() {
            Token::Name(name) if !KEYWORDS.contains(&name) => {
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    fn names(&mut self) -> Option<Vec<&'a [u8]>> {
        let mut names = vec![self.name()?];
        while self.take(",") {
            names.push(self.name()?);
        }
        Some(names)
    }

    fn add(&mut self, form: ExpressionForm<'a>) -> ExpressionId {
        self.syntax.expressions.push(Expression { form, function: self.function, is_target: false });
        self.syntax.expressions.len() - 1
    }

    fn declare(&mut self, name: &'a [u8], origin: Origin) {
        let variable = Variable { origin, is_assigned: false, function: self.function };
        self.syntax.variables.push(variable);
        self.named.entry(name).or_default().push(self.syntax.variables.len() - 1);
        self.scope.push(name);
    }

    /// Ends the scope of the variables that were declared since there were so many.
    fn leave(&mut self, count: usize) {
        for name in self.scope.drain(count..) {
            self.named.entry(name).or_default().pop();
        }
    }

    fn variable(&mut self, name: &'a [u8]) -> ExpressionId {
        let local = self.named.get(name).and_then(|variables| variables.last()).copied();
        self.add(local.map_or(ExpressionForm::Global(name), ExpressionForm::Local))
    }

    fn deeper<R>(&mut self, parse: impl FnOnce(&mut Self) -> Option<R>) -> Option<R> {
        self.depth += 1;
        let parsed = if self.depth <= DEPTH_MAX { parse(self) } else { None };
        self.depth -= 1;
        parsed
    }

    /// A block, whose variables are in scope until its end.
    fn block(&mut self) -> Option<()> {
        let before = self.scope.len();
        self.statements()?;
        self.leave(before);
        Some(())
    }

    fn statements(&mut self) -> Option<()> {
        self.deeper(|parser| {
            let ends = ["end", "else", "elseif", "until"];
            while parser.token() != Token::End && !ends.iter().any(|end| parser.is(end)) {
                parser.statement()?;
                parser.take(";");
            }
            Some(())
        })
    }

    fn statement(&mut self) -> Option<()> {
        let word = match self.token() {
            Token::Name(word) if KEYWORDS.contains(&word) => word,
            _ => return self.assignment_or_call(),
        };
        self.at += 1;
        match word {
            b"if" => self.conditional(),
            b"while" => {
                self.expression()?;
                self.expect("do")?;
                self.block()?;
                self.expect("end")
            }
            b"do" => {
                self.block()?;
                self.expect("end")
            }
            b"repeat" => {
                let before = self.scope.len();
                self.statements()?;
                self.expect("until")?;
                // The condition is in the scope of the block.
                self.expression()?;
                self.leave(before);
                Some(())
            }
            b"for" => self.repetition(),
            b"function" => self.named_function(),
            b"local" if self.take("function") => {
                let name = self.name()?;
                self.declare(name, Origin::Other);
                let variable = self.syntax.variables.len() - 1;
                let function = self.function(false)?;
                self.syntax.variables[variable].origin = Origin::Value(function);
                Some(())
            }
            b"local" => {
                let names = self.names()?;
                let values = if self.take("=") { self.expressions()? } else { Vec::new() };
                for (index, name) in names.into_iter().enumerate() {
                    self.declare(
                        name,
                        values.get(index).map_or(Origin::Other, |value| Origin::Value(*value)),
                    );
                }
                Some(())
            }
            b"return" => {
                let ends = ["end", "else", "elseif", "until", ";"];
                if self.token() != Token::End && !ends.iter().any(|end| self.is(end)) {
                    self.expressions()?;
                }
                Some(())
            }
            b"break" => Some(()),
            _ => None,
        }
    }

    fn conditional(&mut self) -> Option<()> {
        loop {
            self.expression()?;
            self.expect("then")?;
            self.block()?;
            if self.take("elseif") {
                continue;
            }
            if self.take("else") {
                self.block()?;
            }
            return self.expect("end");
        }
    }

    fn repetition(&mut self) -> Option<()> {
        let names = self.names()?;
        let is_generic = !self.take("=");
        if is_generic {
            self.expect("in")?;
        }
        let values = self.expressions()?;
        self.expect("do")?;
        let before = self.scope.len();
        for (index, name) in names.into_iter().enumerate() {
            let iterated = is_generic && index == 1 && values.len() == 1;
            self.declare(name, if iterated { Origin::Iterated(values[0]) } else { Origin::Other });
        }
        self.block()?;
        self.leave(before);
        self.expect("end")
    }

    /// `function a.b:c() ... end`: assigns a function.
    fn named_function(&mut self) -> Option<()> {
        let name = self.name()?;
        let mut target = self.variable(name);
        let mut is_method = false;
        while !is_method && (self.is(".") || self.is(":")) {
            is_method = self.is(":");
            self.at += 1;
            let field = self.name()?;
            let key = self.add(ExpressionForm::Text(field));
            target = self.add(ExpressionForm::Index(target, key));
        }
        self.assign(target);
        self.function(is_method).map(drop)
    }

    fn assignment_or_call(&mut self) -> Option<()> {
        let mut targets = vec![self.suffixed()?];
        while self.take(",") {
            targets.push(self.suffixed()?);
        }
        if self.take("=") {
            targets.into_iter().for_each(|target| self.assign(target));
            self.expressions()?;
        }
        Some(())
    }

    fn assign(&mut self, target: ExpressionId) {
        self.syntax.expressions[target].is_target = true;
        match self.syntax.expressions[target].form {
            ExpressionForm::Local(variable) => self.syntax.variables[variable].is_assigned = true,
            ExpressionForm::Global(_) => self.syntax.assigns_globals = true,
            _ => {}
        }
    }

    /// The parameters and the body of a function.
    fn function(&mut self, is_method: bool) -> Option<ExpressionId> {
        let id = self.syntax.functions.len();
        let expression = self.add(ExpressionForm::Function(id));
        self.syntax.functions.push(Function { parent: self.function, parameter_count: 0 });
        let (outer, before) = (std::mem::replace(&mut self.function, id), self.scope.len());
        if is_method {
            self.declare(b"self", Origin::Other);
        }
        self.expect("(")?;
        let mut place = usize::from(is_method);
        while !self.is(")") {
            if self.take("...") {
                // Lua 5.1 declares it.
                self.declare(b"arg", Origin::Other);
                break;
            }
            let name = self.name()?;
            self.declare(name, Origin::Parameter(id, place));
            place += 1;
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        self.syntax.functions[id].parameter_count = place;
        self.block()?;
        self.expect("end")?;
        self.leave(before);
        self.function = outer;
        Some(expression)
    }

    fn expressions(&mut self) -> Option<Vec<ExpressionId>> {
        let mut list = vec![self.expression()?];
        while self.take(",") {
            list.push(self.expression()?);
        }
        Some(list)
    }

    /// Operands with operators between them. Which operator binds first is of no interest.
    fn expression(&mut self) -> Option<ExpressionId> {
        self.deeper(|parser| {
            let first = parser.operand()?;
            let mut count = 1;
            while parser.take_operator() {
                parser.operand()?;
                count += 1;
            }
            Some(if count == 1 { first } else { parser.add(ExpressionForm::Other) })
        })
    }

    fn take_operator(&mut self) -> bool {
        const OPERATORS: [&str; 15] =
            ["+", "-", "*", "/", "^", "%", "..", "<", "<=", ">", ">=", "==", "~=", "and", "or"];
        OPERATORS.iter().any(|operator| self.take(operator))
    }

    fn operand(&mut self) -> Option<ExpressionId> {
        let (mut has_operator, mut is_length) = (false, false);
        loop {
            is_length = if self.take("#") {
                true
            } else if self.take("-") || self.take("not") {
                false
            } else {
                break;
            };
            has_operator = true;
        }
        let operand = self.simple()?;
        Some(match (has_operator, is_length) {
            (false, _) => operand,
            (true, true) => self.add(ExpressionForm::Length(operand)),
            (true, false) => self.add(ExpressionForm::Other),
        })
    }

    fn simple(&mut self) -> Option<ExpressionId> {
        let form = match self.token() {
            Token::Text(text) => ExpressionForm::Text(text),
            Token::Constant | Token::Name(b"nil" | b"true" | b"false") => ExpressionForm::Other,
            Token::Symbol(b"...") => ExpressionForm::Varargs,
            Token::Symbol(b"{") => return self.table(),
            Token::Name(b"function") => {
                self.at += 1;
                return self.deeper(|parser| parser.function(false));
            }
            _ => return self.suffixed(),
        };
        self.at += 1;
        Some(self.add(form))
    }

    /// A variable or an expression in brackets, with what follows: fields and calls.
    fn suffixed(&mut self) -> Option<ExpressionId> {
        let mut expression = if self.take("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            // Brackets leave one value of several.
            match self.syntax.expressions[inner].form {
                ExpressionForm::Call(..) | ExpressionForm::Method(_) | ExpressionForm::Varargs => {
                    self.add(ExpressionForm::Other)
                }
                _ => inner,
            }
        } else {
            let name = self.name()?;
            self.variable(name)
        };
        loop {
            let form = if self.take(".") {
                let field = self.name()?;
                ExpressionForm::Index(expression, self.add(ExpressionForm::Text(field)))
            } else if self.take("[") {
                let key = self.expression()?;
                self.expect("]")?;
                ExpressionForm::Index(expression, key)
            } else if self.take(":") {
                self.name()?;
                self.arguments()??;
                ExpressionForm::Method(expression)
            } else if let Some(arguments) = self.arguments()? {
                ExpressionForm::Call(expression, arguments)
            } else {
                return Some(expression);
            };
            expression = self.add(form);
        }
    }

    /// The arguments of a call. `Some(None)`: there is no call.
    #[expect(clippy::option_option, reason = "no call, or one that is not Lua")]
    fn arguments(&mut self) -> Option<Option<Vec<ExpressionId>>> {
        match self.token() {
            Token::Text(_) | Token::Constant | Token::Symbol(b"{") => {
                let argument = self.simple()?;
                Some(Some(vec![argument]))
            }
            Token::Symbol(b"(") => {
                self.at += 1;
                let arguments = if self.is(")") { Vec::new() } else { self.expressions()? };
                self.expect(")")?;
                Some(Some(arguments))
            }
            _ => Some(None),
        }
    }

    fn table(&mut self) -> Option<ExpressionId> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.is("}") {
            let key = if self.take("[") {
                let key = self.expression()?;
                self.expect("]")?;
                self.expect("=")?;
                Some(key)
            } else if self.tokens.get(self.at + 1) == Some(&Token::Symbol(b"=")) {
                let name = self.name()?;
                self.at += 1;
                Some(self.add(ExpressionForm::Text(name)))
            } else {
                None
            };
            fields.push((key, self.expression()?));
            if !self.take(",") && !self.take(";") {
                break;
            }
        }
        self.expect("}")?;
        Some(self.add(ExpressionForm::Table(fields)))
    }
}
