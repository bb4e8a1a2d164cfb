//! The linker, which combines several PTX texts into one image.
//!
//! The real linker produces a cubin. This one produces the PTX texts in sequence, each after a line
//! that states its length; only a software device can load the result.

use std::collections::HashSet;
use std::ffi::{c_char, c_uint, c_void};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use cuda_sys::{CUjit_option, CUjitInputType, CUlinkState, CUlinkState_st};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::jit::{Logs, Options, status_of_parse_error};
use crate::driver::objects::link::{Link, LinkLogs, image_of, is_cubin, texts};
use crate::driver::status::{
    FILE_NOT_FOUND, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Status, UNKNOWN,
};
use crate::vm;

exports! {
    cuLinkCreate | cuLinkCreate_v2 => link_create;
    cuLinkAddData | cuLinkAddData_v2 => link_add_data;
    cuLinkAddFile | cuLinkAddFile_v2 => link_add_file;
    cuLinkComplete => link_complete;
    cuLinkDestroy => link_destroy;
}

/// The functions of the device runtime library that this device provides as code: grid
/// synchronization. Others are part of the interpreter, or missing: calls of those fail by name.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

/// Returns whether a link input is `libcudadevrt.a`, an archive. The contents are machine code and
/// are not used.
fn is_device_runtime(name: &str, bytes: &[u8]) -> bool {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    bytes.starts_with(b"!<arch>\n") && name.contains("cudadevrt")
}

/// Returns the errors of the linker, one on each line: names with several definitions and names
/// without a definition.
fn link_errors(modules: &[(&str, cuda_ptx::Module<'_>)]) -> String {
    let exports = cuda_ptx::Exports::new(modules.iter().map(|(_, code)| code));
    let mut lines = String::new();
    for &(name, first, second) in exports.clashes() {
        let [first, second] = [first, second].map(|definition| modules[definition.module()].0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "error   : Multiple definition of '{name}' in '{second}', first defined in '{first}'"
        );
    }
    for (module, code) in modules {
        let own: HashSet<&str> = definitions(code).collect();
        let functions = code.functions.iter().filter(|f| f.body.is_none());
        let declared: HashSet<&str> = functions
            .map(|function| function.name)
            .filter(|name| !vm::is_of_the_device(name))
            .chain(externs(code))
            .filter(|name| !own.contains(name))
            .filter(|name| exports.get(name).is_none())
            .collect();
        let mut missing: Vec<&str> = used(code).filter(|name| declared.contains(name)).collect();
        missing.sort_unstable();
        missing.dedup();
        for name in missing {
            // Writing to a string cannot fail.
            let _ = writeln!(
                lines,
                "error   : Undefined reference to '{name}' in '{module}'"
            );
        }
    }
    lines
}

/// Returns the names of variables that are defined elsewhere, except unsized shared memory, whose
/// size the launch provides.
fn externs<'a>(code: &'a cuda_ptx::Module<'a>) -> impl Iterator<Item = &'a str> {
    let is_extern = |variable: &&cuda_ptx::Variable<'a>| {
        variable.linkage == cuda_ptx::Linkage::Extern && variable.space != cuda_ptx::Space::Shared
    };
    code.variables
        .iter()
        .filter(is_extern)
        .map(|variable| variable.name)
}

/// Returns the names of the functions with a body and of the variables that the module defines.
fn definitions<'a>(code: &'a cuda_ptx::Module<'a>) -> impl Iterator<Item = &'a str> {
    let functions = code.functions.iter().filter(|f| f.body.is_some());
    let variables = code
        .variables
        .iter()
        .filter(|variable| variable.linkage != cuda_ptx::Linkage::Extern);
    functions
        .map(|function| function.name)
        .chain(variables.map(|variable| variable.name))
}

/// Returns the names that instructions and initial values use.
fn used<'a>(code: &'a cuda_ptx::Module<'a>) -> impl Iterator<Item = &'a str> {
    let mut names = Vec::new();
    for statement in code.functions.iter().flat_map(|f| f.body.iter().flatten()) {
        if let cuda_ptx::Statement::Instruction(instruction) = statement {
            instruction
                .operands
                .iter()
                .for_each(|operand| collect(operand, &mut names));
        }
    }
    for init in code.variables.iter().flat_map(|variable| &variable.init) {
        if let cuda_ptx::Init::Symbol { name, .. } = init {
            names.push(*name);
        }
    }
    names.into_iter()
}

fn collect<'a>(operand: &cuda_ptx::Operand<'a>, names: &mut Vec<&'a str>) {
    type O<'a> = cuda_ptx::Operand<'a>;
    match operand {
        O::Name(name)
        | O::Offset(name, _)
        | O::Element(name, _)
        | O::Address(cuda_ptx::Base::Name(name), _) => {
            names.push(name);
        }
        O::Vector(inner) | O::Bracket(inner) | O::List(inner) => {
            inner.iter().for_each(|operand| collect(operand, names));
        }
        O::Pair(pair) => {
            collect(&pair.0, names);
            collect(&pair.1, names);
        }
        O::Member(..)
        | O::Literal(_)
        | O::Not(_)
        | O::Sink
        | O::Address(cuda_ptx::Base::Absolute, _) => {}
    }
}

impl Call {
    fn link(&self, handle: u64) -> Status<Arc<Link>> {
        self.links.get(handle).ok_or(INVALID_HANDLE)
    }

    fn link_create(
        &self,
        count: c_uint,
        names: Out<CUjit_option>,
        values: Out<*mut c_void>,
        state: Out<CUlinkState>,
    ) -> Status {
        state.required()?;
        let context = self.home()?;
        let options = Options {
            count,
            names,
            values,
        };
        let logs = Logs::read(Some(options), self.config.version)?;
        logs.write_all("", "", options);
        let handle = fresh();
        let link = Link {
            device: Arc::clone(&context.device),
            logs: LinkLogs(logs, options),
            state: Mutex::default(),
        };
        self.links.insert(handle, Arc::new(link));
        state.set(pointer(handle))
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn link_add_data(
        &self,
        state: Out<CUlinkState_st>,
        kind: CUjitInputType,
        data: Out<c_void>,
        size: usize,
        name: In<c_char>,
        count: c_uint,
        names: Out<CUjit_option>,
        values: Out<*mut c_void>,
    ) -> Status {
        let link = self.link(state.handle())?;
        let bytes = data.typed::<u8>().bytes(size)?;
        let name = match name.c_str() {
            Ok(name) => name.to_string_lossy().into_owned(),
            Err(_) => "<input>".to_owned(),
        };
        let options = Options {
            count,
            names,
            values,
        };
        self.link_add(&link, kind, bytes, name, options)
    }

    fn link_add_file(
        &self,
        state: Out<CUlinkState_st>,
        kind: CUjitInputType,
        path: In<c_char>,
        count: c_uint,
        names: Out<CUjit_option>,
        values: Out<*mut c_void>,
    ) -> Status {
        let link = self.link(state.handle())?;
        let path = path.text()?;
        let bytes = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
        let options = Options {
            count,
            names,
            values,
        };
        self.link_add(&link, kind, &bytes, path.to_owned(), options)
    }

    fn link_add(
        &self,
        link: &Link,
        kind: CUjitInputType,
        bytes: &[u8],
        name: String,
        options: Options,
    ) -> Status {
        Logs::read(Some(options), self.config.version)?;
        let mut state = link.state();
        if state.image.is_some() {
            return Err(INVALID_VALUE);
        }
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let texts = match kind {
            CUjitInputType::CU_JIT_INPUT_PTX => vec![&*text],
            CUjitInputType::CU_JIT_INPUT_CUBIN if is_cubin(&text) => texts(&text),
            kind if kind.0 >= CUjitInputType::CU_JIT_NUM_INPUT_TYPES.0 => {
                return Err(INVALID_VALUE);
            }
            CUjitInputType::CU_JIT_INPUT_LIBRARY if is_device_runtime(&name, bytes) => {
                vec![DEVICE_RUNTIME]
            }
            _ => {
                link.log_errors(&mut state, "error   : the software device links PTX only\n");
                return Err(NOT_SUPPORTED);
            }
        };
        for text in texts {
            if let Err(error) = cuda_ptx::parse(text) {
                link.log_errors(&mut state, &format!("{error}\n"));
                return Err(status_of_parse_error(text));
            }
            state.modules.push((name.clone(), text.to_owned()));
        }
        Ok(())
    }

    fn link_complete(
        &self,
        state: Out<CUlinkState_st>,
        image: Out<*mut c_void>,
        size: Out<usize>,
    ) -> Status {
        image.required()?;
        let link = self.link(state.handle())?;
        let mut state = link.state();
        if state.image.is_none() {
            let modules: Vec<(&str, cuda_ptx::Module<'_>)> = state
                .modules
                .iter()
                .filter_map(|(name, text)| Some((name.as_str(), cuda_ptx::parse(text).ok()?)))
                .collect();
            let lines = link_errors(&modules);
            drop(modules);
            if !lines.is_empty() {
                // NVIDIA's tests of cuda-core expect that the last line does not end in a newline.
                link.log_errors(&mut state, lines.trim_end());
                return Err(UNKNOWN);
            }
            let texts: Vec<&str> = state.modules.iter().map(|(_, text)| &**text).collect();
            if let Err((code, words)) =
                self.program_of(&texts, &link.device, link.logs.0.max_registers)
            {
                link.log_errors(&mut state, &format!("{words}\n"));
                return Err(code);
            }
            state.image = Some(image_of(&state.modules, link.logs.0.max_registers));
        }
        let made = state.image.as_mut().ok_or(INVALID_VALUE)?;
        size.set_if(made.len());
        // The image does not move until the link is destroyed.
        image.set(made.as_mut_ptr().cast())
    }

    fn link_destroy(&self, state: Out<CUlinkState_st>) -> Status {
        self.links
            .remove(state.handle())
            .map(drop)
            .ok_or(INVALID_HANDLE)
    }
}
