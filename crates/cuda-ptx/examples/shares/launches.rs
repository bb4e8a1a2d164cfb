//! The values of launches: those in the files of a folder, and those that are assumed.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use cuda_ptx::analysis::{Analysis, Argument, Buffer, LaunchValues, Root};
use cuda_ptx::{Base, Function, Operand, Statement};

/// The size of an assumed buffer.
const BYTES: u64 = 1 << 30;

/// The kernels of one folder.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) rules: Vec<Rule>,
    /// The lines of `recorded.txt` and `launched.txt`, by file and kernel.
    pub(crate) recorded: HashMap<String, Vec<Recorded>>,
    /// Whether only the kernels of `launched.txt` count.
    pub(crate) is_of_launched: bool,
    /// The kernels in `defects.txt`.
    pub(crate) defects: HashSet<String>,
}

impl Folder {
    pub(crate) fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let lines = |name| -> Vec<String> {
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            let lines = text
                .lines()
                .filter(|it| !it.is_empty() && !it.starts_with('#'));
            lines.map(str::to_owned).collect()
        };
        let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let rules = lines("launches.txt");
        let rules = rules.iter().map(|line| Rule::parse(line));
        let mut recorded: HashMap<String, Vec<Recorded>> = HashMap::new();
        for line in [lines("recorded.txt"), lines("launched.txt")].concat() {
            let launches = recorded.entry(first(&line)).or_default();
            launches.push(Recorded::parse(&line)?);
        }
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
            recorded,
            is_of_launched: folder.join("launched.txt").is_file(),
            defects: lines("defects.txt").iter().map(|it| first(it)).collect(),
        })
    }
}

/// A line of `recorded.txt` or `launched.txt`.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    arguments: Vec<Argument>,
}

impl Recorded {
    fn parse(line: &str) -> Result<Self, Box<dyn Error>> {
        let value = |key: &str| -> Result<&str, Box<dyn Error>> {
            let mut words = line.split_whitespace();
            let found = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            Ok(found.ok_or(format!("{line}: no {key}"))?)
        };
        let sizes = |key: &str| -> Result<[u32; 3], Box<dyn Error>> {
            let sizes = value(key)?.split(',').map(str::parse);
            let sizes: Vec<u32> = sizes.collect::<Result<_, _>>()?;
            Ok(sizes.try_into().map_err(|_| format!("{line}: {key}"))?)
        };
        let arguments = value("arguments")?.split(',').filter(|it| !it.is_empty());
        Ok(Self {
            grid: sizes("grid")?,
            block: sizes("block")?,
            shared: value("shared")?.parse()?,
            arguments: arguments
                .map(|it| argument(it).ok_or(format!("{line}: {it}").into()))
                .collect::<Result<_, Box<dyn Error>>>()?,
        })
    }

    /// The values of the launch. The handles of textures and surfaces are not recorded.
    pub(crate) fn launch(&self, analysis: &Analysis) -> LaunchValues {
        let mut arguments = self.arguments.clone();
        for (parameter, object) in analysis.objects() {
            if let Some(argument) = arguments.get_mut(parameter as usize) {
                *argument = Argument::object(object);
            }
        }
        LaunchValues {
            cluster: None,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.shared,
            arguments,
        }
    }
}

/// An argument, as words of 8 bytes.
fn argument(text: &str) -> Option<Argument> {
    let (mut bytes, mut buffers) = (Vec::new(), Vec::new());
    for word in text.split('+') {
        if let Some(address) = word.strip_prefix('[') {
            let (size, align) = address.strip_suffix(']')?.split_once('/')?;
            let buffer = Buffer {
                bytes: size.parse().ok()?,
                align: align.parse().ok()?,
                is_writable: true,
            };
            buffers.push((bytes.len() as u64, buffer));
            bytes.extend([0; 8]);
        } else {
            let (number, size) = word.split_once(':')?;
            let number: u64 = number.parse().ok()?;
            bytes.extend(number.to_le_bytes().get(..size.parse().ok()?)?);
        }
    }
    let argument = Argument::scalar(bytes);
    let buffers = buffers.into_iter();
    Some(buffers.fold(argument, |all, (offset, buffer)| {
        all.with_buffer(offset, buffer)
    }))
}

/// A line of `launches.txt`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The parts of the name between stars. The first is its beginning.
    parts: Vec<String>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    numbers: Vec<u64>,
    null: Vec<u64>,
    pointers: Vec<u64>,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            grid: [8, 1, 1],
            block: [128, 1, 1],
            shared: 32 << 10,
            numbers: vec![1000],
            null: Vec::new(),
            pointers: Vec::new(),
        }
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, Box<dyn Error>> {
        let mut words = line.split_whitespace();
        let parts = words.next().unwrap_or_default().split('*');
        let mut rule = Self {
            parts: parts.map(str::to_owned).collect(),
            ..Self::default()
        };
        for word in words {
            let (key, values) = word.split_once('=').ok_or(format!("{line}: no `=`"))?;
            let values = values.split(',').map(str::parse);
            let values: Vec<u64> = values.collect::<Result<_, _>>()?;
            let sizes = || -> Result<[u32; 3], Box<dyn Error>> {
                let mut sizes = [1; 3];
                for (size, value) in sizes.iter_mut().zip(&values) {
                    *size = u32::try_from(*value)?;
                }
                Ok(sizes)
            };
            match key {
                "grid" => rule.grid = sizes()?,
                "block" => rule.block = sizes()?,
                "shared" => rule.shared = sizes()?[0],
                "numbers" => rule.numbers = values,
                "null" => rule.null = values,
                "pointers" => rule.pointers = values,
                _ => return Err(format!("{line}: unknown key {key}").into()),
            }
        }
        Ok(rule)
    }

    /// Whether this is the rule for a kernel.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        let Some((first, others)) = self.parts.split_first() else {
            return true;
        };
        let mut rest = name.strip_prefix(first.as_str());
        for part in others {
            rest = rest.and_then(|rest| Some(rest.split_once(part.as_str())?.1));
        }
        rest.is_some()
    }
}

/// Whether a parameter of 8 bytes is an address: the kernel converts it to a global address, or its
/// declaration says so.
fn is_pointer(function: &Function<'_>, name: &str) -> bool {
    let instructions = function.body.iter().flatten().filter_map(|it| match it {
        Statement::Instruction(one) => Some(one),
        _ => None,
    });
    let loaded: Vec<&str> = instructions
        .clone()
        .filter(|one| one.opcode == "ld" && one.has("param"))
        .filter_map(|one| match one.operands.as_slice() {
            [Operand::Name(to), Operand::Address(Base::Name(it), 0)] if *it == name => Some(*to),
            _ => None,
        })
        .collect();
    instructions.filter(|one| one.opcode == "cvta").any(
        |one| matches!(one.operands.get(1), Some(Operand::Name(from)) if loaded.contains(from)),
    )
}

/// The assumed values of a launch.
pub(crate) fn launch(
    function: &Function<'_>,
    text: &str,
    rule: &Rule,
    analysis: &Analysis,
) -> LaunchValues {
    let objects = analysis.objects();
    let buffer = Buffer {
        bytes: BYTES,
        align: 256,
        is_writable: true,
    };
    let (mut numbers, mut pointers) = (rule.numbers.iter().copied(), 0);
    let mut last = 0;
    let arguments = (0..).zip(&function.params).map(|(parameter, param)| {
        let bits = param.ty.trim_start_matches(char::is_alphabetic).parse();
        let bits: u64 = bits.unwrap_or(64);
        let bytes = bits / 8 * u64::from(param.vector) * param.count.unwrap_or(1);
        let is_declared = text.contains(&format!(".ptr .global .align 1 {}", param.name))
            || text.contains(&format!(".ptr .global .align 16 {}", param.name));
        if let Some((_, object)) = objects.iter().find(|object| object.0 == parameter) {
            return Argument::object(*object);
        }
        let is_named = rule.pointers.contains(&u64::from(parameter));
        if bytes == 8 && (is_named || is_declared || is_pointer(function, param.name)) {
            pointers += 1;
            return match rule.null.contains(&(pointers - 1)) {
                true => Argument::scalar([0; 8]),
                false => Argument::buffer(buffer),
            };
        }
        if param.ty.starts_with('f') {
            return Argument::scalar(vec![0; bytes as usize]);
        }
        last = numbers.next().unwrap_or(last);
        match bytes {
            // A struct: its words are the same number.
            9.. => {
                let word = (last as u32).to_le_bytes().into_iter().cycle();
                Argument::scalar(word.take(bytes as usize).collect::<Vec<_>>())
            }
            _ => Argument::scalar(&last.to_le_bytes()[..bytes as usize]),
        }
    });
    LaunchValues {
        cluster: None,
        arguments: arguments.collect(),
        grid: rule.grid,
        block: rule.block,
        dynamic_shared: rule.shared,
    }
}

/// The buffers among the arguments of a launch.
pub(crate) fn roots(values: &LaunchValues) -> Vec<Option<Root>> {
    let arguments = (0..).zip(&values.arguments);
    let roots = arguments.flat_map(|(parameter, argument)| {
        let buffers = argument.buffers();
        buffers.map(move |(offset, _)| Some(Root::Buffer { parameter, offset }))
    });
    roots.collect()
}
