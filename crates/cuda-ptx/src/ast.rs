//! The syntax tree of a PTX module. Names borrow from the text.

/// A PTX module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module<'a> {
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// `.target`.
    pub target: Target<'a>,
    /// `.address_size`, 64 if absent.
    pub address_size: u32,
    /// `.file` number and name.
    pub files: Vec<(u32, &'a str)>,
    /// Variables at module scope.
    pub variables: Vec<Variable<'a>>,
    /// Kernels and functions, declarations included.
    pub functions: Vec<Function<'a>>,
    /// `.alias name, target;`
    pub aliases: Vec<Alias<'a>>,
    /// The texts of the pragmas at module scope, without their quotes.
    pub pragmas: Vec<&'a str>,
    /// The names of the sections, such as `.debug_info` with its dot. Their content, which only
    /// debuggers read, is not in the tree.
    pub sections: Vec<&'a str>,
}

/// `.alias name, target;`: `name` is a second name of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias<'a> {
    /// The name, which is that of a declared function.
    pub name: &'a str,
    /// The function that it refers to.
    pub target: &'a str,
    /// The line.
    pub line: u32,
}

/// An attribute of a variable or function: `managed`, or `unified` with its two numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The name without its dot.
    pub name: &'a str,
    /// The numbers in its parentheses.
    pub values: Vec<u64>,
}

/// `.ptr .global .align 16` of a kernel parameter: which memory it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The state space; `None` for a generic address.
    pub space: Option<Space>,
    /// The value of `.align` in bytes, if it is given.
    pub align: Option<u64>,
}

/// `.target sm_90a, debug`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target<'a> {
    /// 90 of `sm_90a`.
    pub sm: u32,
    /// `a` or `f` of `sm_90a`, or nothing.
    pub suffix: &'a str,
    /// The options after the architecture, such as `debug`.
    pub options: Vec<&'a str>,
}

/// The visibility of a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// Visible in this module only.
    #[default]
    Internal,
    /// `.visible`.
    Visible,
    /// `.weak`.
    Weak,
    /// `.extern`: defined elsewhere.
    Extern,
    /// `.common`.
    Common,
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.param`
    Param,
    /// `.global`
    Global,
    /// `.const`
    Const,
    /// `.shared`
    Shared,
    /// `.local`
    Local,
}

/// A declared variable, a parameter, or a parameter in a register (`.func f(.reg .u32 a)`).
#[derive(Clone, Debug, PartialEq)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its state space.
    pub space: Space,
    /// Its visibility.
    pub linkage: Linkage,
    /// The element type without its dot: `b8`, `u64`, `texref`.
    pub ty: &'a str,
    /// The number of elements per vector: 1, 2, 4 or 8.
    pub vector: u32,
    /// The number of elements: 1 for a scalar, `None` for `[]`.
    pub count: Option<u64>,
    /// The value of `.align` in bytes, if it is given.
    pub align: Option<u64>,
    /// `.ptr` of a kernel parameter.
    pub pointer: Option<Pointer>,
    /// Whether it was declared with brackets.
    pub array: bool,
    /// The attributes of `.attribute(...)`.
    pub attributes: Vec<Attribute<'a>>,
    /// Whether it is a constant table: it belongs to the module, is not visible outside, has an
    /// initial value without addresses, and no instruction of the module may write to it, or pass
    /// its address on.
    pub constant: bool,
    /// The initial value, in order of elements.
    pub init: Vec<Init<'a>>,
    /// The line of the declaration.
    pub line: u32,
}

impl Variable<'_> {
    /// Whether it has `.attribute(.managed)`.
    pub fn is_managed(&self) -> bool {
        self.attributes.iter().any(|it| it.name == "managed")
    }

    /// The alignment of the memory that it points to: `.ptr .align 16`.
    pub fn target_align(&self) -> Option<u64> {
        self.pointer?.align
    }

    /// The offset in bytes of the address `name[index]`, for example 12 for `g[3]` if the elements
    /// of `g` have four bytes. `None` if the type has no size in memory.
    ///
    /// An element is a scalar, also if the variable has vectors or several dimensions. `ptxas` does
    /// not compare the index with the number of elements, and computes the offset in 32 unsigned
    /// bits: `g[-1]` is 4 GiB after the element before `g`.
    pub fn element_offset(&self, index: i64) -> Option<i64> {
        let size = match self.ty {
            "b8" | "u8" | "s8" => 1,
            "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
            "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 4,
            "b64" | "u64" | "s64" | "f64" => 8,
            "b128" => 16,
            _ => return None,
        };
        Some((index as u32).wrapping_mul(size).into())
    }
}

/// One element of an initial value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init<'a> {
    /// A number.
    Literal(Literal),
    /// The address of a symbol, or of a function.
    Symbol {
        /// Its name.
        name: &'a str,
        /// The offset that is added to the address.
        offset: i64,
        /// Whether it is `generic(name)`.
        generic: bool,
        /// The index of the byte that `mask(name)` selects from the address.
        byte: Option<u32>,
    },
}

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// An integer, in two's complement.
    Int(u64),
    /// `0f3f800000`: the bits of an f32.
    F32(u32),
    /// `0d...`: the bits of an f64; also decimal numbers with a point.
    F64(u64),
}

/// `.reg .b32 %r<10>` (`count` is 10) or `.reg .b32 x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Register<'a> {
    /// The name, or the prefix of the numbered names.
    pub name: &'a str,
    /// The type without its dot.
    pub ty: &'a str,
    /// The number of elements per vector.
    pub vector: u32,
    /// The number of numbered registers that this declares.
    pub count: Option<u32>,
}

/// A kernel (`.entry`) or function (`.func`).
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Its visibility.
    pub linkage: Linkage,
    /// The return parameters.
    pub returns: Vec<Variable<'a>>,
    /// The parameters.
    pub params: Vec<Variable<'a>>,
    /// `.maxntid`, `.reqntid`, `.noreturn` and others, with their numbers.
    pub directives: Vec<(&'a str, Vec<u64>)>,
    /// The texts of the pragmas between the parameters and the body, without their quotes.
    pub pragmas: Vec<&'a str>,
    /// The attributes of `.attribute(...)`.
    pub attributes: Vec<Attribute<'a>>,
    /// The statements; `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
    /// The line of its name.
    pub line: u32,
    /// The parameter list with its parentheses.
    pub params_span: Option<Span>,
    /// The body with its braces.
    pub body_span: Option<Span>,
}

/// The signature of the target of an indirect call (`.callprototype`).
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype<'a> {
    /// The return parameters.
    pub returns: Vec<Variable<'a>>,
    /// The parameters.
    pub params: Vec<Variable<'a>>,
    /// `.noreturn` and others, with their numbers.
    pub directives: Vec<(&'a str, Vec<u64>)>,
}

/// A part of the text of a module: the bytes from `start` to `end`, without `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The position of the first byte.
    pub start: usize,
    /// The position after the last byte.
    pub end: usize,
}

/// A position in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of the file.
    pub file: u32,
    /// The line in it.
    pub line: u32,
    /// The column in the line.
    pub column: u32,
}

/// A statement of a function body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement<'a> {
    /// `name:`
    Label(&'a str, u32),
    /// An instruction.
    Instruction(Instruction<'a>),
    /// `.loc`: the source position of the instructions that follow.
    Loc {
        /// The position in the source.
        at: Location,
        /// The name of the inlined function, as a label in the section `.debug_str` and an offset.
        function: Option<(&'a str, u64)>,
        /// The position of the call, if the instructions were inlined.
        inlined_at: Option<Location>,
    },
    /// The text of a pragma, without its quotes. A `used_bytes_mask` that belongs to a load is in
    /// the [`Instruction`] instead.
    Pragma(&'a str),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `.reg`
    Register(Register<'a>),
    /// `.local`, `.shared`, `.param`, `.const` or `.global` inside a function.
    Variable(Variable<'a>),
    /// `name: .branchtargets a, b;`
    BranchTargets(&'a str, Vec<&'a str>),
    /// `name: .calltargets f, g;`
    CallTargets(&'a str, Vec<&'a str>),
    /// `name: .callprototype ...;`
    Prototype(&'a str, Prototype<'a>),
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicate<'a> {
    /// The register.
    pub name: &'a str,
    /// Whether it is negated with `!`.
    pub negated: bool,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction<'a> {
    /// The predicate that guards the instruction.
    pub predicate: Option<Predicate<'a>>,
    /// `add` of `add.rn.f32`.
    pub opcode: &'a str,
    /// `rn`, `f32` of `add.rn.f32`.
    pub modifiers: Vec<&'a str>,
    /// The operands.
    pub operands: Vec<Operand<'a>>,
    /// The bytes of the loaded data that the program uses, one bit each: the lowest bit is that of
    /// the byte at the address. It is set by a `used_bytes_mask` pragma before a load, and `None`
    /// without one.
    pub used_bytes: Option<u32>,
    /// The line, from 1.
    pub line: u32,
    /// The text from the pragma, predicate or opcode to the semicolon.
    pub span: Span,
}

impl Instruction<'_> {
    /// The opcode with its modifiers.
    pub fn mnemonic(&self) -> String {
        let mut text = String::from(self.opcode);
        for modifier in &self.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        text
    }

    /// Whether `name` is among the modifiers.
    pub fn has(&self, name: &str) -> bool {
        self.modifiers.contains(&name)
    }
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Base<'a> {
    /// A register or symbol.
    Name(&'a str),
    /// No base: the offset is the address.
    Absolute,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, symbol, label or special register without a member.
    Name(&'a str),
    /// `%tid.x`, or `v.x` of a vector register.
    Member(&'a str, &'a str),
    /// `symbol+8` outside brackets.
    Offset(&'a str, i64),
    /// `symbol[8]` outside brackets: the address of an element, see [`Variable::element_offset`].
    /// As the operand of a load or store, it is the element itself.
    Element(&'a str, i64),
    /// A number.
    Literal(Literal),
    /// `!%p`
    Not(&'a str),
    /// `_`
    Sink,
    /// `%p|%q`
    Pair(Box<(Operand<'a>, Operand<'a>)>),
    /// `{%r1, %r2}`
    Vector(Vec<Operand<'a>>),
    /// `[base+offset]`
    Address(Base<'a>, i64),
    /// `[a, b]`, the operand of a texture instruction.
    Bracket(Vec<Operand<'a>>),
    /// `(a, b)`, the arguments of a call.
    List(Vec<Operand<'a>>),
}

/// Calls `f` with each name in an operand.
pub(crate) fn names<'a>(operand: &Operand<'a>, f: &mut impl FnMut(&'a str)) {
    match operand {
        Operand::Name(name) | Operand::Member(name, _) | Operand::Offset(name, _) => f(name),
        Operand::Element(name, _) => f(name),
        Operand::Not(name) | Operand::Address(Base::Name(name), _) => f(name),
        Operand::Literal(_) | Operand::Sink | Operand::Address(Base::Absolute, _) => {}
        Operand::Pair(pair) => {
            names(&pair.0, f);
            names(&pair.1, f);
        }
        Operand::Vector(list) | Operand::Bracket(list) | Operand::List(list) => {
            for operand in list {
                names(operand, f);
            }
        }
    }
}
