//! Scenarios of drivers and devices.

use cuda_driver::Version;
use cuda_driver::context::ContextFlags;
use cuda_driver::device::{AtomicOperation, DevicePool, PeerAttribute};
use cuda_driver::diagnostics::ProfilerCapture;
use cuda_driver::memory::{PitchedBuffer, Unpooled};
use cuda_driver::prelude::*;

use super::{Fixture, Result, Scenario, one, two};
use crate::support::COPY;

pub(super) const ALL: &[Scenario] = &[
    one("start", start),
    one("properties", properties),
    one("log", log),
    two("devices", devices),
    two("peers", peers),
    two("peer views", peer_views),
];

/// Starts from the driver library.
fn start(fixture: &Fixture) -> Result<()> {
    let driver = Driver::new(fixture.simulator.library().unwrap())?;
    assert_eq!(driver.devices()?.len(), 1);
    let device = driver.device(0)?;
    assert!(device.primary_context_state()?.is_active);
    device.set_primary_context_flags(ContextFlags::SCHED_YIELD)?;
    let flags = device.primary_context_state()?.flags;
    assert!(flags.contains(ContextFlags::SCHED_YIELD));
    let context = device.primary_context()?;
    let again = device.primary_context()?;
    assert_eq!(context, again);
    drop(again);
    context.close()
}

fn log(fixture: &Fixture) -> Result<()> {
    if fixture.driver.version() < Version::new(12_090) {
        return Ok(());
    }
    let mut position = fixture.driver.log_position()?;
    assert_eq!(fixture.driver.log_since(&mut position)?, "");
    drop(ProfilerCapture::start(&fixture.context)?);
    Ok(())
}

fn properties(fixture: &Fixture) -> Result<()> {
    let device = fixture.context.device();
    assert!(!device.name()?.is_empty());
    assert_ne!(device.uuid()?, [0; 16]);
    assert_ne!(device.luid()?.bytes, [0; 8]);
    assert!(device.total_memory()? > 0);
    let id = device.pci_bus_id()?;
    assert_eq!(Device::by_pci_bus_id(&fixture.driver, &id)?.ordinal(), 0);
    let properties = device.properties()?;
    assert_eq!(properties.name, device.name()?);
    assert_eq!(device.compute_capability()?.major, 9);
    assert!(fixture.context.memory_info()?.0 > 0);
    Ok(())
}

fn devices(fixture: &Fixture) -> Result<()> {
    assert!(Device::best(&fixture.driver)?.ordinal() < 2);
    let pool = DevicePool::new(&fixture.driver)?;
    assert_eq!(pool.contexts().len(), 2);
    assert!(pool.contexts().contains(pool.most_free_memory()?));
    Ok(())
}

fn peer_views(fixture: &Fixture) -> Result<()> {
    let other = fixture.driver.device(1)?.primary_context()?;
    let copy = Module::load(&other, &Ptx::new(COPY).unwrap())?.function("copy")?;
    let (owner, there) = (fixture.context.default_stream()?, other.default_stream()?);
    let mut plain = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &owner, 16)?;
    plain.fill(7)?;
    let mut pooled = DeviceBuffer::<u32>::zeroed(&owner, 16)?;
    let config = LaunchConfig::for_num_elems(16_u32)?;
    let from = plain.as_slice().for_peer(&other)?;
    let mut to = pooled.as_mut_slice();
    let to = to.for_peer(&other)?;
    // SAFETY: the kernel reads 16 words of the one and writes 16 of the other; each has 16.
    unsafe { there.launch(&copy, config, (from, to, 16_u32)) }?;
    plain.close()?;
    assert_eq!(pooled.to_vec()?, [7; 16]);
    pooled.close()
}

fn peers(fixture: &Fixture) -> Result<()> {
    let (one, two) = (fixture.driver.device(0)?, fixture.driver.device(1)?);
    assert!(one.can_access_peer(&two)?);
    let attributes = one.peer_attributes(&two)?;
    let access = one.peer_attribute(&two, PeerAttribute::ACCESS_SUPPORTED)?;
    assert_eq!(access != 0, attributes.has_access);
    if fixture.driver.version() >= Version::new(13_000) {
        let operations = [AtomicOperation::CU_ATOMIC_OPERATION_CAS];
        one.host_atomic_capabilities(&operations)?;
        one.peer_atomic_capabilities(&two, &operations)?;
    }
    let other = two.primary_context()?;
    fixture.context.enable_peer_access(&other)?;
    fixture.context.enable_peer_access(&other)?;
    let (owner, there) = (fixture.context.default_stream()?, other.default_stream()?);
    let source = DeviceBuffer::from_host(&owner, &[7_u32; 16])?;
    let mut target = DeviceBuffer::<u32>::zeroed(&there, 16)?;
    target.as_mut_slice().copy_from_peer(source.as_slice())?;
    let copy = DeviceBuffer::from_device(&there, &source)?;
    assert_eq!(copy.to_vec()?, [7; 16]);
    let rows = PitchedBuffer::<u32>::zeroed(&owner, (4, 2))?;
    let mut rows_there = PitchedBuffer::<u32>::zeroed(&there, (4, 2))?;
    rows_there.as_mut_slice().copy_from_peer(&rows.as_slice())?;
    assert_eq!(rows_there.as_slice().to_vec()?, [0; 8]);
    rows_there.close()?;
    rows.close()?;
    drop((source, copy));
    assert_eq!(target.to_vec()?, [7; 16]);
    for _ in 0..2 {
        // SAFETY: no work uses the access.
        unsafe { fixture.context.disable_peer_access(&other) }?;
    }
    target.close()
}
