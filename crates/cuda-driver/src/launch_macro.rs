//! A macro that launches a kernel with a syntax like that of CUDA C++.

/// `kernel<<<grid, block, shared>>>(args)`—Queues a kernel, as
/// [`Stream::launch`](crate::Stream::launch) does.
///
/// Write `launch!(stream, kernel[grid, block](args))`, or `[grid, block, shared]` with the number
/// of bytes of dynamic shared memory. Grid and block are values that convert to
/// [`Dim3`](crate::Dim3). The kernel is a variable or a field; any other expression must be in
/// parentheses.
///
/// It expands to a call of the `unsafe` function [`Stream::launch`](crate::Stream::launch), whose
/// documentation has the safety contract, the result and the errors.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Module, Ptx, launch};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let mix = Module::load(&context, &mix)?.function("mix")?;
/// let mut x = DeviceBuffer::filled(&stream, 300, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 300, 5_u32)?;
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 300 words.
/// unsafe { launch!(stream, mix[2, 256](&mut x, &y, 300_u32)) }?;
/// assert_eq!(x.to_vec()?, [7; 300]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! launch {
    ($stream:expr, ($kernel:expr)[$grid:expr, $block:expr $(, $shared:expr)? $(,)?]($($arg:expr),* $(,)?)) => {
        $crate::Stream::launch(
            &$stream,
            &$kernel,
            $crate::LaunchConfig::new($grid, $block)$(.with_shared_bytes($shared))?,
            ($($arg,)*),
        )
    };
    ($stream:expr, $($kernel:ident).+ [$($config:expr),* $(,)?]($($arg:expr),* $(,)?)) => {
        $crate::launch!($stream, ($($kernel).+)[$($config),*]($($arg),*))
    };
}

// The path of the macro alone, for the prelude: `crate::launch` is also a module.
pub use launch;
