//! Parses directives: module scope, variables and function headers.

use super::ast::{Function, Linkage, Literal, Location, Module, Space, Span, Target, Variable};
use super::error::Error;
use super::lexer::{Kind, Lexer, Token};

/// The largest nesting depth of braces, brackets and parentheses.
const MAX_DEPTH: u32 = 16;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    ahead: Option<Token<'a>>,
    /// The end of the token that `next` returned last, in bytes.
    end: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            lexer: Lexer::new(text),
            ahead: None,
            end: 0,
        }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, Error> {
        let token = match self.ahead.take() {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        self.end = token.end;
        Ok(token)
    }

    pub(super) fn peek(&mut self) -> Result<Token<'a>, Error> {
        let token = match self.ahead {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        self.ahead = Some(token);
        Ok(token)
    }

    /// The span from `start` to the end of the last token.
    pub(super) fn span_from(&self, start: usize) -> Span {
        Span {
            start,
            end: self.end,
        }
    }

    pub(super) fn error(token: Token<'a>, message: String) -> Error {
        Error {
            line: token.line,
            column: token.column,
            message,
        }
    }

    pub(super) fn unexpected<T>(token: Token<'a>) -> Result<T, Error> {
        let message = match token.kind {
            Kind::End => String::from("Parsing error near end of input: syntax error"),
            Kind::Dot => format!("Parsing error near '.{}': syntax error", token.text),
            _ => format!("Parsing error near '{}': syntax error", token.text),
        };
        Err(Self::error(token, message))
    }

    pub(super) fn check_depth(token: Token<'a>, depth: u32) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Self::error(token, String::from("Nesting is too deep")));
        }
        Ok(())
    }

    pub(super) fn accept(&mut self, punct: u8) -> Result<bool, Error> {
        if self.peek()?.kind == Kind::Punct(punct) {
            self.next()?;
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn expect(&mut self, punct: u8) -> Result<(), Error> {
        let token = self.next()?;
        if token.kind == Kind::Punct(punct) {
            return Ok(());
        }
        Self::unexpected(token)
    }

    pub(super) fn name(&mut self) -> Result<Token<'a>, Error> {
        let token = self.next()?;
        if token.kind == Kind::Name {
            return Ok(token);
        }
        Self::unexpected(token)
    }

    pub(super) fn int(&mut self) -> Result<u64, Error> {
        let token = self.next()?;
        match token.kind {
            Kind::Number(Literal::Int(value)) => Ok(value),
            _ => Self::unexpected(token),
        }
    }

    pub(super) fn signed_int(&mut self) -> Result<i64, Error> {
        if self.accept(b'-')? {
            return Ok((self.int()? as i64).wrapping_neg());
        }
        Ok(self.int()? as i64)
    }

    fn ints(&mut self) -> Result<Vec<u64>, Error> {
        let mut values = Vec::new();
        while matches!(self.peek()?.kind, Kind::Number(_)) {
            values.push(self.int()?);
            if !self.accept(b',')? {
                break;
            }
        }
        Ok(values)
    }

    pub(super) fn module(mut self) -> Result<Module<'a>, Error> {
        let mut module = Module {
            address_size: 64,
            ..Module::default()
        };
        let mut linkage = Linkage::Internal;
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::End => break,
                Kind::Punct(b';') => continue,
                Kind::Dot => {}
                _ => return Self::unexpected(token),
            }
            if module.version == (0, 0) && token.text != "version" {
                let message = String::from("Missing .version directive at start of file");
                return Err(Self::error(token, message));
            }
            match token.text {
                "version" => module.version = self.version(token)?,
                "target" => module.target = self.target()?,
                "address_size" => module.address_size = self.int()? as u32,
                "file" => {
                    let number = self.int()? as u32;
                    let file = self.next()?;
                    if file.kind != Kind::Str {
                        return Self::unexpected(file);
                    }
                    module.files.push((number, file.text));
                    while self.accept(b',')? {
                        self.int()?;
                    }
                }
                "section" => self.skip_section()?,
                "loc" => {
                    self.loc()?;
                }
                "pragma" => self.skip_to_semicolon()?,
                "visible" => linkage = Linkage::Visible,
                "weak" => linkage = Linkage::Weak,
                "extern" => linkage = Linkage::Extern,
                "common" => linkage = Linkage::Common,
                "entry" | "func" => {
                    let entry = token.text == "entry";
                    let function = self.function(entry, linkage)?;
                    module.functions.push(function);
                    linkage = Linkage::Internal;
                }
                "alias" => {
                    let message = String::from("Directive '.alias' is not supported");
                    return Err(Self::error(token, message));
                }
                "global" | "const" | "shared" | "local" | "tex" => {
                    let space = match token.text {
                        "global" | "tex" => Space::Global,
                        "const" => Space::Const,
                        "shared" => Space::Shared,
                        _ => Space::Local,
                    };
                    loop {
                        let variable = self.variable(space, linkage)?;
                        module.variables.push(variable);
                        if !self.accept(b',')? {
                            break;
                        }
                    }
                    self.expect(b';')?;
                    linkage = Linkage::Internal;
                }
                _ => return Self::unexpected(token),
            }
        }
        if module.version == (0, 0) {
            return Err(Error {
                line: 1,
                column: 1,
                message: String::from("Missing .version directive at start of file"),
            });
        }
        Ok(module)
    }

    fn version(&mut self, directive: Token<'a>) -> Result<(u32, u32), Error> {
        let token = self.next()?;
        let mut parts = token.text.split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), None) if major > 0 => Ok((major, minor)),
            _ => Err(Self::error(
                directive,
                String::from("Bad .version directive"),
            )),
        }
    }

    fn target(&mut self) -> Result<Target<'a>, Error> {
        let mut target = Target::default();
        loop {
            let token = self.name()?;
            if let Some(rest) = token.text.strip_prefix("sm_") {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let (number, suffix) = rest.split_at(digits);
                let Ok(sm) = number.parse() else {
                    return Self::unexpected(token);
                };
                target.sm = sm;
                target.suffix = suffix;
            } else {
                target.options.push(token.text);
            }
            if !self.accept(b',')? {
                return Ok(target);
            }
        }
    }

    fn skip_section(&mut self) -> Result<(), Error> {
        while self.peek()?.kind != Kind::Punct(b'{') {
            let token = self.next()?;
            if token.kind == Kind::End {
                return Self::unexpected(token);
            }
        }
        self.ahead = None;
        let mut depth = 1;
        while depth > 0 {
            let token = self.next()?;
            match token.kind {
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') => depth -= 1,
                Kind::End => return Self::unexpected(token),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn skip_to_semicolon(&mut self) -> Result<(), Error> {
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::Punct(b';') => return Ok(()),
                Kind::End => return Self::unexpected(token),
                _ => {}
            }
        }
    }

    /// `.loc file line column[, function_name label[+n]][, inlined_at file line column]`
    pub(super) fn loc(&mut self) -> Result<(Location, Option<Location>), Error> {
        let at = self.location()?;
        let mut inlined_at = None;
        while self.accept(b',')? {
            let word = self.name()?;
            if word.text == "inlined_at" {
                inlined_at = Some(self.location()?);
            } else {
                self.name()?;
                if self.accept(b'+')? {
                    self.int()?;
                }
            }
        }
        Ok((at, inlined_at))
    }

    fn location(&mut self) -> Result<Location, Error> {
        Ok(Location {
            file: self.int()? as u32,
            line: self.int()? as u32,
            column: self.int()? as u32,
        })
    }

    fn function(&mut self, entry: bool, linkage: Linkage) -> Result<Function<'a>, Error> {
        let mut returns = Vec::new();
        if !entry && self.accept(b'(')? {
            returns = self.parameters(linkage)?;
        }
        let name = self.name()?;
        let mut params = Vec::new();
        let mut params_span = None;
        let open = self.peek()?.start;
        if self.accept(b'(')? {
            params = self.parameters(linkage)?;
            params_span = Some(self.span_from(open));
        }
        let mut directives = Vec::new();
        let mut body_span = None;
        let body = loop {
            let token = self.next()?;
            match token.kind {
                Kind::Punct(b'{') => {
                    let body = self.body()?;
                    body_span = Some(self.span_from(token.start));
                    break Some(body);
                }
                Kind::Punct(b';') => break None,
                Kind::Dot if token.text == "pragma" => self.skip_to_semicolon()?,
                Kind::Dot if token.text == "loc" => {
                    self.loc()?;
                }
                Kind::Dot => {
                    let known = matches!(
                        token.text,
                        "maxntid"
                            | "reqntid"
                            | "minnctapersm"
                            | "maxnctapersm"
                            | "maxnreg"
                            | "noreturn"
                            | "reqnctapercluster"
                            | "explicitcluster"
                            | "maxclusterrank"
                            | "blocksareclusters"
                            | "unified"
                            | "abi_preserve"
                            | "abi_preserve_control"
                    );
                    if !known {
                        return Self::unexpected(token);
                    }
                    directives.push((token.text, self.ints()?));
                }
                _ => return Self::unexpected(token),
            }
        };
        Ok(Function {
            name: name.text,
            entry,
            linkage,
            returns,
            params,
            directives,
            body,
            line: name.line,
            params_span,
            body_span,
        })
    }

    /// Parses a parameter list after its opening parenthesis.
    pub(super) fn parameters(&mut self, linkage: Linkage) -> Result<Vec<Variable<'a>>, Error> {
        let mut list = Vec::new();
        if self.accept(b')')? {
            return Ok(list);
        }
        loop {
            let token = self.next()?;
            let space = match (token.kind, token.text) {
                (Kind::Dot, "param") => Space::Param,
                (Kind::Dot, "reg") => Space::Reg,
                _ => return Self::unexpected(token),
            };
            list.push(self.variable(space, linkage)?);
            if !self.accept(b',')? {
                self.expect(b')')?;
                return Ok(list);
            }
        }
    }

    /// Parses a declaration, from after its state space to the end of its initial value.
    pub(super) fn variable(
        &mut self,
        space: Space,
        linkage: Linkage,
    ) -> Result<Variable<'a>, Error> {
        let mut variable = Variable {
            name: "",
            space,
            linkage,
            ty: "",
            vector: 1,
            count: Some(1),
            align: None,
            target_align: None,
            array: false,
            managed: false,
            constant: false,
            init: Vec::new(),
            line: 0,
        };
        let name = loop {
            let token = self.next()?;
            match (token.kind, token.text) {
                (Kind::Name, _) => break token,
                (Kind::Dot, "align") => {
                    let align = self.int()?;
                    // In `.ptr .align 4` the alignment is that of the pointer's target.
                    if !variable.ty.is_empty() {
                        variable.target_align = Some(align);
                    } else if variable.align.is_none() {
                        if !align.is_power_of_two() || align > 1 << 20 {
                            let message = format!("Bad alignment {align}");
                            return Err(Self::error(token, message));
                        }
                        variable.align = Some(align);
                    }
                }
                (Kind::Dot, "ptr") => {}
                (Kind::Dot, "global" | "const" | "shared" | "local" | "param" | "generic")
                    if !variable.ty.is_empty() => {}
                (Kind::Dot, "attribute") => {
                    self.expect(b'(')?;
                    while !self.accept(b')')? {
                        let token = self.next()?;
                        if token.kind == Kind::End {
                            return Self::unexpected(token);
                        }
                        variable.managed |= (token.kind, token.text) == (Kind::Dot, "managed");
                    }
                }
                (Kind::Dot, "v2") => variable.vector = 2,
                (Kind::Dot, "v4") => variable.vector = 4,
                (Kind::Dot, "v8") => variable.vector = 8,
                (Kind::Dot, ty) if variable.ty.is_empty() => variable.ty = ty,
                // A prototype may leave its parameters without a name.
                (Kind::Punct(b',' | b')'), _) if !variable.ty.is_empty() => {
                    self.ahead = Some(token);
                    break Token { text: "_", ..token };
                }
                _ => return Self::unexpected(token),
            }
        };
        variable.name = name.text;
        variable.line = name.line;
        let mut dims = Vec::new();
        // The product of the given dimensions.
        let mut total = 1u64;
        while self.accept(b'[')? {
            variable.array = true;
            if self.accept(b']')? {
                if !dims.is_empty() {
                    let message = "Only the first dimension may be left out";
                    return Err(Self::error(name, String::from(message)));
                }
                variable.count = None;
                dims.push(0);
                continue;
            }
            let dim = self.int()?;
            self.expect(b']')?;
            dims.push(dim);
            total = match total.checked_mul(dim) {
                Some(total) if total < 1 << 40 => total,
                _ => return Err(Self::error(name, String::from("Array is too large"))),
            };
        }
        variable.count = variable.count.map(|_| total);
        if self.accept(b'=')? {
            let vector = u64::from(variable.vector);
            if vector > 1 {
                dims.push(vector);
            }
            self.initializer(&mut variable, &dims, 0)?;
            if variable.count.is_none() {
                let rows = (variable.init.len() as u64).div_ceil((total * vector).max(1));
                variable.count = Some(rows * total);
            }
        }
        Ok(variable)
    }

    /// Parses an optional offset: `+8`, `-8` or `+-8`.
    pub(super) fn offset(&mut self) -> Result<i64, Error> {
        if self.accept(b'+')? {
            return self.signed_int();
        }
        if self.accept(b'-')? {
            return Ok((self.int()? as i64).wrapping_neg());
        }
        Ok(0)
    }
}
