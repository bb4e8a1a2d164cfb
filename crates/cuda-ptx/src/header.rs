//! Parses the headers of functions: parameters and directives.

use super::ast::{Attribute, Function, Linkage, Prototype, Space, Statement, Variable};
use super::error::Error;
use super::lexer::{Kind, Token};
use super::parser::Parser;

/// The directives of a kernel, with the most numbers that each takes.
const OF_KERNELS: &[(&str, usize)] = &[
    ("maxntid", 3),
    ("reqntid", 3),
    ("minnctapersm", 1),
    ("maxnctapersm", 1),
    ("maxnreg", 1),
    ("reqnctapercluster", 3),
    ("explicitcluster", 0),
    ("maxclusterrank", 1),
    ("blocksareclusters", 0),
];

/// The directives of a function.
const OF_FUNCTIONS: &[(&str, usize)] = &[
    ("noreturn", 0),
    ("unified", 0),
    ("abi_preserve", 1),
    ("abi_preserve_control", 1),
];

impl<'a> Parser<'a> {
    pub(super) fn function(
        &mut self,
        entry: bool,
        linkage: Linkage,
    ) -> Result<Function<'a>, Error> {
        let mut attributes = Vec::new();
        let token = self.peek()?;
        if (token.kind, token.text) == (Kind::Dot, "attribute") {
            self.next()?;
            self.attributes(&mut attributes)?;
        }
        let mut returns = Vec::new();
        if !entry && self.accept(b'(')? {
            returns = self.parameters(linkage)?;
        }
        let name = self.identifier()?;
        let mut function = Function {
            name: name.text,
            entry,
            linkage,
            returns,
            params: Vec::new(),
            directives: Vec::new(),
            pragmas: Vec::new(),
            attributes,
            body: None,
            line: name.line,
            params_span: None,
            body_span: None,
        };
        let open = self.peek()?.start;
        if self.accept(b'(')? {
            function.params = self.parameters(linkage)?;
            function.params_span = Some(self.span_from(open));
        }
        let known = if entry { OF_KERNELS } else { OF_FUNCTIONS };
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::Punct(b'{') => {
                    function.body = Some(self.body()?);
                    function.body_span = Some(self.span_from(token.start));
                    return Ok(function);
                }
                Kind::Punct(b';') => return Ok(function),
                Kind::Dot if token.text == "pragma" => self.pragmas(&mut function.pragmas)?,
                Kind::Dot => function.directives.push(self.directive_of(token, known)?),
                _ => return Self::unexpected(token),
            }
        }
    }

    /// A directive of a function, with its numbers.
    fn directive_of(
        &mut self,
        token: Token<'a>,
        known: &[(&str, usize)],
    ) -> Result<(&'a str, Vec<u64>), Error> {
        let Some((_, most)) = known.iter().find(|(name, _)| *name == token.text) else {
            return Self::unexpected(token);
        };
        let mut values = Vec::new();
        while values.len() < *most {
            values.push(self.int()?);
            if values.len() == *most || !self.accept(b',')? {
                break;
            }
        }
        Ok((token.text, values))
    }

    /// `.callprototype (results) _ (parameters) .noreturn;`, after its first word.
    pub(super) fn prototype(&mut self, name: &'a str) -> Result<Statement<'a>, Error> {
        let mut prototype = Prototype {
            returns: Vec::new(),
            params: Vec::new(),
            directives: Vec::new(),
        };
        if self.accept(b'(')? {
            prototype.returns = self.parameters(Linkage::Internal)?;
        }
        let placeholder = self.name()?;
        if placeholder.text != "_" {
            return Self::unexpected(placeholder);
        }
        if self.accept(b'(')? {
            prototype.params = self.parameters(Linkage::Internal)?;
        }
        while !self.accept(b';')? {
            let token = self.next()?;
            if token.kind != Kind::Dot {
                return Self::unexpected(token);
            }
            let directive = self.directive_of(token, OF_FUNCTIONS)?;
            prototype.directives.push(directive);
        }
        Ok(Statement::Prototype(name, prototype))
    }

    /// Parses a parameter list after its opening parenthesis.
    fn parameters(&mut self, linkage: Linkage) -> Result<Vec<Variable<'a>>, Error> {
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
            list.push(self.parameter(space, linkage)?);
            if !self.accept(b',')? {
                self.expect(b')')?;
                return Ok(list);
            }
        }
    }

    /// Parses `.attribute(...)` after its first word.
    pub(super) fn attributes(&mut self, into: &mut Vec<Attribute<'a>>) -> Result<(), Error> {
        self.expect(b'(')?;
        loop {
            let token = self.next()?;
            let values = match (token.kind, token.text) {
                (Kind::Dot, "managed") => Vec::new(),
                (Kind::Dot, "unified") => {
                    self.expect(b'(')?;
                    let first = self.int()?;
                    self.expect(b',')?;
                    let second = self.int()?;
                    self.expect(b')')?;
                    vec![first, second]
                }
                _ => return Self::unexpected(token),
            };
            into.push(Attribute {
                name: token.text,
                values,
            });
            if !self.accept(b',')? {
                return self.expect(b')');
            }
        }
    }
}
