//! The messages of [`Error`].

use std::fmt;

use super::call::{FORKED, RESET};
use super::{Error, kernels};

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Driver(error) => fmt::Display::fmt(error, f),
            Self::OutOfMemory {
                kind,
                bytes,
                free,
                total,
                source,
            } => {
                write!(f, "{source}")?;
                kind.write(f, *bytes, *free, *total)
            }
            Self::Jit(error) => fmt::Display::fmt(error, f),
            Self::Cupti(error) => fmt::Display::fmt(error, f),
            Self::Lto(error) => fmt::Display::fmt(error, f),
            Self::Compile { message } => f.write_str(message),
            Self::File { path, kind } => {
                write!(f, "could not read {}: {kind}", path.display())
            }
            Self::Image(error) => error.fmt(f),
            Self::Ptx(error) => fmt::Display::fmt(error, f),
            Self::Argument(error) => error.fmt(f),
            Self::LaunchConfig(error) => error.fmt(f),
            Self::LaunchLimit(error) => fmt::Display::fmt(error, f),
            Self::Exchange(error) => error.fmt(f),
            Self::SafeLaunch(error) => error.fmt(f),
            Self::Violation(violations) => violations.fmt(f),
            Self::TensorMap(error) => error.fmt(f),
            Self::Array(error) => error.fmt(f),
            Self::NoSuchDevice {
                ordinal,
                count,
                driver,
            } => {
                write!(f, "device {ordinal} does not exist: ")?;
                match count {
                    0 => f.write_str("there are no devices")?,
                    1 => f.write_str("there is 1 device, with ordinal 0")?,
                    _ => write!(f, "there are {count} devices, 0 to {}", count - 1)?,
                }
                write!(f, " (driver: {driver})")?;
                match count {
                    0 => f.write_str(
                        "; check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use the software device",
                    ),
                    _ => Ok(()),
                }
            }
            Self::NoSuchFunction { name, kernels } => {
                write!(f, "the image has no kernel named {name:?}; ")?;
                kernels::write_kernels(f, name, kernels.as_deref())
            }
            Self::NoSuchGlobal { name } => write!(
                f,
                "the image has no variable named {name:?}: check its spelling; C++ mangles the name of a \
                 variable that is `static` or in a namespace: look up the mangled name, or declare \
                 the variable with `extern \"C\"`"
            ),
            Self::GlobalInUse { name } => {
                write!(
                    f,
                    "another `Global` of the variable {name:?} exists; drop it first"
                )
            }
            Self::ConstantVariable { name } => write!(
                f,
                "safe launches read the variable {name:?} as a constant table, so it can no longer \
                 be changed: look it up before the first of these launches, and pass its `Global` \
                 to them with `Using`"
            ),
            Self::NulByte { what, position } => {
                write!(f, "{what} contains a NUL byte at offset {position}: remove it")
            }
            Self::SizeOverflow { len, size } => {
                write!(
                    f,
                    "{len} elements of {size} bytes are more than {} bytes, the largest size; \
                     use fewer elements",
                    usize::MAX
                )
            }
            Self::LengthMismatch {
                source_len,
                destination_len,
            } => write!(
                f,
                "the source of the copy has {source_len} elements, but the destination has \
                 {destination_len}; copy a slice of the longer one"
            ),
            Self::ExtentMismatch {
                source_extent,
                destination_extent,
            } => write!(
                f,
                "the extent of the source is {source_extent} elements, but that of the destination is \
                 {destination_extent}; copy a `region` of the larger one"
            ),
            Self::Misaligned { address, align } => write!(
                f,
                "the address {address:#x} is not a multiple of {align}, the alignment of the \
                 element type; start at an offset that is a multiple of {align} bytes, or copy the \
                 elements to a new buffer"
            ),
            Self::UnsafeFlags { call, bits } => {
                write!(
                    f,
                    "{call} cannot be called safely with the flags {bits:#x}; remove these bits, \
                     or make the call through `cuda-sys`"
                )
            }
            Self::Uneven {
                variable,
                bytes,
                size,
            } => {
                let (what, step) = match variable {
                    Some(name) => (format!("variable {name}"), "look it up as another type"),
                    None => (
                        "view".to_owned(),
                        "slice it to a multiple first, or cast it to another type",
                    ),
                };
                write!(
                    f,
                    "the {what} has {bytes} bytes, which is not a multiple of the element size, \
                     {size}: {step}"
                )
            }
            Self::PoolLimit {
                bytes,
                limit,
                reserved,
            } => write!(
                f,
                "an allocation of {bytes} bytes exceeds the limit of the pool, which has allocated \
                 {reserved} of {limit} bytes; drop buffers of the pool, or raise the limit with \
                 `set_limit`"
            ),
            Self::ContextGone {
                call,
                is_reset: true,
            } => write!(f, "{call} was not called: {RESET}"),
            Self::ContextGone { call, .. } => write!(
                f,
                "{call} was not called: the owner of the borrowed context has declared it dead"
            ),
            Self::Forked { call } => write!(f, "{call} was not called: {FORKED}"),
            Self::ForeignContext { of } => write!(
                f,
                "the context of {of} was created by other code; borrow that context with \
                 `Context::borrow_raw`"
            ),
            Self::StillInUse { what, by } => write!(
                f,
                "{what} is still in use by {by}, which must be dropped first"
            ),
            Self::HostGuardExists { what } => {
                write!(f, "the host still has a guard of {what}; drop the guard first")
            }
            Self::ChildChanged => f.write_str(
                "another thread changed the child graph during the call; call again when that \
                 thread has finished",
            ),
            Self::OtherGraph => f.write_str("the node belongs to another graph; pass a node of the graph that is changed, or that the executable was instantiated from"),
            Self::NodeGone => f.write_str("the node was removed from its graph; add it again"),
            Self::GraphCycle { from, to } if from == to => write!(
                f,
                "an edge from node {from} to itself would create a cycle in the graph: pass another \
                 node"
            ),
            Self::GraphCycle { from, to } => write!(
                f,
                "an edge from node {from} to node {to} would create a cycle in the graph, because \
                 node {to} already leads to node {from}: remove an edge of that path first, or \
                 reverse the new edge"
            ),
            Self::Instantiate(error) => error.fmt(f),
            Self::GraphUpdate(error) => error.fmt(f),
            Self::GraphOrder { other } => write!(
                f,
                "this node and node {other} access the same memory, and neither depends on the \
                 other; add a dependency between them to the graph"
            ),
            Self::GraphOrderReversed { other } => write!(
                f,
                "this node and node {other} would access the same memory, so they have to run in \
                 the order in which they were added, but the one that was added first depends on \
                 the other; remove that dependency first"
            ),
            Self::Capturing { what } => {
                write!(
                    f,
                    "{what} is not possible while a capture is in progress; do it before the \
                     capture or after its end"
                )
            }
            Self::EagerCapture {
                call: call @ "EagerCapture::begin",
                is_elsewhere: false,
            } => write!(
                f,
                "{call}: this thread already captures the calls on the stream; end that capture \
                 first, or use another stream if its `EagerCapture` was lost in `mem::forget`: the \
                 stream then refuses calls for ever"
            ),
            Self::EagerCapture {
                call,
                is_elsewhere: false,
            } => write!(
                f,
                "{call} cannot be captured, and this thread captures the calls on the stream; \
                 call it before or after the capture, on another stream, or in \
                 `EagerCapture::outside`"
            ),
            Self::EagerCapture {
                call,
                is_elsewhere: true,
            } => write!(
                f,
                "{call} uses a stream whose calls another thread captures; use another stream, or \
                 wait for the end of the capture"
            ),
            Self::EmptyCapture { is_eager: false } => f.write_str(
                "the capture is empty: no call was made on its scope, and a call on a stream runs \
                 at once; call the methods of the scope instead, as in `scope.launch(…)`, or \
                 capture the calls on a stream with `Graph::capture_eager`",
            ),
            Self::EmptyCapture { is_eager: true } => f.write_str(
                "the capture is empty: this thread made no call on the captured stream, and a call \
                 on another stream runs at once; capture the stream on which the calls are made",
            ),
            Self::OutlivesCapture { buffers, bytes } => write!(
                f,
                "{buffers} buffer(s) of {bytes} bytes in total were created in the capture and \
                 still exist at its end; drop them before the end, or create them in \
                 `EagerCapture::outputs` or before the capture"
            ),
            Self::MemoryOfCapture => f.write_str(
                "the buffer was created in an eager capture, and only calls that the same capture \
                 captures can use it; create it in `EagerCapture::outputs` to use it after the launches",
            ),
            Self::NotYetWritten => f.write_str(
                "the buffer was created in `EagerCapture::outputs`, and the first launch of the \
                 captured graph writes it: launch the graph first",
            ),
            Self::UsedByOtherCode => f.write_str(
                "the memory is in use by the closure of `Stream::using` that this thread runs: make \
                 the call after the closure has returned",
            ),
            Self::GraphMemoryKept { node } => write!(
                f,
                "node {node} allocates memory that no node of the graph frees; free it with \
                 `Graph::add_free`"
            ),
            Self::NotUploaded => f.write_str(
                "kernels can update nodes of this graph: upload it after instantiating or \
                 changing it, and before launching it",
            ),
            Self::Unsupported { what } => match what.split_once("; ") {
                Some((what, instead)) => write!(f, "{what} is not supported; {instead}"),
                None => write!(f, "{what} is not supported"),
            },
            Self::Internal { what } => write!(f, "internal error: {what}; please report it"),
            Self::OutOfRange(error) => error.fmt(f),
            Self::AlreadyTaken { what } => write!(
                f,
                "{what} was already returned; do not poll a future again after it completes"
            ),
            Self::HostFunctionPanicked { message } => {
                write!(f, "a host function panicked: {message}")
            }
            Self::OtherContext {
                what,
                argument,
                of,
                used_with,
            } => {
                match argument {
                    Some(argument) => write!(f, "argument {argument} ({what})")?,
                    None => f.write_str(what)?,
                }
                if of == used_with {
                    write!(f, " belongs to another instance of {of}")?;
                } else {
                    write!(f, " belongs to {of}, but is used with {used_with}")?;
                }
                let is_memory = of.starts_with("the context")
                    && (argument.is_some() || *what == "a buffer");
                f.write_str(match is_memory {
                    true if argument.is_some() => {
                        "; pass a view of it with `for_peer`, or create both in the same context"
                    }
                    true => "; copy it with `copy_from_peer`, or create both in the same context",
                    false => "; create both in the same context",
                })
            }
        }
    }
}
