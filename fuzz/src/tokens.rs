//! A mutator for PTX. Most of its results still parse, so that the stages after the parser are
//! tested too.

use libfuzzer_sys::fuzzer_mutate;

/// Replacements for a token, besides other tokens of the text.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "16",
    "31",
    "32",
    "33",
    "63",
    "64",
    "255",
    "256",
    "65535",
    "65536",
    "1048576",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "0x7fffffff",
    "0xffffffff",
    "0f00000000",
    "0f3F800000",
    "0f7F800000",
    "0fFF800000",
    "0f7FC00000",
    "0d7FF0000000000000",
    "0d0000000000000001",
    ".b8",
    ".b16",
    ".b32",
    ".b64",
    ".b128",
    ".u8",
    ".u16",
    ".u32",
    ".u64",
    ".s8",
    ".s16",
    ".s32",
    ".s64",
    ".f16",
    ".f16x2",
    ".bf16",
    ".bf16x2",
    ".f32",
    ".f64",
    ".tf32",
    ".e4m3",
    ".e5m2",
    ".e4m3x2",
    ".e5m2x2",
    ".e2m1x2",
    ".e2m3x2",
    ".e3m2x2",
    ".ue8m0x2",
    ".pred",
    ".v2",
    ".v4",
    ".v8",
    ".x",
    ".y",
    ".z",
    ".w",
    ".global",
    ".shared",
    ".local",
    ".const",
    ".param",
    ".generic",
    ".shared::cluster",
    ".shared::cta",
    ".volatile",
    ".relaxed",
    ".acquire",
    ".release",
    ".acq_rel",
    ".gpu",
    ".sys",
    ".cta",
    ".cluster",
    ".rn",
    ".rz",
    ".rm",
    ".rp",
    ".rni",
    ".ftz",
    ".sat",
    ".satfinite",
    ".relu",
    ".approx",
    ".full",
    ".wide",
    ".lo",
    ".hi",
    ".cc",
    ".sync",
    ".aligned",
    ".up",
    ".down",
    ".bfly",
    ".idx",
    ".tile",
    ".b1024",
    ".mma_async",
    ".sp",
    ".global_address",
    ".rank",
    ".box_dim",
    ".global_dim",
    ".global_stride",
    ".element_stride",
    ".elemtype",
    ".interleave_layout",
    ".swizzle_mode",
    ".fill_mode",
    ".all",
    ".any",
    ".uni",
    ".ballot",
    ".align",
    ".reg",
    ".func",
    ".entry",
    ".extern",
    ".weak",
    ".visible",
    ".maxntid",
    ".reqntid",
    ".pragma",
    ".loc",
    "@",
    "!",
    "_",
    "%tid.x",
    "%ntid.y",
    "%ctaid.z",
    "%laneid",
    "%warpid",
    "%clock64",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_cap",
    "%reserved_smem_offset_1",
    "%total_smem_size",
    "%envreg1",
    "%r1",
    "%rd1",
    "%f1",
    "%fd1",
    "%p1",
    "%rs1",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    ";",
    ":",
    "+",
    "-",
    "<",
    ">",
    "|",
    "=",
    "\"",
    "//",
    "/*",
    "mov",
    "add",
    "sub",
    "mul",
    "mad",
    "div",
    "rem",
    "min",
    "max",
    "abs",
    "neg",
    "and",
    "or",
    "xor",
    "not",
    "shl",
    "shr",
    "shf",
    "bfe",
    "bfi",
    "bfind",
    "brev",
    "clz",
    "popc",
    "prmt",
    "lop3",
    "dp4a",
    "dp2a",
    "cvt",
    "cvt.pack.sat.s16.s32",
    "cvt.pack.sat.u4.s32.b32",
    "cvta",
    "isspacep",
    "ld",
    "st",
    "ldu",
    "prefetch",
    "atom",
    "red",
    "vote",
    "match",
    "shfl",
    "redux",
    "activemask",
    "bar",
    "barrier",
    "membar",
    "fence",
    "bra",
    "brx",
    "call",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "setp",
    "set",
    "selp",
    "slct",
    "testp",
    "copysign",
    "rcp",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "lg2",
    "ex2",
    "tanh",
    "fma",
    "mma",
    "wmma",
    "wgmma.fence.sync.aligned",
    "wgmma.mma_async",
    "wgmma.commit_group.sync.aligned",
    "wgmma.wait_group.sync.aligned",
    "ldmatrix",
    "stmatrix",
    "movmatrix",
    "cp",
    "mbarrier",
    "tensormap.replace",
    "tensormap.cp_fenceproxy",
    "mapa",
    "getctarank",
    "elect",
    "nanosleep",
    "alloca",
    "stacksave",
    "stackrestore",
    "tex",
    "suld",
    "sust",
    "malloc",
    "free",
    "cudaCGSynchronize",
    "cudaCGGetIntrinsicHandle",
    "// cuda-sim linked image\n",
    "// cuda-sim bytes ",
    "// cuda-sim registers ",
    "cuda-sim PTX in place of machine code\n",
];

/// A generator of random numbers with a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A custom mutator for libFuzzer: changes tokens and lines of `data[..size]`, and occasionally
/// bytes.
///
/// Returns the new size, which is at most `max_size`.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random(u64::from(seed));
    let text = std::str::from_utf8(&data[..size]).map(str::to_owned);
    let Ok(text) = text else {
        return fuzzer_mutate(data, size, max_size);
    };
    if text.is_empty() || random.below(16) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut text = text;
    for _ in 0..=random.below(3) {
        if text.is_empty() {
            // The only line was removed.
            break;
        }
        text = if random.below(3) == 0 {
            by_line(&text, &mut random)
        } else {
            by_token(&text, &mut random)
        };
    }
    let mut len = text.len().min(max_size).min(data.len());
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    data[..len].copy_from_slice(&text.as_bytes()[..len]);
    len
}

/// Splits a text into tokens, including white space; concatenated, they give the text.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || "_$%".contains(c);
        let same: &dyn Fn(char) -> bool = if first.is_whitespace() {
            &char::is_whitespace
        } else {
            &word
        };
        // A modifier keeps its dot.
        let skip = first.len_utf8();
        let end = if first == '.' || same(first) {
            rest[skip..]
                .find(|c| !same(c))
                .map_or(rest.len(), |end| end + skip)
        } else {
            skip
        };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}

fn by_token(text: &str, random: &mut Random) -> String {
    let mut tokens = tokens(text);
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&index| !tokens[index].trim().is_empty())
        .collect();
    if solid.is_empty() {
        return WORDS[random.below(WORDS.len())].to_owned();
    }
    let place = solid[random.below(solid.len())];
    let word = WORDS[random.below(WORDS.len())];
    // Another token of the same kind is the most likely to be valid.
    let kind = tokens[place].chars().next();
    let alike: Vec<&str> = tokens
        .iter()
        .chain(WORDS)
        .copied()
        .filter(|token| token.chars().next() == kind)
        .collect();
    let number;
    match random.below(8) {
        0 => tokens[place] = word,
        1 => tokens.insert(place, word),
        2 => drop(tokens.remove(place)),
        3 => {
            let other = solid[random.below(solid.len())];
            tokens.swap(place, other);
        }
        4 => {
            let digits: Vec<usize> = solid
                .iter()
                .copied()
                .filter(|&index| tokens[index].parse::<u64>().is_ok())
                .collect();
            if !digits.is_empty() {
                let place = digits[random.below(digits.len())];
                let value = tokens[place].parse::<u64>().unwrap_or(0);
                let changes = [
                    value.wrapping_add(1),
                    value.wrapping_sub(1),
                    value << 1,
                    value >> 1,
                    0,
                    1 << random.below(64),
                    random.next(),
                ];
                number = changes[random.below(changes.len())].to_string();
                tokens[place] = &number;
                return tokens.concat();
            }
        }
        _ if !alike.is_empty() => tokens[place] = alike[random.below(alike.len())],
        _ => tokens[place] = word,
    }
    tokens.concat()
}

fn by_line(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(4) {
        0 => drop(lines.remove(from)),
        1 => lines.insert(to, lines[from]),
        2 => lines.swap(from, to),
        _ => {
            let line = lines.remove(from);
            lines.insert(to.min(lines.len()), line);
        }
    }
    lines.concat()
}
