//! A macro that launches a kernel with a syntax like that of CUDA C++.

/// `kernel<<<grid, block, shared>>>(args)`—Queues a kernel, as
/// [`Stream::launch`](crate::Stream::launch) does.
///
/// Write `launch!(stream, kernel[grid, block](args))`, or `[grid, block, shared]` with the number
/// of bytes of dynamic shared memory. Grid and block are values that convert to
/// [`Dim3`](crate::Dim3). The kernel is a variable or a field; any other expression must be in
/// parentheses.
///
/// It expands to a call of the `unsafe` function [`Stream::launch`](crate::Stream::launch); see
/// there for the safety contract, the result and the errors.
///
/// ```no_run
/// # use cuda_driver::{DeviceBuffer, Function, Stream, launch};
/// # fn f(stream: &Stream, saxpy: &Function, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> cuda_driver::Result<()> {
/// // SAFETY: the kernel reads 300 floats of `x` and writes 300 floats of `y`.
/// unsafe { launch!(stream, saxpy[2, 256](2.0_f32, x, y, 300_u32)) }
/// # }
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
