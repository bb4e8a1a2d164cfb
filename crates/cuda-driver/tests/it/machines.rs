//! Machines whose devices differ: which device is the best, and which can access others.

use std::fs;

use cuda_driver::device::{ComputeCapability, DeviceAttribute, DevicePool, PeerAttribute};
use cuda_driver::error::Status;
use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Machine};

use crate::support::{Fixture, assert_all, filled, new_stream, software};

fn of(machine: &Machine) -> Fixture {
    software(Builder::new().machine(machine.clone()))
}

fn described(text: &str) -> Fixture {
    of(&text.parse().unwrap())
}

fn best(fixture: &Fixture) -> u32 {
    Device::best(fixture.context.driver()).unwrap().ordinal()
}

#[test]
fn devices_are_as_their_machine_describes_them() {
    let counts: Vec<usize> = Machine::names()
        .map(|name| {
            let machine = Machine::named(name).unwrap();
            let fixture = of(&machine);
            let devices = fixture.context.driver().devices().unwrap();
            for (device, expected) in devices.iter().zip(machine.devices()) {
                assert_eq!(Some(device.name().unwrap()), expected.name);
                let (major, minor) = expected.capability;
                let capability = ComputeCapability { major, minor };
                assert_eq!(device.compute_capability().unwrap(), capability);
                assert_eq!(device.total_memory().unwrap() as u64, expected.memory);
                let count = device.multiprocessor_count().unwrap();
                assert_eq!(count, expected.multiprocessors, "{name}");
                assert_eq!(device.clock_rate().unwrap(), expected.clock_khz);
                let node = DeviceAttribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
                let node = u32::try_from(device.attribute(node).unwrap()).ok();
                assert_eq!(node, expected.numa_node, "{name}");
            }
            for (from, one) in devices.iter().enumerate() {
                for (to, other) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
                    let has_access = machine.has_access(from, to);
                    assert_eq!(one.can_access_peer(other).unwrap(), has_access, "{name}");
                    let peer = one.peer_attributes(other).unwrap();
                    assert_eq!(peer.has_access, has_access, "{name}");
                    let links = machine.nvlinks(from, to);
                    let is_atomic = has_access && links > 0;
                    assert_eq!(peer.has_native_atomics, is_atomic, "{name}");
                }
            }
            devices.len()
        })
        .collect();
    assert_eq!(counts, [2, 2, 4, 4, 8, 1, 1]);
    assert!(Machine::named("three").is_none());
}

#[test]
fn the_best_device_has_the_most_speed_then_memory() {
    let mixed = Machine::named("four-mixed-pcie").unwrap();
    // The L40.
    assert_eq!(best(&of(&mixed)), 2);
    let text = "device multiprocessors=20 clock=1000 memory=512M
                device multiprocessors=10 clock=2000 memory=1G
                device multiprocessors=10 clock=1999 memory=2G";
    assert_eq!(best(&described(text)), 1);
}

#[test]
fn among_equal_devices_the_connected_one_is_the_best() {
    let equal = "device memory=64M\ndevice memory=64M\ndevice memory=64M\n";
    assert_eq!(best(&described(equal)), 0);
    let alone = "no-access 0 1\nno-access 0 2\nno-access 1 2";
    assert_eq!(best(&described(&format!("{equal}{alone}"))), 2);
}

#[test]
fn neighbours_in_a_pool_can_access_each_other() {
    let mut text = "device memory=64M\n".repeat(4);
    for (one, other) in [(0, 1), (2, 3)] {
        text += &format!("no-access {one} {other}\nno-access {other} {one}\n");
    }
    let fixture = described(&text);
    let pool = DevicePool::new(fixture.context.driver()).unwrap();
    let devices: Vec<_> = pool.contexts().iter().map(Context::device).collect();
    assert_eq!(devices[0].ordinal(), 0);
    for (one, other) in devices.iter().zip(devices.iter().cycle().skip(1)) {
        assert!(one.can_access_peer(other).unwrap(), "{devices:?}");
    }
}

#[test]
fn without_access_views_fail_and_copies_work() {
    let fixture = of(&Machine::named("two-t4-pcie").unwrap());
    let other = fixture.context.driver().device(1).unwrap();
    let other = other.primary_context().unwrap();
    let (here, there) = (fixture.stream(), new_stream(&other));
    let pooled = filled(&here, 64, 7);
    let error = pooled.as_slice().for_peer(&other).unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_DEVICE));
    let plain = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &here, 64).unwrap();
    let error = plain.as_slice().for_peer(&other).unwrap_err();
    let unsupported = Some(Status::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    assert_eq!(error.status(), unsupported);
    let error = other.enable_peer_access(&fixture.context).unwrap_err();
    assert_eq!(error.status(), unsupported);
    let mut copy = filled(&there, 64, 0);
    copy.copy_from_peer(&pooled).unwrap();
    assert_all(&copy, 7, &fixture.name);
}

#[test]
fn access_can_work_in_one_direction_only() {
    let fixture = of(&Machine::named("four-mixed-pcie").unwrap());
    let devices = fixture.context.driver().devices().unwrap();
    assert!(devices[0].can_access_peer(&devices[3]).unwrap());
    assert!(!devices[3].can_access_peer(&devices[0]).unwrap());
    let rank = PeerAttribute::PERFORMANCE_RANK;
    let rank = devices[1].peer_attribute(&devices[2], rank).unwrap();
    // Nothing is faster on this machine.
    assert_eq!(rank, 0);
}

#[test]
fn code_for_one_device_does_not_load_on_an_older_one() {
    let fixture = of(&Machine::named("four-mixed-pcie").unwrap());
    let ptx = ".version 8.0\n.target sm_89\n.address_size 64\n.visible .entry none() { ret; }";
    for device in fixture.context.driver().devices().unwrap() {
        let context = device.primary_context().unwrap();
        let loaded = Module::load(&context, &Ptx::new(ptx).unwrap());
        let is_newer = device.compute_capability().unwrap().major == 8;
        assert_eq!(loaded.is_ok(), is_newer, "{}", device.name().unwrap());
    }
}

#[test]
fn a_setting_names_a_machine_or_a_file() {
    let count = |setting: &str| {
        let simulator = setting.parse::<Builder>().unwrap().build().unwrap();
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        driver.devices().unwrap().len()
    };
    assert_eq!(count("machine=four-a100-nvlink"), 4);
    let file = std::env::temp_dir().join(format!("cuda-machine-{}.txt", std::process::id()));
    fs::write(&file, "device memory=64M\n".repeat(3)).unwrap();
    assert_eq!(count(&format!("machine={}", file.display())), 3);
    fs::remove_file(&file).unwrap();
    let error = "machine=five".parse::<Builder>().unwrap_err().to_string();
    assert!(error.contains("two-h100-nvlink"), "{error}");
}
