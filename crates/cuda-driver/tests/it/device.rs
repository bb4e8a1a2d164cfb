//! Devices.

use cuda_driver::{DeviceAttribute, Driver, Error};
use cuda_sim::Builder;

use crate::support::{everywhere, software};

#[test]
fn an_ordinal_out_of_range_is_an_error_that_counts() {
    let simulator = Builder::new().devices(2).build().unwrap();
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
    for bench in everywhere("properties_agree_with_the_calls_they_come_from") {
        let device = bench.context.device();
        let properties = device.properties().unwrap();
        let raw = device
            .attribute(DeviceAttribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .unwrap();
        assert_eq!(i64::from(properties.multiprocessor_count), i64::from(raw));
        assert_eq!(
            properties.total_memory,
            bench.context.memory_info().unwrap().1
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
    for bench in everywhere("an_attribute_that_the_driver_does_not_know_is_an_error") {
        let error = bench
            .context
            .device()
            .attribute(DeviceAttribute(100_000))
            .unwrap_err();
        assert_eq!(
            error.status().map(|status| status.0),
            Some(1),
            "{}: {error}",
            bench.name
        );
    }
}

#[test]
fn capability_is_what_the_device_was_built_with() {
    let bench = software(Builder::new().compute_capability(8, 0));
    assert_eq!(
        bench
            .context
            .device()
            .compute_capability()
            .unwrap()
            .to_string(),
        "8.0"
    );
}
