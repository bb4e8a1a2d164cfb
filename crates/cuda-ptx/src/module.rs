//! Parses directives at module scope.

use super::ast::{Alias, Linkage, Location, Module, Space, Statement, Target};
use super::error::Error;
use super::lexer::{Kind, Token};
use super::parser::Parser;

impl<'a> Parser<'a> {
    pub(super) fn module(mut self) -> Result<Module<'a>, Error> {
        let mut module = Module {
            address_size: 64,
            ..Module::default()
        };
        self.head(&mut module)?;
        loop {
            let token = self.next()?;
            match (token.kind, token.text) {
                (Kind::End, _) => return Ok(module),
                (Kind::Dot, "file") => module.files.push(self.file()?),
                (Kind::Dot, "section") => module.sections.push(self.section()?),
                (Kind::Dot, "pragma") => self.pragmas(&mut module.pragmas)?,
                (Kind::Dot, "alias") => {
                    let name = self.name()?;
                    self.expect(b',')?;
                    module.aliases.push(Alias {
                        name: name.text,
                        target: self.name()?.text,
                        line: name.line,
                    });
                    self.expect(b';')?;
                }
                (Kind::Dot, "visible") => self.item(&mut module, Linkage::Visible)?,
                (Kind::Dot, "weak") => self.item(&mut module, Linkage::Weak)?,
                (Kind::Dot, "extern") => self.item(&mut module, Linkage::Extern)?,
                (Kind::Dot, "common") => self.item(&mut module, Linkage::Common)?,
                _ => {
                    self.ahead = Some(token);
                    self.item(&mut module, Linkage::Internal)?;
                }
            }
        }
    }

    /// `.version`, `.target` and `.address_size`, in this order.
    fn head(&mut self, module: &mut Module<'a>) -> Result<(), Error> {
        let token = self.next()?;
        if (token.kind, token.text) != (Kind::Dot, "version") {
            let message = match token.kind {
                Kind::Dot | Kind::End => "Missing .version directive at start of file",
                _ => return Self::unexpected(token),
            };
            return Err(Self::error(token, String::from(message)));
        }
        module.version = self.version(token)?;
        let token = self.next()?;
        if (token.kind, token.text) != (Kind::Dot, "target") {
            let message = String::from("Missing .target directive after .version");
            return Err(Self::error(token, message));
        }
        module.target = self.target()?;
        let token = self.peek()?;
        if (token.kind, token.text) == (Kind::Dot, "address_size") {
            self.next()?;
            let size = self.peek()?;
            module.address_size = match self.int()? {
                32 => 32,
                64 => 64,
                _ => {
                    let message = format!("Bad .address_size {}: it is 32 or 64", size.text);
                    return Err(Self::error(size, message));
                }
            };
        }
        Ok(())
    }

    /// A function, kernel or variable, after its linkage.
    fn item(&mut self, module: &mut Module<'a>, linkage: Linkage) -> Result<(), Error> {
        let token = self.next()?;
        let space = match (token.kind, token.text) {
            (Kind::Dot, "entry" | "func") => {
                let function = self.function(token.text == "entry", linkage)?;
                module.functions.push(function);
                return Ok(());
            }
            (Kind::Dot, "global") => Space::Global,
            (Kind::Dot, "const") => Space::Const,
            (Kind::Dot, "shared") => Space::Shared,
            (Kind::Dot, "local") => Space::Local,
            _ => return Self::unexpected(token),
        };
        self.variables(space, linkage, &mut |variable| {
            module.variables.push(variable)
        })
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

    /// `.file number "name"[, time, size]`. Only debuggers compare the time and the size.
    fn file(&mut self) -> Result<(u32, &'a str), Error> {
        let number = self.int32()?;
        let name = self.string()?;
        if self.accept(b',')? {
            self.int()?;
            if self.accept(b',')? {
                self.int()?;
            }
        }
        Ok((number, name))
    }

    /// `.section .name { ... }`. Returns the name with its dot.
    fn section(&mut self) -> Result<&'a str, Error> {
        let name = self.next()?;
        if name.kind != Kind::Dot {
            return Self::unexpected(name);
        }
        self.expect(b'{')?;
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
        Ok(self.slice(name.start, name.end))
    }

    /// Parses `"text", "text";` after `.pragma`.
    pub(super) fn pragmas(&mut self, into: &mut Vec<&'a str>) -> Result<(), Error> {
        loop {
            into.push(self.string()?);
            if !self.accept(b',')? {
                return self.expect(b';');
            }
        }
    }

    /// `.loc file line column[, function_name label[+n], inlined_at file line column]`
    pub(super) fn loc(&mut self) -> Result<Statement<'a>, Error> {
        let at = self.location()?;
        let (mut function, mut inlined_at) = (None, None);
        while self.accept(b',')? {
            let word = self.name()?;
            match word.text {
                "function_name" if function.is_none() && inlined_at.is_none() => {
                    let label = self.name()?.text;
                    let offset = match self.accept(b'+')? {
                        true => self.int()?,
                        false => 0,
                    };
                    function = Some((label, offset));
                }
                "inlined_at" if inlined_at.is_none() => inlined_at = Some(self.location()?),
                _ => return Self::unexpected(word),
            }
        }
        Ok(Statement::Loc {
            at,
            function,
            inlined_at,
        })
    }

    fn location(&mut self) -> Result<Location, Error> {
        Ok(Location {
            file: self.int32()?,
            line: self.int32()?,
            column: self.int32()?,
        })
    }
}
