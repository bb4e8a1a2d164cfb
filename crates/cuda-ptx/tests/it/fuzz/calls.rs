//! Functions that random kernels call. They have the parameters of the kernel and its registers.

use super::generate::Generator;

impl Generator {
    /// Writes up to three functions. Each may call those before it.
    pub(super) fn functions(&mut self) {
        if self.rng.u32(..3) > 0 {
            return;
        }
        for number in 0..self.rng.u32(1..4) {
            let result = self.of(&[".param .b32 result", ".reg .b32 %r3"]);
            // `%r3` is one of the registers that the function declares.
            let result = result.replace("%r3", "result");
            self.plain(format!(
                ".func ({result}) f{number}(.param .b64 x, .param .b64 y, .param .b32 n, .param \
                 .b32 m,\n  .param .b64 w)\n{{"
            ));
            self.registers();
            self.budget = self.rng.i32(2..15);
            self.body(1);
            // The result may stay unset.
            let value = self.source(32);
            self.line(match result.starts_with(".param") {
                true => format!("st.param.b32 [result], {value};"),
                false => format!("mov.b32 result, {value};"),
            });
            if self.rng.bool() {
                self.plain("ret;");
            }
            self.plain("}");
            self.functions = number + 1;
        }
    }

    /// A call, with its arguments in variables or in registers.
    pub(super) fn call(&mut self) {
        let number = self.rng.u32(..self.functions);
        let buffers = [["%d5", "%d6"], ["%d6", "%d5"], ["%d5", "%d5"]][self.rng.usize(..3)];
        let mut arguments: Vec<String> = buffers.map(str::to_owned).into();
        arguments.extend([32, 32, 64].map(|bits| self.source(bits)));
        let target = self.reg(32);
        if self.rng.bool() {
            let (not, p) = (self.of(&["", "", "@", "@!"]), self.p());
            let guard = if not.is_empty() {
                String::new()
            } else {
                format!("{not}{p} ")
            };
            let list = arguments.join(", ");
            let is_used = self.rng.u32(..6) > 0;
            let target = if is_used { target } else { "_".to_owned() };
            return self.plain(format!("{guard}call ({target}), f{number}, ({list});"));
        }
        self.plain("{");
        for (index, (argument, bits)) in arguments.iter().zip([64, 64, 32, 32, 64]).enumerate() {
            self.plain(format!(".param .b{bits} param{index};"));
            self.line(format!("st.param.b{bits} [param{index}+0], {argument};"));
        }
        let names: Vec<String> = (0..arguments.len())
            .map(|index| format!("param{index}"))
            .collect();
        // Only a result in parameter space fits a variable.
        self.plain(".reg .b32 %result;");
        self.plain(format!(
            "call.uni (%result), f{number}, ({});",
            names.join(", ")
        ));
        self.plain(format!("mov.b32 {target}, %result;\n}}"));
    }
}
