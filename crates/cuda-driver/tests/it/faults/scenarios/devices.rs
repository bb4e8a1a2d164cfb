//! Scenarios of drivers and devices.

use cuda_driver::context::ContextFlags;
use cuda_driver::device::{DevicePool, PeerAttribute};
use cuda_driver::prelude::*;

use super::{Ground, Result, Scenario, one, two};

pub(super) const ALL: &[Scenario] = &[
    one("start", start),
    one("properties", properties),
    two("devices", devices),
    two("peers", peers),
];

/// Starts from the driver library.
fn start(ground: &Ground) -> Result<()> {
    let driver = Driver::new(ground.simulator.library().unwrap())?;
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

fn properties(ground: &Ground) -> Result<()> {
    let device = ground.context.device();
    assert!(!device.name()?.is_empty());
    assert_ne!(device.uuid()?, [0; 16]);
    assert_ne!(device.luid()?.bytes, [0; 8]);
    assert!(device.total_memory()? > 0);
    let id = device.pci_bus_id()?;
    assert_eq!(Device::by_pci_bus_id(&ground.driver, &id)?.ordinal(), 0);
    let properties = device.properties()?;
    assert_eq!(properties.name, device.name()?);
    assert_eq!(device.compute_capability()?.major, 9);
    assert!(ground.context.memory_info()?.0 > 0);
    Ok(())
}

fn devices(ground: &Ground) -> Result<()> {
    assert!(Device::best(&ground.driver)?.ordinal() < 2);
    let pool = DevicePool::new(&ground.driver)?;
    assert_eq!(pool.contexts().len(), 2);
    assert!(pool.contexts().contains(pool.most_free_memory()?));
    Ok(())
}

fn peers(ground: &Ground) -> Result<()> {
    let (one, two) = (ground.driver.device(0)?, ground.driver.device(1)?);
    assert!(one.can_access_peer(&two)?);
    let attributes = one.peer_attributes(&two)?;
    let access = one.peer_attribute(&two, PeerAttribute::ACCESS_SUPPORTED)?;
    assert_eq!(access != 0, attributes.has_access);
    let other = two.primary_context()?;
    ground.context.enable_peer_access(&other)?;
    ground.context.enable_peer_access(&other)?;
    let (home, there) = (ground.context.default_stream()?, other.default_stream()?);
    let source = DeviceBuffer::from_host(&home, &[7_u32; 16])?;
    let mut target = DeviceBuffer::<u32>::zeroed(&there, 16)?;
    target.as_mut_slice().copy_from_peer(&source.as_slice())?;
    drop(source);
    assert_eq!(target.to_vec()?, [7; 16]);
    ground.context.disable_peer_access(&other)?;
    ground.context.disable_peer_access(&other)?;
    target.close()
}
