//! Computes y = 3 * x + y, with PTX from a file.

use cust::prelude::*;
use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let _context = cust::quick_init()?;
    let ptx = fs::read_to_string("kernels/saxpy.ptx")?;
    let module = Module::from_ptx(ptx, &[])?;
    let saxpy = module.get_function("saxpy")?;
    let stream =
        Stream::new(StreamFlags::NON_BLOCKING, None)?;

    let n = 1000;
    let x = DeviceBuffer::from_slice(&vec![1.0_f32; n])?;
    let y = DeviceBuffer::from_slice(&vec![2.0_f32; n])?;

    let start = Event::new(EventFlags::DEFAULT)?;
    let end = Event::new(EventFlags::DEFAULT)?;
    start.record(&stream)?;
    let block = 256;
    let grid = (n as u32).div_ceil(block);
    unsafe {
        launch!(saxpy<<<grid, block, 0, stream>>>(
            3.0_f32,
            x.as_device_ptr(),
            y.as_device_ptr(),
            n as u32
        ))?;
    }
    end.record(&stream)?;
    end.synchronize()?;
    println!("{:?}", end.elapsed(&start)?);

    let mut result = vec![0.0_f32; n];
    y.copy_to(&mut result)?;
    assert!(result.iter().all(|value| *value == 5.0));
    println!("{n} elements verified");
    Ok(())
}
