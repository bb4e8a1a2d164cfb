//! Parses the declarations of variables, parameters and registers.

use super::ast::{Attribute, Linkage, Pointer, Register, Space, Statement, Variable};
use super::error::Error;
use super::lexer::{Kind, Token};
use super::parser::Parser;

/// The largest number of registers that one function may declare.
const MAX_REGISTERS: u64 = 1 << 20;

/// The words of a declaration before its names.
struct Head<'a> {
    ty: &'a str,
    vector: u32,
    align: Option<u64>,
    attributes: Vec<Attribute<'a>>,
}

impl<'a> Parser<'a> {
    /// Parses `.attribute`, `.align`, `.v4` and the type, in any order but each at most once.
    fn head_of(&mut self) -> Result<Head<'a>, Error> {
        let mut head = Head {
            ty: "",
            vector: 0,
            align: None,
            attributes: Vec::new(),
        };
        while head.ty.is_empty() {
            let token = self.next()?;
            if token.kind != Kind::Dot {
                return Self::unexpected(token);
            }
            match token.text {
                "attribute" => self.attributes(&mut head.attributes)?,
                "align" if head.align.is_none() && head.vector == 0 => {
                    head.align = Some(self.alignment()?)
                }
                "v2" | "v4" | "v8" if head.vector == 0 => {
                    head.vector = u32::from(token.text.as_bytes()[1] - b'0');
                }
                "align" | "v2" | "v4" | "v8" => return Self::unexpected(token),
                ty => head.ty = ty,
            }
        }
        head.vector = head.vector.max(1);
        Ok(head)
    }

    /// Parses the number of `.align`.
    fn alignment(&mut self) -> Result<u64, Error> {
        let token = self.peek()?;
        let align = self.int()?;
        if !align.is_power_of_two() {
            let message = String::from("Alignment must be a power of two");
            return Err(Self::error(token, message));
        }
        if align > 1 << 20 {
            let message = format!("Alignment {align} is too large: the limit is 1048576");
            return Err(Self::error(token, message));
        }
        Ok(align)
    }

    /// Parses the declaration of variables, from after their state space to the semicolon.
    pub(super) fn variables(
        &mut self,
        space: Space,
        linkage: Linkage,
        add: &mut dyn FnMut(Variable<'a>),
    ) -> Result<(), Error> {
        let head = self.head_of()?;
        loop {
            let name = self.identifier()?;
            let mut variable = Self::declared(name, &head, space, linkage);
            let dims = self.dimensions(&mut variable, name)?;
            if self.accept(b'=')? {
                self.initial(&mut variable, dims)?;
            }
            add(variable);
            if !self.accept(b',')? {
                return self.expect(b';');
            }
        }
    }

    fn declared(name: Token<'a>, head: &Head<'a>, space: Space, linkage: Linkage) -> Variable<'a> {
        Variable {
            name: name.text,
            space,
            linkage,
            ty: head.ty,
            vector: head.vector,
            count: Some(1),
            align: head.align,
            pointer: None,
            array: false,
            attributes: head.attributes.clone(),
            constant: false,
            init: Vec::new(),
            line: name.line,
        }
    }

    /// Parses the declaration of a parameter, from after its state space.
    pub(super) fn parameter(
        &mut self,
        space: Space,
        linkage: Linkage,
    ) -> Result<Variable<'a>, Error> {
        let mut head = self.head_of()?;
        let mut token = self.peek()?;
        let mut pointer = None;
        if (token.kind, token.text) == (Kind::Dot, "ptr") {
            self.next()?;
            pointer = Some(self.pointer()?);
        } else if (token.kind, token.text) == (Kind::Dot, "align") && head.align.is_none() {
            self.next()?;
            head.align = Some(self.alignment()?);
        }
        token = self.peek()?;
        let name = match token.kind {
            // A prototype may leave its parameters without a name.
            Kind::Punct(b',' | b')') => Token { text: "_", ..token },
            _ => self.name()?,
        };
        let mut variable = Self::declared(name, &head, space, linkage);
        variable.pointer = pointer;
        self.dimensions(&mut variable, name)?;
        Ok(variable)
    }

    /// Parses the space and the alignment of `.ptr`.
    fn pointer(&mut self) -> Result<Pointer, Error> {
        let token = self.peek()?;
        let space = match (token.kind, token.text) {
            (Kind::Dot, "global") => Some(Space::Global),
            (Kind::Dot, "const") => Some(Space::Const),
            (Kind::Dot, "shared") => Some(Space::Shared),
            (Kind::Dot, "local") => Some(Space::Local),
            _ => None,
        };
        if space.is_some() {
            self.next()?;
        }
        let token = self.peek()?;
        let mut align = None;
        if (token.kind, token.text) == (Kind::Dot, "align") {
            self.next()?;
            align = Some(self.alignment()?);
        }
        Ok(Pointer { space, align })
    }

    /// Parses the dimensions of an array. The first one may be left out, and is 0 then.
    fn dimensions(
        &mut self,
        variable: &mut Variable<'a>,
        name: Token<'a>,
    ) -> Result<Vec<u64>, Error> {
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
            let token = self.peek()?;
            let dim = match (token.kind, token.text) {
                (Kind::Name, "WARP_SZ") => {
                    self.next()?;
                    32
                }
                _ => self.int()?,
            };
            self.expect(b']')?;
            dims.push(dim);
            total = match total.checked_mul(dim) {
                Some(total) if total < 1 << 40 => total,
                _ => return Err(Self::error(name, String::from("Array is too large"))),
            };
        }
        variable.count = variable.count.map(|_| total);
        Ok(dims)
    }

    /// Parses `.reg` after its first word.
    pub(super) fn registers(&mut self, body: &mut Vec<Statement<'a>>) -> Result<(), Error> {
        let head = self.head_of()?;
        loop {
            let token = self.identifier()?;
            let mut count = None;
            if self.accept(b'<')? {
                let number = self.int()?;
                if number > MAX_REGISTERS {
                    let message = format!(
                        "{number} registers with the name {} are too many: the limit is \
                         {MAX_REGISTERS}",
                        token.text
                    );
                    return Err(Self::error(token, message));
                }
                count = Some(number as u32);
                self.expect(b'>')?;
            }
            body.push(Statement::Register(Register {
                name: token.text,
                ty: head.ty,
                vector: head.vector,
                count,
            }));
            if !self.accept(b',')? {
                return self.expect(b';');
            }
        }
    }
}
