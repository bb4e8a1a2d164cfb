//! Kernel launches.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use cuda_sys::{CUfunc_st, CUlaunchConfig, CUstream_st};

use crate::driver::arg::{Arg, In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::instance::take_stated_uses;
use crate::driver::objects::function::Function;
use crate::driver::objects::graph::attribute::{Attributes, write_device_node};
use crate::driver::objects::graph::payload::{Kernel, Payload};
use crate::driver::objects::launch::{Shape, attributes_of, pack};
use crate::driver::status::{INVALID_HANDLE, NOT_SUPPORTED, Status};

exports! {
    cuLaunchKernel | cuLaunchKernel_ptsz => launch_kernel;
    cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz => launch_cooperative_kernel;
    cuLaunchKernelEx | cuLaunchKernelEx_ptsz => launch_kernel_ex;
}

impl Call {
    fn launch(
        &self,
        function: u64,
        (shape, attributes): (Shape, Attributes),
        stream: u64,
        params: Out<*mut c_void>,
        extra: Out<*mut c_void>,
    ) -> Status {
        let function = self.function(function)?;
        let pack = || pack(&function, params, extra);
        self.launch_with(&function, (shape, attributes), stream, pack)
    }

    /// Launches a kernel whose parameters are in one buffer.
    pub(in crate::driver) fn launch_packed(
        &self,
        function: &Arc<Function>,
        shape: Shape,
        stream: u64,
        params: Vec<u8>,
    ) -> Status {
        let attributes = Attributes::default();
        self.launch_with(function, (shape, attributes), stream, || Ok(params))
    }

    fn launch_with(
        &self,
        function: &Arc<Function>,
        (shape, attributes): (Shape, Attributes),
        stream: u64,
        params: impl FnOnce() -> Status<Vec<u8>>,
    ) -> Status {
        let uses = take_stated_uses();
        let stream = self.stream(stream)?;
        if function.module.context.handle != stream.context.home_handle() {
            return Err(INVALID_HANDLE);
        }
        if let Err(code) = shape.check(function, &stream.context) {
            self.invalidate_at(&stream);
            return Err(code);
        }
        let params = params()?;
        self.record(function, shape, &params);
        let is_of_graphs = attributes.is_of_graphs();
        if self.captured(&stream, || {
            let attributes = attributes.captured(stream.priority);
            Kernel::new(function, shape, &params, attributes, &stream.context).map(Payload::Kernel)
        })? {
            return Ok(());
        }
        if is_of_graphs {
            return Err(NOT_SUPPORTED);
        }
        let mut job = self.job(function, shape, params, &stream.context);
        job.uses = uses;
        self.enqueue(&stream, &[], move || job.run());
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn launch_kernel(
        &self,
        f: Out<CUfunc_st>,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: Out<CUstream_st>,
        params: Out<*mut c_void>,
        extra: Out<*mut c_void>,
    ) -> Status {
        let grid = [grid_x, grid_y, grid_z];
        let block = [block_x, block_y, block_z];
        self.launch(
            f.handle(),
            (Shape::new(grid, block, shared), Attributes::default()),
            stream.handle(),
            params,
            extra,
        )
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn launch_cooperative_kernel(
        &self,
        f: Out<CUfunc_st>,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: Out<CUstream_st>,
        params: Out<*mut c_void>,
    ) -> Status {
        let grid = [grid_x, grid_y, grid_z];
        let block = [block_x, block_y, block_z];
        let shape = Shape {
            cooperative: true,
            ..Shape::new(grid, block, shared)
        };
        self.launch(
            f.handle(),
            (shape, Attributes::cooperative()),
            stream.handle(),
            params,
            Out::null(),
        )
    }

    fn launch_kernel_ex(
        &self,
        config: In<CUlaunchConfig>,
        f: Out<CUfunc_st>,
        params: Out<*mut c_void>,
        extra: Out<*mut c_void>,
    ) -> Status {
        let config = config.get()?;
        let attributes = attributes_of(&config, self.config.version)?;
        let shape = Shape {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared: config.sharedMemBytes,
            cooperative: attributes.cooperative,
            cluster: attributes.cluster,
        };
        let device_node = attributes.device_node();
        self.launch(
            f.handle(),
            (shape, attributes),
            config.hStream.addr() as u64,
            params,
            extra,
        )?;
        let Some(device_node) = device_node else {
            return Ok(());
        };
        // SAFETY: there must be `numAttrs` attributes, which may be written ← the contract of
        // cuLaunchKernelEx.
        let attributes = unsafe { config.attrs.wrap() };
        write_device_node(attributes, config.numAttrs as usize, device_node)
    }
}
