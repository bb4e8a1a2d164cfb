//! Functions that the device provides: `vprintf`, `__assertfail`, `malloc`, `free` and
//! `cudaGraphSetConditional`.

use super::access::{self, Translator};
use super::code::{Builtin, CallSite, Place};
use super::fault::FaultKind;
use super::lane_fault::LaneFault;
use super::space::Env;
use super::vector::LANES;
use super::vector::bits;
use super::vector::{Over, each};
use super::warp::Warp;

/// The longest string that is read from device memory, in bytes.
const MAX_STRING: usize = 64 << 10;

/// The built-in function that a program may declare and call as `name`.
pub(super) fn by_name(name: &str) -> Option<Builtin> {
    match name {
        "vprintf" => Some(Builtin::Printf),
        "__assertfail" => Some(Builtin::Assert),
        "malloc" => Some(Builtin::Malloc),
        "free" => Some(Builtin::Free),
        "cudaGraphSetConditional" => Some(Builtin::SetConditional),
        _ => None,
    }
}

/// Whether `name` is a function of the CUDA device runtime: one that this device provides, or one
/// that only a real device does.
pub fn is_of_the_device(name: &str) -> bool {
    by_name(name).is_some()
        || name.starts_with("cuda")
        || name.starts_with("__nv")
        || matches!(name, "memcpy" | "memset" | "__cudaCDP2Malloc")
}

pub(super) fn call(
    w: &mut Warp,
    env: &Env<'_>,
    which: Builtin,
    site: &CallSite,
    m: u32,
) -> Result<(), LaneFault> {
    let argument = |w: &Warp, index: usize| match site.args.get(index) {
        Some(&place) => w.place(place),
        None => [0; LANES],
    };
    match which {
        Builtin::Printf => {
            let (formats, arguments) = (argument(w, 0), argument(w, 1));
            let mut counts = [0u64; LANES];
            for lane in bits(m) {
                let format = w.string(env, formats[lane], lane)?;
                let reader = Arguments {
                    warp: w,
                    env,
                    lane,
                    at: arguments[lane],
                };
                let (text, count) = render(&format, reader)?;
                (env.launch.output)(&text);
                counts[lane] = count;
            }
            if let Some(&place) = site.returns.first() {
                w.set_place(place, m, &counts);
            }
            Ok(())
        }
        Builtin::Assert => {
            let lane = m.trailing_zeros() as usize;
            let text = |index| {
                let bytes = w.string(env, argument(w, index)[lane], lane)?;
                Ok::<_, LaneFault>(String::from_utf8_lossy(&bytes).into_owned())
            };
            let line = argument(w, 2)[lane] as u32;
            let message = format!(
                "{}:{line}: {}: assertion `{}` failed",
                text(1)?,
                text(3)?,
                text(0)?
            );
            Err(LaneFault::new(FaultKind::Assert, m, message))
        }
        Builtin::Malloc => {
            let sizes = argument(w, 0);
            let mut addresses = [0; LANES];
            for lane in bits(m) {
                addresses[lane] = (env.launch.malloc)(sizes[lane]).unwrap_or(0);
            }
            if let Some(&place) = site.returns.first() {
                w.set_place(place, m, &addresses);
            }
            Ok(())
        }
        Builtin::Free => {
            let addresses = argument(w, 0);
            for lane in bits(m) {
                let address = addresses[lane];
                if address != 0 && !(env.launch.free)(address) {
                    let message =
                        format!("free({address:#x}): no block of the device heap starts there");
                    return Err(LaneFault::new(FaultKind::LaunchFailed, 1 << lane, message));
                }
            }
            Ok(())
        }
        Builtin::SetConditional => {
            let (handles, values) = (argument(w, 0), argument(w, 1));
            for lane in bits(m) {
                if !(env.launch.set_conditional)(handles[lane], values[lane] as u32) {
                    let message = format!(
                        "{:#x} is not the handle of a conditional node",
                        handles[lane]
                    );
                    return Err(LaneFault::new(FaultKind::LaunchFailed, 1 << lane, message));
                }
            }
            Ok(())
        }
    }
}

impl Warp {
    /// The value of a place in the current frame, for each lane.
    fn place(&self, place: Place) -> [u64; LANES] {
        match place {
            Place::R32(slot) => self.get32(slot).over(u64::from),
            Place::R64(slot) => self.get64(slot),
            Place::Pred(slot) => {
                let bits = self.get_pred(slot);
                each(|lane| u64::from(bits >> lane & 1))
            }
            Place::Local { offset, size } => each(|lane| {
                let start = self.local_index(lane, self.base.local + offset);
                let end = start + size.min(8) as usize;
                let mut word = [0; 8];
                if let Some(bytes) = self.local_bytes().get(start..end) {
                    word[..bytes.len()].copy_from_slice(bytes);
                }
                u64::from_le_bytes(word)
            }),
        }
    }

    fn set_place(&mut self, place: Place, m: u32, value: &[u64; LANES]) {
        let base = self.base;
        // A copy through a register would need a spare one, so each lane is stored separately.
        for lane in bits(m) {
            let bytes = value[lane].to_le_bytes();
            match place {
                Place::R32(slot) => self.put32(slot, 1 << lane, &[value[lane] as u32; LANES]),
                Place::R64(slot) => self.put64(slot, 1 << lane, &[value[lane]; LANES]),
                Place::Pred(slot) => self.put_pred(slot, 1 << lane, (value[lane] & 1) as u32),
                Place::Local { offset, size } => {
                    self.write_local(lane, base.local + offset, &bytes[..size.min(8) as usize]);
                }
            }
        }
    }

    /// Reads `size` bytes, 1, 4 or 8, at a generic address, for the host.
    fn peek(&self, env: &Env<'_>, at: u64, lane: usize, size: u64) -> Result<u64, LaneFault> {
        let host = Translator::default().translate(self, env, at, size, size, lane)?;
        // SAFETY: `host` must be the exposed, aligned address of `size` live bytes ←
        // `Translator::translate` found them.
        Ok(unsafe { access::load(size, host) })
    }

    /// Reads the bytes at a generic address up to a zero byte, or up to [`MAX_STRING`] bytes.
    fn string(&self, env: &Env<'_>, at: u64, lane: usize) -> Result<Vec<u8>, LaneFault> {
        let mut text = Vec::new();
        while text.len() < MAX_STRING {
            match self.peek(env, at.wrapping_add(text.len() as u64), lane, 1)? {
                0 => break,
                byte => text.push(byte as u8),
            }
        }
        Ok(text)
    }
}

/// The arguments of `vprintf`: values of 4 or 8 bytes, each at a multiple of its size.
struct Arguments<'a> {
    warp: &'a Warp,
    env: &'a Env<'a>,
    lane: usize,
    at: u64,
}

impl Arguments<'_> {
    fn next(&mut self, size: u64) -> Result<u64, LaneFault> {
        self.at = self.at.wrapping_add(size - 1) & !(size - 1);
        let value = self.warp.peek(self.env, self.at, self.lane, size)?;
        self.at = self.at.wrapping_add(size);
        Ok(value)
    }
}

/// One conversion specification of a format string.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// The size of the argument in bytes.
    size: u64,
}

/// Returns the formatted text and the number of arguments that it used.
fn render(format: &[u8], mut arguments: Arguments<'_>) -> Result<(Vec<u8>, u64), LaneFault> {
    let mut text = Vec::new();
    let mut count = 0;
    let mut rest = format.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        let mut spec = Spec {
            size: 4,
            ..Spec::default()
        };
        while let Some(&flag) = rest.peek() {
            match flag {
                b'-' => spec.left = true,
                b'+' => spec.plus = true,
                b' ' => spec.space = true,
                b'#' => spec.alternate = true,
                b'0' => spec.zero = true,
                _ => break,
            }
            rest.next();
        }
        let number = |rest: &mut std::iter::Peekable<_>, arguments: &mut Arguments<'_>| {
            if rest.next_if_eq(&b'*').is_some() {
                return Ok((arguments.next(4)? as i32).clamp(-4096, 4096));
            }
            let mut value = 0;
            while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
                value = (value * 10 + i32::from(digit - b'0')).min(4096);
            }
            Ok::<_, LaneFault>(value)
        };
        let width = number(&mut rest, &mut arguments)?;
        spec.left |= width < 0;
        spec.width = width.unsigned_abs() as usize;
        if rest.next_if_eq(&b'.').is_some() {
            let precision = number(&mut rest, &mut arguments)?;
            spec.precision = usize::try_from(precision).ok();
        }
        while let Some(length) = rest.next_if(|byte| b"hlLjzt".contains(byte)) {
            if length != b'h' {
                spec.size = 8;
            }
        }
        let Some(conversion) = rest.next() else {
            break;
        };
        if conversion == b'%' {
            text.push(b'%');
            continue;
        }
        count += 1;
        convert(&mut text, &spec, conversion, &mut arguments)?;
    }
    Ok((text, count))
}

fn convert(
    text: &mut Vec<u8>,
    spec: &Spec,
    conversion: u8,
    arguments: &mut Arguments<'_>,
) -> Result<(), LaneFault> {
    let sign = |negative: bool| match (negative, spec.plus, spec.space) {
        (true, _, _) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    match conversion {
        b'd' | b'i' => {
            let bits = arguments.next(spec.size)?;
            let value = if spec.size == 8 {
                bits as i64
            } else {
                i64::from(bits as i32)
            };
            let digits = least_digits(value.unsigned_abs().to_string(), spec.precision);
            pad(
                text,
                spec,
                sign(value < 0),
                digits.as_bytes(),
                spec.precision.is_none(),
            );
        }
        b'u' | b'o' | b'x' | b'X' => {
            let value = arguments.next(spec.size)?;
            let (prefix, digits) = match conversion {
                b'u' => ("", value.to_string()),
                b'o' => ("0", format!("{value:o}")),
                b'x' => ("0x", format!("{value:x}")),
                _ => ("0X", format!("{value:X}")),
            };
            let prefix = if spec.alternate && value != 0 {
                prefix
            } else {
                ""
            };
            let digits = least_digits(digits, spec.precision);
            pad(
                text,
                spec,
                prefix,
                digits.as_bytes(),
                spec.precision.is_none(),
            );
        }
        b'c' => {
            let byte = arguments.next(4)? as u8;
            pad(text, spec, "", &[byte], false);
        }
        b's' => {
            let mut value = match arguments.next(8)? {
                0 => b"(null)".to_vec(),
                at => arguments.warp.string(arguments.env, at, arguments.lane)?,
            };
            value.truncate(spec.precision.unwrap_or(usize::MAX));
            pad(text, spec, "", &value, false);
        }
        b'p' => {
            let value = arguments.next(8)?;
            pad(text, spec, "0x", format!("{value:x}").as_bytes(), false);
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
            let value = f64::from_bits(arguments.next(8)?);
            let mut digits = float(value.abs(), conversion.to_ascii_lowercase(), spec);
            if conversion.is_ascii_uppercase() {
                digits.make_ascii_uppercase();
            }
            let negative = value.is_sign_negative() && !value.is_nan();
            pad(
                text,
                spec,
                sign(negative),
                digits.as_bytes(),
                value.is_finite(),
            );
        }
        other => text.extend_from_slice(&[b'%', other]),
    }
    Ok(())
}

fn least_digits(digits: String, precision: Option<usize>) -> String {
    match precision {
        Some(precision) => format!("{digits:0>precision$}"),
        None => digits,
    }
}

fn pad(text: &mut Vec<u8>, spec: &Spec, prefix: &str, body: &[u8], zeros_allowed: bool) {
    let missing = spec.width.saturating_sub(prefix.len() + body.len());
    let zeros = spec.zero && zeros_allowed && !spec.left;
    if !spec.left && !zeros {
        text.resize(text.len() + missing, b' ');
    }
    text.extend_from_slice(prefix.as_bytes());
    if zeros {
        text.resize(text.len() + missing, b'0');
    }
    text.extend_from_slice(body);
    if spec.left {
        text.resize(text.len() + missing, b' ');
    }
}

fn float(value: f64, conversion: u8, spec: &Spec) -> String {
    if value.is_nan() {
        return String::from("nan");
    }
    if value.is_infinite() {
        return String::from("inf");
    }
    let precision = spec.precision.unwrap_or(6);
    match conversion {
        b'f' => format!("{value:.precision$}"),
        b'e' => exponent(value, precision),
        b'a' => hex(value),
        _ => {
            let precision = precision.max(1);
            let scientific = format!("{value:.*e}", precision - 1);
            let power = scientific
                .split_once('e')
                .and_then(|(_, power)| power.parse::<i32>().ok())
                .unwrap_or(0);
            let text = if power < -4 || power >= precision as i32 {
                exponent(value, precision - 1)
            } else {
                format!("{value:.*}", (precision as i32 - 1 - power).max(0) as usize)
            };
            if spec.alternate || !text.contains('.') {
                return text;
            }
            let (number, power) = match text.find('e') {
                Some(at) => text.split_at(at),
                None => (text.as_str(), ""),
            };
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number}{power}")
        }
    }
}

fn exponent(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{number}e{sign}{:02}", power.abs())
}

fn hex(value: f64) -> String {
    let bits = value.to_bits();
    let power = (bits >> 52 & 0x7ff) as i32;
    let (lead, power) = match (power, bits << 12) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        _ => (1, power - 1023),
    };
    let digits = format!("{:013x}", bits & 0xf_ffff_ffff_ffff);
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{digits}p{power:+}")
}
