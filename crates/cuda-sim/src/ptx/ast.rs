//! The syntax tree. Names borrow from the text.

/// A PTX module.
#[derive(Clone, Debug, Default)]
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
}

/// `.target sm_90a, debug`.
#[derive(Clone, Debug, Default)]
pub struct Target<'a> {
    /// 90 of `sm_90a`.
    pub sm: u32,
    /// `a` or `f` of `sm_90a`, or nothing.
    pub suffix: &'a str,
    /// What follows the architecture.
    pub options: Vec<&'a str>,
}

/// Who sees a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// This module only.
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

/// A declared variable, parameter or register parameter.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it lives.
    pub space: Space,
    /// Who sees it.
    pub linkage: Linkage,
    /// The element type without its dot: `b8`, `u64`, `texref`.
    pub ty: &'a str,
    /// 1, 2 or 4 elements per vector.
    pub vector: u32,
    /// Elements in all, 1 for a scalar, `None` for `[]`.
    pub count: Option<u64>,
    /// The alignment in bytes if `.align` is given.
    pub align: Option<u64>,
    /// Whether brackets were given.
    pub array: bool,
    /// `.attribute(.managed)`
    pub managed: bool,
    /// The initial value, in order of elements.
    pub init: Vec<Init<'a>>,
    /// The line of the declaration.
    pub line: u32,
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
        /// Added to the address.
        offset: i64,
        /// `generic(name)`.
        generic: bool,
        /// Shift of `mask(name)`: which byte of the address this is.
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
#[derive(Clone, Copy, Debug)]
pub struct Register<'a> {
    /// The name, or what comes before the number.
    pub name: &'a str,
    /// The type without its dot.
    pub ty: &'a str,
    /// 1, 2 or 4.
    pub vector: u32,
    /// How many numbered registers this declares.
    pub count: Option<u32>,
}

/// A kernel (`.entry`) or function (`.func`).
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Who sees it.
    pub linkage: Linkage,
    /// What it returns.
    pub returns: Vec<Variable<'a>>,
    /// What it takes.
    pub params: Vec<Variable<'a>>,
    /// `.maxntid`, `.reqntid` and others, with their numbers.
    pub directives: Vec<(&'a str, Vec<u64>)>,
    /// What it does; `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
    /// The line of its name.
    pub line: u32,
}

/// The signature that an indirect call goes by.
#[derive(Clone, Debug)]
pub struct Prototype<'a> {
    /// What is returned.
    pub returns: Vec<Variable<'a>>,
    /// What is taken.
    pub params: Vec<Variable<'a>>,
}

/// A place in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of the file.
    pub file: u32,
    /// The line in it.
    pub line: u32,
    /// The column in the line.
    pub column: u32,
}

/// A part of a function body.
#[derive(Clone, Debug)]
pub enum Statement<'a> {
    /// `name:`
    Label(&'a str, u32),
    /// An instruction.
    Instruction(Instruction<'a>),
    /// `.loc`: what follows comes from there.
    Loc {
        /// The place in the source.
        at: Location,
        /// Where the function that this is in was inlined.
        inlined_at: Option<Location>,
    },
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
#[derive(Clone, Copy, Debug)]
pub struct Predicate<'a> {
    /// The register.
    pub name: &'a str,
    /// Whether `!` stands before it.
    pub negated: bool,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// Under which predicate.
    pub predicate: Option<Predicate<'a>>,
    /// `add` of `add.rn.f32`.
    pub opcode: &'a str,
    /// `rn`, `f32` of `add.rn.f32`.
    pub modifiers: Vec<&'a str>,
    /// What follows.
    pub operands: Vec<Operand<'a>>,
    /// The line, from 1.
    pub line: u32,
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

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Base<'a> {
    /// A register or symbol.
    Name(&'a str),
    /// Nothing: the offset is the address.
    Absolute,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, symbol, label or special register, with `.x` kept in the name's own field.
    Name(&'a str),
    /// `%tid.x`, or `v.x` of a vector register.
    Member(&'a str, &'a str),
    /// `symbol+8` outside brackets.
    Offset(&'a str, i64),
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
    /// `[a, b]`, as of textures
    Bracket(Vec<Operand<'a>>),
    /// `(a, b)`, as of calls
    List(Vec<Operand<'a>>),
}
