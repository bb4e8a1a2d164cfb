//! Loading modules.

use std::sync::{Arc, Mutex, RwLock};

use crate::driver::handle::fresh;
use crate::driver::instance::Instance;
use crate::driver::objects::context::Context;
use crate::driver::objects::function::Function;
use crate::driver::objects::jit::{Code, code_of};
use crate::driver::objects::module::Module;
use crate::driver::status::Status;
use crate::lock::{lock, write};
use crate::vm::Image;

impl Instance {
    /// Loads a program into a context and allocates its variables.
    pub(in crate::driver) fn load(
        &self,
        code: Arc<Code>,
        context: &Arc<Context>,
        library: Option<u64>,
    ) -> Status<Arc<Module>> {
        let image = Image::new(&code.program, &context.device.arena);
        let image = image.map_err(|error| code_of(&error))?;
        let module = Arc::new(Module {
            handle: fresh(),
            context: Arc::clone(context),
            code,
            image: Arc::new(RwLock::new(image)),
            library,
            functions: Mutex::default(),
        });
        self.modules.insert(module.handle, Arc::clone(&module));
        Ok(module)
    }

    /// Unloads the modules that `which` accepts, after waiting for their running kernels.
    pub(in crate::driver) fn unload_modules(&self, which: impl Fn(&Module) -> bool) {
        for module in self.modules.drain(which) {
            self.functions
                .drain(|function| function.module.handle == module.handle);
            write(&module.image).release(&module.context.device.arena);
        }
    }

    /// Returns the function for kernel `index`; it is the same function each time.
    pub(in crate::driver) fn function_of(
        &self,
        module: &Arc<Module>,
        index: usize,
    ) -> Arc<Function> {
        let mut handles = lock(&module.functions);
        if let Some(function) = handles
            .get(&index)
            .and_then(|&handle| self.functions.get(handle))
        {
            return function;
        }
        let function = Arc::new(Function::new(module, index));
        handles.insert(index, function.handle);
        self.functions
            .insert(function.handle, Arc::clone(&function));
        function
    }
}
