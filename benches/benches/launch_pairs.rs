//! The additional cost of each form of launch over the raw function pointer, measured in pairs of
//! runs that alternate.
//!
//! Runs on the null driver and on a GPU if there is one. `LAUNCH_PAIRS` is the number of pairs of
//! each row (default: a million).

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::thread;

use benches::{COUNTS, Pairs, empty_kernels, number_of_pairs, on_each_driver};
use cuda_driver::Kernel;
use cuda_driver::launch::{ArgList, ParamType, Reads, Writes};
use cuda_driver::memory::ThreadBuffer;
use cuda_driver::prelude::*;

/// A stream, with the kernels and the buffers that are launched on it.
struct Setup {
    stream: Stream,
    functions: [Function; 4],
    buffers: Vec<DeviceBuffer<u64>>,
}

/// A row of the table.
struct Row {
    form: &'static str,
    count: usize,
    situation: &'static str,
    pairs: Pairs,
    /// The limit of the additional cost in nanoseconds.
    bar: Option<f64>,
}

const LAUNCHED: &str = "the launch succeeds";

impl Setup {
    fn new(context: &Context) -> cuda_driver::Result<Self> {
        let stream = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
        let buffers = (0..8).map(|_| DeviceBuffer::zeroed(&stream, 1));
        Ok(Self {
            functions: empty_kernels(context)?,
            buffers: buffers.collect::<cuda_driver::Result<_>>()?,
            stream,
        })
    }

    /// Measures pairs of the raw function pointer and `launch`, which gets the stream, the kernel
    /// and the buffers.
    fn pairs(
        &mut self,
        number: u32,
        count: usize,
        mut launch: impl FnMut(&Stream, &Function, &mut [DeviceBuffer<u64>; 8]),
    ) -> Pairs {
        let Self {
            stream,
            functions,
            buffers,
        } = self;
        let driver = stream.context().driver();
        let entry_point = driver
            .library()
            .cuLaunchKernel
            .expect("every driver has cuLaunchKernel");
        let index = COUNTS.iter().position(|known| *known == count);
        let function = &functions[index.expect("a kernel has this number of parameters")];
        let mut values: Vec<u64> = (0..count)
            .map(|i| buffers.get(i).map_or(7, DeviceBuffer::as_raw))
            .collect();
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| ptr::from_mut(value).cast())
            .collect();
        let (raw, on) = (function.as_raw(), stream.as_raw());
        let buffers: &mut [DeviceBuffer<u64>; 8] =
            buffers.as_mut_slice().try_into().expect("there are 8");
        Pairs::measure(
            number,
            || {
                let arguments = black_box(pointers.as_mut_ptr());
                // SAFETY: `count` pointers to 8-byte values, which the kernel does not read.
                let status = unsafe {
                    entry_point(raw, 1, 1, 1, 32, 1, 1, 0, on, arguments, ptr::null_mut())
                };
                assert!(status.is_success());
            },
            || launch(stream, function, buffers),
            || stream.synchronize().expect("the kernels do nothing"),
        )
    }

    fn table(&mut self, number: u32) -> Pairs {
        let mut values = [7_u64; 12];
        let mut pointers: [*mut c_void; 12] =
            values.each_mut().map(|value| ptr::from_mut(value).cast());
        self.pairs(number, 12, |stream, function, _| {
            let (raw, on, table) = (
                function.as_raw(),
                stream.as_raw(),
                stream.context().driver().library(),
            );
            let arguments = black_box(pointers.as_mut_ptr());
            // SAFETY: 12 pointers to 8-byte values.
            let status = unsafe {
                table.cuLaunchKernel(raw, 1, 1, 1, 32, 1, 1, 0, on, arguments, ptr::null_mut())
            };
            assert!(status.is_success());
        })
    }

    /// Measures the raw function pointer again, with all values in one packed block.
    fn raw_block(&mut self, number: u32) -> Pairs {
        let entry_point = self.stream.context().driver().library().cuLaunchKernel;
        let entry_point = entry_point.expect("every driver has cuLaunchKernel");
        let mut values = [7_u64; 12];
        let mut bytes = size_of_val(&values);
        let mut extra: [*mut c_void; 5] = [
            ptr::without_provenance_mut(1),
            values.as_mut_ptr().cast(),
            ptr::without_provenance_mut(2),
            (&raw mut bytes).cast(),
            ptr::null_mut(),
        ];
        self.pairs(number, 12, |stream, function, _| {
            let (raw, on) = (function.as_raw(), stream.as_raw());
            let extra = black_box(extra.as_mut_ptr());
            // SAFETY: a block of 12 8-byte values.
            let status =
                unsafe { entry_point(raw, 1, 1, 1, 32, 1, 1, 0, on, ptr::null_mut(), extra) };
            assert!(status.is_success());
        })
    }

    fn tuple(&mut self, number: u32) -> Pairs {
        let [s, t, u, v] = [1_u64, 2, 3, 4].map(black_box);
        self.pairs(number, 12, |stream, function, [a, b, c, d, e, f, g, h]| {
            let arguments = (&*a, &*b, &*c, &*d, &*e, &*f, g, h, s, t, u, v);
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(function, LaunchConfig::new(1, 32), arguments) }
                .expect(LAUNCHED);
        })
    }

    fn tuple_of_4(&mut self, number: u32) -> Pairs {
        let [s, t] = [1_u64, 2].map(black_box);
        self.pairs(number, 4, |stream, function, [a, b, ..]| {
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(function, LaunchConfig::new(1, 32), (&*a, b, s, t)) }
                .expect(LAUNCHED);
        })
    }

    fn tuple_of_none(&mut self, number: u32) -> Pairs {
        self.pairs(number, 0, |stream, function, _| {
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(function, LaunchConfig::new(1, 32), ()) }.expect(LAUNCHED);
        })
    }

    fn typed(&mut self, number: u32) -> Pairs {
        type R = Reads<u64>;
        type W = Writes<u64>;
        type Parameters = (R, R, R, R, R, R, W, W, u64, u64, u64, u64);
        let kernel: Kernel<Parameters> = self.functions[2]
            .typed()
            .expect("the kernel has 12 parameters");
        let [s, t, u, v] = [1_u64, 2, 3, 4].map(black_box);
        self.pairs(number, 12, |stream, _, [a, b, c, d, e, f, g, h]| {
            let arguments = (&*a, &*b, &*c, &*d, &*e, &*f, g, h, s, t, u, v);
            // SAFETY: the kernel does nothing.
            unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), arguments) }.expect(LAUNCHED);
        })
    }

    fn typed_scalars(&mut self, number: u32) -> Pairs {
        let kernel: Kernel<(u64, u64, u64, u64)> = self.functions[1]
            .typed()
            .expect("the kernel has 4 parameters");
        let [s, t, u, v] = [1_u64, 2, 3, 4].map(black_box);
        self.pairs(number, 4, |stream, _, _| {
            // SAFETY: the kernel does nothing.
            unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (s, t, u, v)) }
                .expect(LAUNCHED);
        })
    }

    fn list(&mut self, number: u32, count: usize) -> Pairs {
        self.pairs(number, count, |stream, function, buffers| {
            let mut list = ArgList::new();
            for buffer in buffers {
                list.push(buffer);
            }
            while list.len() < count {
                list.push(7_u64);
            }
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(function, LaunchConfig::new(1, 32), &list) }.expect(LAUNCHED);
        })
    }

    /// Launches the same list again and again.
    fn reused_list(&mut self, number: u32) -> Pairs {
        let mut buffers = self.more_buffers();
        let mut list = ArgList::new();
        for buffer in &mut buffers {
            list.push(buffer);
        }
        while list.len() < 12 {
            list.push(7_u64);
        }
        self.pairs(number, 12, |stream, function, _| {
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(function, LaunchConfig::new(1, 32), &list) }.expect(LAUNCHED);
        })
    }

    /// Launches the same arguments of a prepared kernel again and again.
    fn prepared(&mut self, number: u32) -> Pairs {
        let mut buffers = self.more_buffers();
        let mut signature = vec![ParamType::writes::<u64>(); 8];
        signature.extend([ParamType::value::<u64>(); 4]);
        let kernel = self.functions[2].prepare(&signature);
        let kernel = kernel.expect("the kernel has 12 parameters");
        let mut args = kernel.args();
        for buffer in &mut buffers {
            args.push(buffer).expect("a buffer");
        }
        for value in 0..4_u64 {
            args.push(value).expect("a number");
        }
        self.pairs(number, 12, |stream, _, _| {
            // SAFETY: the kernel does nothing.
            unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), &args) }.expect(LAUNCHED);
        })
    }

    /// Launches a typed kernel on the per-thread stream, with buffers that stay on this thread, or
    /// that any thread may use.
    fn on_thread_stream(&mut self, number: u32, stays: bool) -> Pairs {
        type W = Writes<u64>;
        let kernel: Kernel<(W, W, u64, u64)> = self.functions[1]
            .typed()
            .expect("the kernel has 4 parameters");
        let thread = self.stream.context().thread_stream();
        let new = || ThreadBuffer::zeroed(&thread, 1).expect("8 bytes");
        let config = LaunchConfig::new(1, 32);
        let [s, t] = [1_u64, 2].map(black_box);
        if stays {
            let (mut a, mut b) = (new(), new());
            return self.pairs(number, 4, |_, _, _| {
                // SAFETY: the kernel does nothing.
                unsafe { kernel.launch(&*thread, config, (&mut a, &mut b, s, t)) }.expect(LAUNCHED);
            });
        }
        let (mut a, mut b) = (new().into_shared(), new().into_shared());
        self.pairs(number, 4, |_, _, _| {
            // SAFETY: the kernel does nothing.
            unsafe { kernel.launch(&*thread, config, (&mut a, &mut b, s, t)) }.expect(LAUNCHED);
        })
    }

    /// Returns 8 buffers on the stream of the setup.
    fn more_buffers(&self) -> Vec<DeviceBuffer<u64>> {
        (0..8)
            .map(|_| DeviceBuffer::zeroed(&self.stream, 1).expect("8 bytes"))
            .collect()
    }

    /// Returns a setup whose stream is borrowed from this one.
    fn borrowed(&self, allows_capture: bool) -> cuda_driver::Result<Self> {
        let context = self.stream.context();
        let mut raw = ptr::null_mut();
        let current = context.make_current()?;
        let library = context.driver().library();
        // SAFETY: the pointer is to a local.
        let status = unsafe { library.cuStreamCreate(&raw mut raw, 1) };
        assert!(status.is_success());
        drop(current);
        // SAFETY: the stream is never destroyed, and nothing captures it.
        let stream = unsafe { Stream::borrow_raw(context, raw, ()) }?;
        if allows_capture {
            stream.allow_capture()?;
        }
        let buffers = (0..8).map(|_| DeviceBuffer::zeroed(&stream, 1));
        Ok(Self {
            functions: empty_kernels(context)?,
            buffers: buffers.collect::<cuda_driver::Result<_>>()?,
            stream,
        })
    }
}

/// Measures every form on one stream, then the tuple and the typed kernel while more objects are
/// alive.
fn rows(driver: &Driver, number: u32, is_null: bool) -> cuda_driver::Result<Vec<Row>> {
    let bar = |null: f64, gpu: f64| Some(if is_null { null } else { gpu });
    let context = driver.device(0)?.primary_context()?;
    let mut setup = Setup::new(&context)?;
    let mut rows = Vec::new();
    let mut add = |form, count, situation, pairs, bar| {
        rows.push(Row {
            form,
            count,
            situation,
            pairs,
            bar,
        });
    };
    let one = "one stream";
    add("table", 12, one, setup.table(number), None);
    add(
        "raw, one packed buffer",
        12,
        one,
        setup.raw_block(number),
        None,
    );
    add(
        "tuple",
        0,
        one,
        setup.tuple_of_none(number),
        bar(25.0, 30.0),
    );
    add("tuple", 4, one, setup.tuple_of_4(number), bar(25.0, 30.0));
    add("tuple", 12, one, setup.tuple(number), bar(25.0, 30.0));
    add(
        "typed, scalars",
        4,
        one,
        setup.typed_scalars(number),
        bar(5.0, 15.0),
    );
    add("typed", 12, one, setup.typed(number), bar(15.0, 15.0));
    add("list", 12, one, setup.list(number, 12), None);
    add("list", 64, one, setup.list(number, 64), None);
    add(
        "list, reused",
        12,
        one,
        setup.reused_list(number),
        bar(25.0, 30.0),
    );
    add(
        "prepared, reused",
        12,
        one,
        setup.prepared(number),
        bar(25.0, 30.0),
    );
    for (situation, allows_capture) in [("borrowed stream", false), ("may be captured", true)] {
        let mut borrowed = setup.borrowed(allows_capture)?;
        add("typed", 12, situation, borrowed.typed(number), None);
    }

    for (form, stays) in [("thread buffers", true), ("shared buffers", false)] {
        let pairs = setup.on_thread_stream(number, stays);
        add(form, 4, "per-thread stream", pairs, None);
    }

    let others: cuda_driver::Result<Vec<Setup>> = (1..8).map(|_| Setup::new(&context)).collect();
    let mut others = others?;
    let eight = "8 streams alive";
    add("tuple", 12, eight, setup.tuple(number), bar(25.0, 30.0));
    add("typed", 12, eight, setup.typed(number), bar(15.0, 15.0));

    let mut together = Pairs::default();
    thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter_mut()
            .chain([&mut setup])
            .map(|setup| scope.spawn(move || setup.typed(number / 8)))
            .collect();
        for thread in threads {
            together.extend(&thread.join().expect("it measures"));
        }
    });
    add("typed", 12, "8 threads", together, None);

    let mut live = Vec::new();
    for _ in 0..100_000 {
        live.push(DeviceBuffer::<u64>::zeroed(&setup.stream, 1)?);
    }
    let many = "100,000 live buffers";
    add("tuple", 12, many, setup.tuple(number), bar(25.0, 30.0));
    add("typed", 12, many, setup.typed(number), bar(15.0, 15.0));
    Ok(rows)
}

fn main() {
    let number = number_of_pairs("LAUNCH_PAIRS", 1_000_000);
    on_each_driver(|name, driver| {
        println!(
            "form             args  situation               raw ns     more ns  (95 % of it)        ratio  bar, pairs"
        );
        let rows = rows(driver, number, name == "null driver").expect("the bench runs");
        for Row {
            form,
            count,
            situation,
            pairs,
            bar,
        } in rows
        {
            let (first, more) = (pairs.first(), pairs.difference());
            let verdict = match bar {
                Some(bar) if more.median <= bar => format!("{bar} ns kept"),
                Some(bar) => format!("{bar} ns MISSED"),
                None => "-".to_owned(),
            };
            println!(
                "{form:<16} {count:>4}  {situation:<20} {:>9.1}  {:>9.1}  ({:>7.1} to {:>7.1})  {:>7.4}  {verdict}, {}",
                first.median,
                more.median,
                more.low,
                more.high,
                1.0 + more.median / first.median,
                pairs.count(),
            );
        }
    });
}
