//! Scenarios of virtual memory.

use cuda_driver::memory::{
    GrowableBuffer, MemoryAccess, PhysicalKind, PhysicalMemory, Reservation,
};

use super::{Fixture, N, Result, Scenario, copy, expect, filled, one, two};
use crate::support::COPY;

pub(super) const ALL: &[Scenario] = &[two("mappings", mappings), one("growable", growable)];

fn mappings(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let kind = PhysicalKind::of_device(fixture.context.device()).compressible();
    let memory = PhysicalMemory::new(&kind, 1)?;
    memory.is_compressible()?;
    let addresses = Reservation::new(&fixture.driver, 2 * memory.bytes(), 0)?;
    let mut mapping = addresses.map(0, &memory)?;
    let other = fixture.driver.device(1)?;
    mapping.set_access(&other, MemoryAccess::ReadWrite)?;
    assert_eq!(mapping.access(&other)?, MemoryAccess::ReadWrite);
    let mut buffer = mapping.zeroed::<u32>(&stream)?;
    buffer.slice_mut(..3)?.fill(7)?;
    assert_eq!(buffer.slice(..4)?.to_vec()?, [7, 7, 7, 0]);
    buffer.close()?;
    addresses.map(memory.bytes(), &memory)?.close()
}

/// Growing and shrinking while another stream reads the buffer.
fn growable(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let kernel = fixture.kernel(COPY, "copy")?;
    let mut buffer = GrowableBuffer::<u32>::new(&stream, 1 << 20)?;
    buffer.grow_to(N as usize)?;
    buffer.as_mut_slice().fill(5)?;
    let mut out = filled(&other, 0)?;
    copy(&other, &kernel, &buffer, &mut out)?;
    buffer.grow_to(1 << 20)?;
    assert_eq!(
        buffer.slice(N as usize - 1..)?.slice(..2)?.to_vec()?,
        [5, 0]
    );
    buffer.shrink_to(1)?;
    expect(&out, 5)?;
    buffer.close()
}
