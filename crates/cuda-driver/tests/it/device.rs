//! Devices.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{self, AtomicUsize};

use cuda_driver::Error;
use cuda_driver::context::ContextFlags;
use cuda_driver::device::{DeviceAttribute, DevicePool, Luid};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{everywhere, software};

#[test]
fn an_ordinal_out_of_range_is_an_error_that_counts() {
    let simulator = crate::support::built(&Builder::new().devices(2));
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    assert_eq!(driver.devices().unwrap().len(), 2);
    for ordinal in [2, 1000, u32::MAX] {
        let error = driver.device(ordinal).unwrap_err();
        assert!(
            matches!(error, Error::NoSuchDevice { count: 2, .. }),
            "{error}"
        );
    }
}

#[test]
fn properties_agree_with_the_calls_they_come_from() {
    for fixture in everywhere() {
        let device = fixture.context.device();
        let properties = device.properties().unwrap();
        let raw = device
            .attribute(DeviceAttribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .unwrap();
        assert_eq!(i64::from(properties.multiprocessor_count), i64::from(raw));
        assert_eq!(
            properties.total_memory,
            fixture.context.memory_info().unwrap().1
        );
        let text = properties.to_string();
        for fact in [
            properties.name.clone(),
            properties.compute_capability.to_string(),
            format!("{} MiB", properties.total_memory >> 20),
        ] {
            assert!(text.contains(&fact), "{fact} is not in\n{text}");
        }
        assert_ne!(properties.uuid, [0; 16]);
    }
}

#[test]
fn an_attribute_that_the_driver_does_not_know_is_an_error() {
    for fixture in everywhere() {
        let error = fixture
            .context
            .device()
            .attribute(DeviceAttribute(100_000))
            .unwrap_err();
        assert_eq!(
            error.status().map(|status| status.0),
            Some(1),
            "{}: {error}",
            fixture.name
        );
    }
}

#[test]
fn device_has_the_capability_of_its_builder() {
    let fixture = software(Builder::new().compute_capability(8, 0));
    assert_eq!(
        fixture
            .context
            .device()
            .compute_capability()
            .unwrap()
            .to_string(),
        "8.0"
    );
}

#[test]
fn comparison_with_bindings_matches_missing_functions() {
    let old = software(Builder::new().version(12000));
    let driver = old.context.driver();
    assert_eq!(driver.compare_to_bindings(), Ordering::Less);
    let missing: HashSet<&str> = driver.missing_functions().map(|call| call.name).collect();
    assert!(missing.contains("cuCtxSetFlags") && !missing.contains("cuCtxGetId"));
    for fixture in everywhere() {
        let driver = fixture.context.driver();
        let expected = driver.version().cmp(&cuda_driver::bindings().version);
        assert_eq!(driver.compare_to_bindings(), expected);
        let lacks = driver.missing_functions().count() > 0;
        assert!(!lacks || expected == Ordering::Less, "{}", fixture.name);
    }
}

#[test]
fn a_device_is_found_by_its_address_on_the_bus() {
    for fixture in everywhere() {
        let driver = fixture.context.driver();
        for device in driver.devices().unwrap() {
            let id = device.pci_bus_id().unwrap();
            assert_eq!(Device::by_pci_bus_id(driver, &id).unwrap(), device, "{id}");
            // The components of the address.
            let (domain, bus, slot) = (
                device.pci_domain().unwrap(),
                device.pci_bus().unwrap(),
                device.pci_device().unwrap(),
            );
            let expected = format!("{domain:04x}:{bus:02x}:{slot:02x}.0");
            assert!(id.to_lowercase().ends_with(&expected), "{id}: {expected}");
        }
        for wrong in ["ffff:ff:1f.0", "nothing"] {
            let error = Device::by_pci_bus_id(driver, wrong).unwrap_err();
            assert!(matches!(error, Error::Driver(_)), "{error}");
        }
        let error = Device::by_pci_bus_id(driver, "a\0b").unwrap_err();
        assert!(
            matches!(error, Error::NulByte { position: 1, .. }),
            "{error}"
        );
    }
}

#[test]
fn devices_differ_in_their_names() {
    let fixture = software(Builder::new().devices(3));
    let devices = fixture.context.driver().devices().unwrap();
    let uuids: HashSet<[u8; 16]> = devices.iter().map(|d| d.uuid().unwrap()).collect();
    assert_eq!(uuids.len(), 3);
    let luids: HashSet<Luid> = devices.iter().map(|d| d.luid().unwrap()).collect();
    assert_eq!(luids.len(), 3);
    assert!(
        luids
            .iter()
            .all(|luid| luid.bytes != [0; 8] && luid.node_mask == 1)
    );
    for (ordinal, device) in devices.iter().enumerate() {
        assert_eq!(device.ordinal() as usize, ordinal);
        let context = device.primary_context().unwrap();
        assert_eq!(context.device(), device);
    }
}

#[test]
fn attribute_methods_match_the_general_query() {
    for fixture in everywhere() {
        use DeviceAttribute as A;
        let device = fixture.context.device();
        let numbers = [
            (device.warp_size(), A::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
            (
                device.max_shared_memory_per_block(),
                A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
            ),
            (
                device.max_registers_per_multiprocessor(),
                A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
            ),
            (device.l2_cache_size(), A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            (
                device.memory_bus_width(),
                A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
            ),
        ];
        for (value, attribute) in numbers {
            let value = value.unwrap();
            let expected = device.attribute(attribute).unwrap();
            assert_eq!(i64::from(value), i64::from(expected), "{attribute:?}");
            assert!(value > 0, "{attribute:?}");
        }
        let abilities = [
            (device.has_ecc(), A::CU_DEVICE_ATTRIBUTE_ECC_ENABLED),
            (device.is_integrated(), A::CU_DEVICE_ATTRIBUTE_INTEGRATED),
            (
                device.has_unified_addressing(),
                A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
            ),
            (
                device.has_cluster_launch(),
                A::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
            ),
            (
                device.has_tensor_maps(),
                A::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED,
            ),
        ];
        for (value, attribute) in abilities {
            let expected = device.attribute(attribute).unwrap() != 0;
            assert_eq!(value.unwrap(), expected, "{attribute:?}");
        }
        assert_eq!(device.warp_size().unwrap(), 32);
        assert!(device.has_unified_addressing().unwrap());
    }
}

#[test]
fn the_best_device_is_the_one_with_the_highest_rank() {
    for fixture in everywhere() {
        let driver = fixture.context.driver();
        let rank = |device: &Device| {
            (
                u64::from(device.multiprocessor_count().unwrap())
                    * u64::from(device.clock_rate().unwrap()),
                device.total_memory().unwrap(),
            )
        };
        let best = Device::best(driver).unwrap();
        for device in driver.devices().unwrap() {
            let (this, other) = (rank(&device), rank(&best));
            assert!(
                this < other || this == other && best.ordinal() <= device.ordinal(),
                "{device:?} is better than {best:?}"
            );
        }
    }
    let twins = software(Builder::new().devices(2));
    let best = Device::best(twins.context.driver()).unwrap();
    assert_eq!(best.ordinal(), 0);
}

#[test]
fn device_pool_rotates_and_finds_most_free_memory() {
    let fixture = software(Builder::new().devices(3));
    let pool = DevicePool::new(fixture.context.driver()).unwrap();
    let turns: Vec<u32> = (0..7).map(|_| pool.next().device().ordinal()).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(pool.contexts()[0], fixture.context);
    assert_eq!(pool.most_free_memory().unwrap().device().ordinal(), 0);
    let on = |ordinal: usize, bytes| {
        let stream = pool.contexts()[ordinal].default_stream().unwrap();
        DeviceBuffer::<u8>::zeroed(&stream, bytes).unwrap()
    };
    let (_a, _b) = (on(0, 8 << 20), on(2, 4 << 20));
    assert_eq!(pool.most_free_memory().unwrap().device().ordinal(), 1);
    let _c = on(1, 16 << 20);
    assert_eq!(pool.most_free_memory().unwrap().device().ordinal(), 2);
    assert!(DevicePool::of(Vec::new()).is_none());
    let own = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
    let pool = DevicePool::of(vec![own.clone(), fixture.context.clone()]).unwrap();
    assert_eq!([pool.next(), pool.next()], [&own, &fixture.context]);
}

#[test]
fn a_pool_is_shared_by_threads() {
    for fixture in everywhere() {
        let pool = DevicePool::new(fixture.context.driver()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let pool = &pool;
                scope.spawn(move || {
                    let stream = pool.next().default_stream().unwrap();
                    let buffer = DeviceBuffer::from_host(&stream, &[thread; 64]).unwrap();
                    assert_eq!(buffer.to_vec().unwrap(), [thread; 64]);
                });
            }
        });
    }
}

#[test]
fn a_pool_divides_work_among_its_devices() {
    let fixture = software(Builder::new().devices(3));
    let pool = DevicePool::new(fixture.context.driver()).unwrap();
    for len in [0_u32, 1, 2, 3, 4, 11] {
        let items: Vec<u32> = (0..len).collect();
        let parts = pool.divide(&items, |context, part| {
            let buffer = DeviceBuffer::from_host(&context.default_stream()?, part)?;
            Ok::<_, Error>((context.device().ordinal(), buffer.to_vec()?))
        });
        let (ordinals, parts): (Vec<_>, Vec<_>) = parts.unwrap().into_iter().unzip();
        assert_eq!(ordinals, [0, 1, 2]);
        let lens = [0, 1, 2].map(|part| parts[part].len());
        assert!(lens.iter().max().unwrap() - lens.iter().min().unwrap() <= 1);
        assert_eq!(parts.concat(), items);
    }
    // All threads end before the first error is returned.
    let calls = AtomicUsize::new(0);
    let error = pool.divide(&[0_u8; 3], |context, _| {
        calls.fetch_add(1, atomic::Ordering::Relaxed);
        match context.device().ordinal() {
            0 => Ok(()),
            ordinal => Err(ordinal),
        }
    });
    assert_eq!((error, calls.into_inner()), (Err(1), 3));
    let panics = catch_unwind(AssertUnwindSafe(|| {
        pool.divide(&[0_u8; 3], |_, _| -> Result<(), ()> {
            panic!("in a thread")
        })
    }));
    assert_eq!(
        *panics.unwrap_err().downcast::<&str>().unwrap(),
        "in a thread"
    );
}

#[test]
fn a_buffer_is_made_from_memory_of_any_device() {
    let fixture = software(Builder::new().devices(2));
    let second = fixture.context.driver().device(1).unwrap();
    let second = second.primary_context().unwrap();
    let stream = fixture.stream();
    let source = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3]).unwrap();
    for context in [&fixture.context, &second] {
        let stream = context.default_stream().unwrap();
        let copy = DeviceBuffer::from_device(&stream, source.slice(1..).unwrap()).unwrap();
        assert_eq!(copy.stream().context(), context);
        assert_eq!(copy.to_vec().unwrap(), [2, 3]);
        let none = DeviceBuffer::from_device(&stream, source.slice(3..).unwrap()).unwrap();
        assert!(none.is_empty());
    }
    let other = software(Builder::new());
    let error = DeviceBuffer::from_device(&other.stream(), &source).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}
