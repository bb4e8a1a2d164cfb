//! Parses function bodies: statements, instructions and operands.

use super::ast::{Base, Instruction, Linkage, Literal, Operand, Predicate, Space, Span, Statement};
use super::error::Error;
use super::lexer::{Kind, Token};
use super::parser::Parser;

/// The deepest nesting of blocks. What a name refers to is looked for in each block around it.
const MAX_NESTING: u32 = 1000;

/// Returns a 32-bit number in decimal or hexadecimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The mask of a `used_bytes_mask` pragma.
fn mask_of(pragma: &str) -> Option<u32> {
    number(pragma.trim().strip_prefix("used_bytes_mask ")?.trim())
}

/// Adds an instruction to a body. If it is a load, it takes the mask of the pragma before it.
fn push<'a>(
    body: &mut Vec<Statement<'a>>,
    mut instruction: Instruction<'a>,
    mask: Option<(usize, u32)>,
) {
    if let Some((start, mask)) = mask
        && instruction.opcode == "ld"
    {
        body.pop();
        instruction.used_bytes = Some(mask);
        // What is inserted before the instruction must not separate it from its pragma.
        instruction.span.start = start;
    }
    body.push(Statement::Instruction(instruction));
}

/// The directives whose names no instruction has as a modifier. `.weak` is both.
const DIRECTIVES: [&str; 29] = [
    "abi_preserve",
    "abi_preserve_control",
    "address_size",
    "align",
    "attribute",
    "blocksareclusters",
    "branchtargets",
    "callprototype",
    "calltargets",
    "common",
    "entry",
    "explicitcluster",
    "extern",
    "file",
    "func",
    "loc",
    "managed",
    "maxclusterrank",
    "maxnctapersm",
    "maxnreg",
    "maxntid",
    "minnctapersm",
    "noreturn",
    "pragma",
    "reg",
    "reqnctapercluster",
    "reqntid",
    "section",
    "visible",
];

impl<'a> Parser<'a> {
    /// Parses a body, from after its opening brace to its closing brace.
    pub(super) fn body(&mut self) -> Result<Vec<Statement<'a>>, Error> {
        let mut body = Vec::new();
        let mut depth = 1;
        // The start of the pragma before the current token, and its mask if it is
        // `used_bytes_mask`.
        let mut mask = None;
        loop {
            let token = self.next()?;
            let used = mask.take();
            match token.kind {
                Kind::Dot if token.text == "pragma" => {
                    let mut texts = Vec::new();
                    self.pragmas(&mut texts)?;
                    if let [text] = texts[..] {
                        mask = mask_of(text).map(|mask| (token.start, mask));
                    }
                    body.extend(texts.into_iter().map(Statement::Pragma));
                }
                Kind::Punct(b'}') => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(body);
                    }
                    body.push(Statement::Close);
                }
                Kind::Punct(b'{') => {
                    depth += 1;
                    if depth > MAX_NESTING {
                        let message = format!(
                            "blocks are nested {depth} deep; the limit is {MAX_NESTING}: close \
                             blocks whose names are not used any more"
                        );
                        return Err(Self::error(token, message));
                    }
                    body.push(Statement::Open);
                }
                Kind::Dot => self.directive(token, &mut body)?,
                Kind::Punct(b'@') => {
                    let negated = self.accept(b'!')?;
                    let name = self.identifier()?.text;
                    let opcode = self.name()?;
                    let predicate = Some(Predicate { name, negated });
                    let instruction = self.instruction(token.start, opcode, predicate)?;
                    push(&mut body, instruction, used);
                }
                Kind::Name if Self::is_identifier(token.text) => {
                    if self.accept(b':')? {
                        self.label(token, &mut body)?;
                    } else {
                        let instruction = self.instruction(token.start, token, None)?;
                        push(&mut body, instruction, used);
                    }
                }
                _ => return Self::unexpected(token),
            }
        }
    }

    fn directive(&mut self, token: Token<'a>, body: &mut Vec<Statement<'a>>) -> Result<(), Error> {
        let space = match token.text {
            "reg" => return self.registers(body),
            "loc" => {
                body.push(self.loc()?);
                return Ok(());
            }
            "local" => Space::Local,
            "shared" => Space::Shared,
            "param" => Space::Param,
            "const" => Space::Const,
            "global" => Space::Global,
            _ => return Self::unexpected(token),
        };
        self.variables(space, Linkage::Internal, &mut |variable| {
            body.push(Statement::Variable(variable));
        })
    }

    fn label(&mut self, name: Token<'a>, body: &mut Vec<Statement<'a>>) -> Result<(), Error> {
        let token = self.peek()?;
        let statement = match (token.kind, token.text) {
            (Kind::Dot, "branchtargets" | "calltargets") => {
                self.next()?;
                let mut names = vec![self.name()?.text];
                while self.accept(b',')? {
                    names.push(self.name()?.text);
                }
                self.expect(b';')?;
                if token.text == "branchtargets" {
                    Statement::BranchTargets(name.text, names)
                } else {
                    Statement::CallTargets(name.text, names)
                }
            }
            (Kind::Dot, "callprototype") => {
                self.next()?;
                self.prototype(name.text)?
            }
            _ => Statement::Label(name.text, name.line),
        };
        body.push(statement);
        Ok(())
    }

    fn instruction(
        &mut self,
        start: usize,
        opcode: Token<'a>,
        predicate: Option<Predicate<'a>>,
    ) -> Result<Instruction<'a>, Error> {
        let mut instruction = Instruction {
            predicate,
            opcode: opcode.text,
            modifiers: Vec::new(),
            operands: Vec::new(),
            used_bytes: None,
            line: opcode.line,
            span: Span::default(),
        };
        while self.peek()?.kind == Kind::Dot && !DIRECTIVES.contains(&self.peek()?.text) {
            let modifier = self.next()?.text;
            instruction.modifiers.push(modifier);
        }
        if self.accept(b';')? {
            instruction.span = self.span_from(start);
            return Ok(instruction);
        }
        self.is_call = instruction.opcode == "call";
        loop {
            let operand = self.operand(0)?;
            instruction.operands.push(operand);
            if !self.accept(b',')? {
                self.expect(b';')?;
                instruction.span = self.span_from(start);
                return Ok(instruction);
            }
        }
    }

    fn operand(&mut self, depth: u32) -> Result<Operand<'a>, Error> {
        let operand = self.plain_operand(depth)?;
        if self.accept(b'|')? {
            // A number is an operand, but not the second of a pair.
            let token = self.peek()?;
            if token.kind != Kind::Name {
                return Self::unexpected(token);
            }
            let second = self.plain_operand(depth + 1)?;
            return Ok(Operand::Pair(Box::new((operand, second))));
        }
        Ok(operand)
    }

    fn list(&mut self, end: u8, depth: u32) -> Result<Vec<Operand<'a>>, Error> {
        let mut list = Vec::new();
        if self.accept(end)? {
            return Ok(list);
        }
        loop {
            list.push(self.operand(depth + 1)?);
            if !self.accept(b',')? {
                self.expect(end)?;
                return Ok(list);
            }
        }
    }

    fn plain_operand(&mut self, depth: u32) -> Result<Operand<'a>, Error> {
        let token = self.peek()?;
        Self::check_depth(token, depth)?;
        match (token.kind, token.text) {
            (Kind::Name, "WARP_SZ") | (Kind::Number(_), _) => self.constant().map(Operand::Literal),
            (Kind::Punct(b'+' | b'-' | b'~'), _) => self.constant().map(Operand::Literal),
            (Kind::Punct(b'('), _) if !self.is_call => self.constant().map(Operand::Literal),
            (Kind::Punct(b'!'), _) => self.negation(),
            _ => {
                self.next()?;
                self.named_operand(token, depth)
            }
        }
    }

    /// `!%p`, or a constant expression with `!`.
    fn negation(&mut self) -> Result<Operand<'a>, Error> {
        let token = self.next()?;
        let after = self.peek()?;
        if after.kind == Kind::Name && after.text != "WARP_SZ" {
            return Ok(Operand::Not(self.identifier()?.text));
        }
        self.restart(token);
        self.constant().map(Operand::Literal)
    }

    fn named_operand(&mut self, token: Token<'a>, depth: u32) -> Result<Operand<'a>, Error> {
        match (token.kind, token.text) {
            (Kind::Name, "_") => Ok(Operand::Sink),
            (Kind::Name, name) if Self::is_identifier(name) => {
                let after = self.peek()?;
                if after.kind == Kind::Dot && after.adjacent {
                    self.next()?;
                    return Ok(Operand::Member(name, after.text));
                }
                match after.kind {
                    Kind::Punct(b'[') if depth == 0 => {
                        self.next()?;
                        let index = self.integer()? as i64;
                        self.expect(b']')?;
                        Ok(Operand::Element(name, index))
                    }
                    Kind::Punct(b'+') if depth == 0 || self.is_address => {
                        Ok(Operand::Offset(name, self.offset()?))
                    }
                    _ => Ok(Operand::Name(name)),
                }
            }
            (Kind::Punct(b'{'), _) => Ok(Operand::Vector(self.list(b'}', depth)?)),
            (Kind::Punct(b'('), _) => Ok(Operand::List(self.list(b')', depth)?)),
            (Kind::Punct(b'['), _) => self.bracket(depth),
            _ => Self::unexpected(token),
        }
    }

    /// Parses an address or list in brackets, after its `[`.
    fn bracket(&mut self, depth: u32) -> Result<Operand<'a>, Error> {
        let first = self.place(depth)?;
        if self.accept(b']')? {
            return Ok(match first {
                Operand::Name(name) => Operand::Address(Base::Name(name), 0),
                Operand::Offset(name, offset) => Operand::Address(Base::Name(name), offset),
                Operand::Literal(Literal::Int(value)) => {
                    Operand::Address(Base::Absolute, value as i64)
                }
                other => Operand::Bracket(vec![other]),
            });
        }
        let mut list = vec![first];
        while self.accept(b',')? {
            list.push(self.operand(depth + 1)?);
        }
        self.expect(b']')?;
        Ok(Operand::Bracket(list))
    }

    /// Parses the first part of what is in brackets, which may have an offset.
    fn place(&mut self, depth: u32) -> Result<Operand<'a>, Error> {
        self.is_address = true;
        let place = self.plain_operand(depth + 1);
        self.is_address = false;
        place
    }
}
