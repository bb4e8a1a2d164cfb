//! The deprecated way to launch a kernel: the shape of a block and the parameters are set on the
//! function, one by one.

use std::ffi::{c_int, c_uint, c_void};

use cuda_sys::{CUfunc_st, CUstream_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::objects::launch::Shape;
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuFuncSetBlockShape => func_set_block_shape;
    cuFuncSetSharedSize => func_set_shared_size;
    cuParamSetSize => param_set_size;
    cuParamSeti => param_set_i;
    cuParamSetf => param_set_f;
    cuParamSetv => param_set_v;
    cuLaunch => launch_one;
    cuLaunchGrid => launch_grid;
    cuLaunchGridAsync => launch_grid_async;
}

impl Call {
    fn func_set_block_shape(
        &self,
        function: Out<CUfunc_st>,
        x: c_int,
        y: c_int,
        z: c_int,
    ) -> Status {
        let function = self.function(function.handle())?;
        let block = [x, y, z].map(|length| u32::try_from(length).unwrap_or(0));
        if block.contains(&0) {
            return Err(INVALID_VALUE);
        }
        function.legacy().block = block;
        Ok(())
    }

    fn func_set_shared_size(&self, function: Out<CUfunc_st>, bytes: c_uint) -> Status {
        self.function(function.handle())?.legacy().shared = bytes;
        Ok(())
    }

    fn param_set_size(&self, function: Out<CUfunc_st>, bytes: c_uint) -> Status {
        let function = self.function(function.handle())?;
        if bytes > function.kernel()?.param_bytes {
            return Err(INVALID_VALUE);
        }
        function.legacy().param_bytes = bytes as usize;
        Ok(())
    }

    fn param_set_i(&self, function: Out<CUfunc_st>, offset: c_int, value: c_uint) -> Status {
        self.set_param(function, offset, &value.to_ne_bytes())
    }

    fn param_set_f(&self, function: Out<CUfunc_st>, offset: c_int, value: f32) -> Status {
        self.set_param(function, offset, &value.to_ne_bytes())
    }

    fn param_set_v(
        &self,
        function: Out<CUfunc_st>,
        offset: c_int,
        value: Out<c_void>,
        bytes: c_uint,
    ) -> Status {
        let value = value.typed::<u8>().bytes(bytes as usize)?;
        self.set_param(function, offset, value)
    }

    /// Writes a part of the parameter buffer.
    fn set_param(&self, function: Out<CUfunc_st>, offset: c_int, value: &[u8]) -> Status {
        let function = self.function(function.handle())?;
        let size = function.kernel()?.param_bytes as usize;
        let start = usize::try_from(offset).map_err(|_| INVALID_VALUE)?;
        let end = start.checked_add(value.len()).ok_or(INVALID_VALUE)?;
        let mut legacy = function.legacy();
        legacy.params.resize(size, 0);
        let place = legacy.params.get_mut(start..end).ok_or(INVALID_VALUE)?;
        place.copy_from_slice(value);
        Ok(())
    }

    fn launch_one(&self, function: Out<CUfunc_st>) -> Status {
        self.launch_legacy(function, [1, 1], 0)
    }

    fn launch_grid(&self, function: Out<CUfunc_st>, width: c_int, height: c_int) -> Status {
        self.launch_legacy(function, [width, height], 0)
    }

    fn launch_grid_async(
        &self,
        function: Out<CUfunc_st>,
        width: c_int,
        height: c_int,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.launch_legacy(function, [width, height], stream.handle())
    }

    /// Launches a grid of blocks with the shape and the parameters that were set on the function.
    fn launch_legacy(&self, function: Out<CUfunc_st>, grid: [c_int; 2], stream: u64) -> Status {
        let function = self.function(function.handle())?;
        let legacy = function.legacy().clone();
        let [x, y] = grid.map(|length| u32::try_from(length).unwrap_or(0));
        let shape = Shape::new([x, y, 1], legacy.block, legacy.shared);
        let size = function.kernel()?.param_bytes as usize;
        if legacy.param_bytes < size {
            return Err(INVALID_VALUE);
        }
        let mut params = legacy.params;
        params.resize(size, 0);
        self.launch_packed(&function, shape, stream, params)
    }
}
