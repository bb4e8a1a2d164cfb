//! The instructions that the test executes: the examples of every row, and more of some rows.

use cuda_ptx::analysis::AccessKind;
use cuda_ptx::forms::{self, Example, ExampleOperand, OperandRole};

use crate::extra;

/// A register of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) name: String,
    /// 1 for a predicate.
    pub(crate) bits: u32,
}

impl Register {
    /// The register of an operand, by the names that examples use.
    fn parse(text: &str) -> Option<Self> {
        let name = text.trim().trim_start_matches('!');
        let mut letters = name.strip_prefix('%')?.chars();
        let bits = match letters.next()? {
            'p' => 1,
            'b' => 8,
            'h' => 16,
            'r' | 's' | 'f' => 32,
            'd' | 'a' | 'g' => 64,
            'q' => 128,
            _ => return None,
        };
        let rest = letters.as_str();
        let is_number = !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_digit());
        is_number.then(|| Self {
            name: name.to_owned(),
            bits,
        })
    }

    /// All registers of an operand.
    fn all(text: &str) -> Vec<Self> {
        let parts = text.split(['{', '}', ',', '|', '[', ']', '+', ' ']);
        parts.filter_map(Self::parse).collect()
    }

    /// The words of 8 bytes that hold a value.
    pub(crate) fn slots(&self) -> usize {
        if self.bits == 128 { 2 } else { 1 }
    }

    /// Whether the register is declared for floating-point numbers.
    pub(crate) fn is_float(&self) -> bool {
        self.name.starts_with("%f") || self.name.starts_with("%g")
    }

    /// The name of a type with its size.
    pub(crate) fn bits_type(&self) -> &'static str {
        match (self.is_float(), self.bits) {
            (true, 32) => "f32",
            (true, _) => "f64",
            (_, 8) => "b8",
            (_, 16) => "b16",
            (_, 32) => "b32",
            _ => "b64",
        }
    }
}

/// A state space, or memory of one through a generic address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Global,
    Shared,
    Local,
    Const,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Const => "const",
        }
    }
}

/// An address of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) register: Register,
    /// What the instruction adds.
    pub(crate) offset: i64,
    pub(crate) kind: AccessKind,
    /// The number of bytes, unless the access is that of a matrix.
    pub(crate) bytes: Option<u32>,
    /// The space, or none for a generic address.
    pub(crate) space: Option<Place>,
}

/// How an instruction is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It computes results from registers.
    Values,
    /// It accesses memory at addresses in registers.
    Memory,
    /// It loads from a parameter.
    Param,
    /// It ends the thread or jumps.
    Control,
    /// It uses a texture or a surface.
    Object,
    /// It is not executed, for this reason.
    Skip(&'static str),
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) row: &'static str,
    pub(crate) family: &'static str,
    pub(crate) text: String,
    pub(crate) opcode: String,
    pub(crate) version: &'static str,
    pub(crate) target: &'static str,
    pub(crate) results: Vec<Register>,
    pub(crate) sources: Vec<Register>,
    pub(crate) addresses: Vec<Address>,
    /// Whether the last source is the distance between the lines of a matrix.
    pub(crate) has_stride: bool,
    /// The register with the handle of a texture or a surface.
    pub(crate) handle: Option<Register>,
    /// The number of coordinates, which are the first sources.
    pub(crate) coordinates: usize,
    /// The operands that are numbers.
    pub(crate) numbers: Vec<String>,
    pub(crate) plan: Plan,
}

impl Item {
    fn new(row: &'static str, family: &'static str, example: &Example) -> Self {
        let head = example.text.split([' ', ';']).next().unwrap_or("");
        let opcode = head.split('.').next().unwrap_or("").to_owned();
        let of_role = |role: OperandRole| {
            let operands = example.operands.iter();
            operands.filter(move |operand| operand.role == role)
        };
        let registers = |role| {
            of_role(role)
                .flat_map(|operand| Register::all(&operand.text))
                .collect::<Vec<_>>()
        };
        let numbers: Vec<String> = of_role(OperandRole::Number)
            .map(|operand| operand.text.clone())
            .collect();
        let mut item = Self {
            row,
            family,
            text: example.text.clone(),
            opcode,
            version: example.version,
            target: example.target,
            results: registers(OperandRole::Result),
            sources: registers(OperandRole::Source),
            addresses: Vec::new(),
            has_stride: false,
            handle: None,
            coordinates: 0,
            numbers,
            plan: Plan::Values,
        };
        let mut inside = registers(OperandRole::Handle);
        if !inside.is_empty() {
            item.handle = Some(inside.remove(0));
            item.coordinates = inside.len();
            item.sources.splice(0..0, inside);
        }
        for operand in &example.operands {
            if let Some(address) = item.address(operand) {
                item.addresses.push(address);
            }
        }
        let is_tile = item.opcode == "wmma" && !item.addresses.is_empty();
        item.has_stride = is_tile
            && (example.operands.last()).is_some_and(|last| {
                last.role == OperandRole::Source && !last.text.starts_with('{')
            });
        item.plan = item.plan(example);
        item
    }

    /// Whether the opcode has a modifier.
    pub(crate) fn has(&self, modifier: &str) -> bool {
        let head = self.text.split([' ', ';']).next().unwrap_or("");
        head.split('.').any(|it| it == modifier)
    }

    /// Whether the memory must be global or shared.
    fn is_common(&self) -> bool {
        let synchronizes = ["relaxed", "acquire", "release"];
        matches!(self.opcode.as_str(), "atom" | "red")
            || synchronizes.iter().any(|modifier| self.has(modifier))
    }

    fn address(&self, operand: &ExampleOperand) -> Option<Address> {
        let OperandRole::Address { kind, bytes } = operand.role else {
            return None;
        };
        let register = Register::all(&operand.text).pop()?;
        let inside = operand.text.trim_matches(['[', ']']);
        let offset = inside.split_once('+').and_then(|it| it.1.parse().ok());
        let space = if self.opcode == "cp" {
            let is_first = self.addresses.is_empty();
            Some(if is_first {
                Place::Shared
            } else {
                Place::Global
            })
        } else if self.has("global") {
            Some(Place::Global)
        } else if self.has("shared") || self.has("shared::cta") {
            Some(Place::Shared)
        } else if self.has("local") {
            Some(Place::Local)
        } else if self.has("const") {
            Some(Place::Const)
        } else {
            None
        };
        let number = self.numbers.first().and_then(|number| number.parse().ok());
        let is_copy = self.opcode == "cp";
        Some(Address {
            register,
            offset: offset.unwrap_or(0),
            kind,
            bytes: bytes.or(if is_copy { number } else { None }),
            space,
        })
    }

    fn plan(&self, example: &Example) -> Plan {
        let has_role = |role| example.operands.iter().any(|it| it.role == role);
        if has_role(OperandRole::Handle) {
            return Plan::Object;
        }
        match self.opcode.as_str() {
            "trap" | "brkpt" => return Plan::Skip("it ends the kernel with a fault"),
            "bra" | "brx" | "ret" | "exit" => return Plan::Control,
            "mapa" if self.sources.len() < 2 => {
                return Plan::Skip("the rank 3 is not in the cluster of one block");
            }
            "wmma" if self.has_stride && self.text.ends_with(" 3;") => {
                return Plan::Skip("a stride of 3 elements is not permitted");
            }
            _ => {}
        }
        if self.text.contains("[n]") {
            return Plan::Param;
        }
        match self.addresses.is_empty() {
            true => Plan::Values,
            false => Plan::Memory,
        }
    }

    /// The member mask of an instruction for some threads of a warp: a source by its number, or a
    /// constant.
    pub(crate) fn mask(&self) -> Option<Mask> {
        let is_warp = matches!(
            self.opcode.as_str(),
            "shfl" | "vote" | "match" | "redux" | "elect"
        ) || self.text.starts_with("bar.warp.sync");
        if !is_warp {
            return None;
        }
        let last = self.text.trim_end_matches(';').rsplit([' ', ',']).next()?;
        match last.parse() {
            Ok(number) => Some(Mask::Number(number)),
            Err(_) => {
                let last = self.sources.len().checked_sub(1)?;
                Some(Mask::Source(last))
            }
        }
    }

    /// Whether all threads of a warp must execute the instruction together.
    pub(crate) fn is_aligned(&self) -> bool {
        let is_barrier = matches!(self.opcode.as_str(), "bar" | "barrier");
        self.has("aligned") || is_barrier && !self.text.starts_with("bar.warp")
    }
}

/// A member mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    Source(usize),
    Number(u32),
}

/// All instructions, in the order of the list.
pub(crate) fn items() -> Vec<Item> {
    let mut items = Vec::new();
    for family in forms::families() {
        for row in &family.rows {
            let mut examples = row.examples();
            examples.extend(extra::of_row(row.form, &examples));
            let made = examples.iter();
            items.extend(made.map(|example| Item::new(row.form, family.title, example)));
        }
    }
    for example in extra::special_registers() {
        items.push(Item::new(
            "special registers",
            "Special registers",
            &example,
        ));
    }
    items
}

/// One execution: an instruction, and where its generic addresses point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) item: usize,
    pub(crate) place: Option<Place>,
}

/// The executions of all instructions, in an order that is the same in every process.
pub(crate) fn runs(items: &[Item]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let is_generic = item.addresses.iter().any(|address| address.space.is_none());
        // A matrix exists in global and shared memory only.
        let places: &[Option<Place>] = match (is_generic, item.opcode.as_str()) {
            (false, _) => &[None],
            (true, "wmma") => &[Some(Place::Global), Some(Place::Shared)],
            // The manual leaves it undefined what these do in local memory, and the analysis
            // proves no such access.
            (true, _) if item.is_common() => &[Some(Place::Global), Some(Place::Shared)],
            (true, _) => &[Some(Place::Global), Some(Place::Shared), Some(Place::Local)],
        };
        for place in places {
            runs.push(Run {
                item: number,
                place: *place,
            });
        }
    }
    runs
}
