//! Settings that change how work runs but not its result, and reports about single calls.

use cuda_driver::error::Status;
use cuda_driver::jit::{FunctionAttribute, JitOptions, Linker};
use cuda_driver::launch::{ClusterScheduling, PortableClusterMode, SharedMemoryMode};
use cuda_driver::memory::PitchedBuffer;
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;
use cuda_driver::tensor_map::{TensorDataType, TensorL2Promotion, TensorLayout, TensorMap};
use cuda_driver::{Error, Version};
use cuda_sim::Builder;

use crate::support::{COPY, MIX, everywhere, has_version, new_stream, unpooled};
use crate::tensor_map::with_memory;

#[test]
fn newer_launch_attributes_keep_the_result() {
    for fixture in everywhere() {
        let (stream, copy) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let new = LaunchAttributes::new;
        for (since, attributes) in [
            ((12, 8), new().cluster(1).preferred_cluster(2)),
            ((13, 0), new().nvlink_util_centric_scheduling()),
            (
                (13, 2),
                new().portable_cluster_mode(PortableClusterMode::RequirePortable),
            ),
            (
                (13, 2),
                new().shared_memory_mode(SharedMemoryMode::AllowNonPortable),
            ),
        ] {
            let needed = Version::new(since.0 * 1000 + since.1 * 10);
            if fixture.context.driver().version() < needed || !has_version(since) {
                continue;
            }
            let input = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4]).unwrap();
            let mut output = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
            let args = (&input, &mut output, 4_u32);
            let config = LaunchConfig::new(2, 32);
            // SAFETY: the kernel reads 4 words of the one and writes 4 of the other.
            let result = unsafe { stream.launch_with(&copy, config, &attributes, args) };
            result.unwrap_or_else(|error| panic!("{}, {attributes:?}: {error}", fixture.name));
            assert_eq!(output.to_vec().unwrap(), [1, 2, 3, 4], "{attributes:?}");
        }
    }
}

#[test]
fn cluster_scheduling_is_kept_by_the_function() {
    for fixture in everywhere() {
        let copy = fixture.kernel(COPY, "copy");
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
        for (policy, raw) in [
            (ClusterScheduling::Spread, 1),
            (ClusterScheduling::LoadBalancing, 2),
        ] {
            copy.set_cluster_scheduling(policy).unwrap();
            assert_eq!(copy.attribute(attribute).unwrap(), raw, "{}", fixture.name);
        }
    }
}

#[test]
fn a_refused_priority_leaves_the_stream_as_it_is() {
    for fixture in everywhere() {
        let stream = new_stream(&fixture.context);
        let greatest = fixture.context.stream_priority_range().unwrap().greatest;
        match stream.set_priority(greatest) {
            Ok(()) => assert_eq!(stream.priority().unwrap(), greatest, "{}", fixture.name),
            Err(error) => {
                assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
                assert_eq!(stream.priority().unwrap(), 0, "{}", fixture.name);
            }
        }
    }
}

#[test]
fn a_flush_needs_the_ability_of_the_device() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let flag = unpooled(&stream, &[7_u32]);
        let condition = WaitCondition::EQUAL.with_flush();
        assert_ne!(condition, WaitCondition::EQUAL);
        let result = stream.wait_value(&flag, 0, condition, 7);
        if fixture.context.device().can_flush_remote_writes().unwrap() {
            result.unwrap();
            stream.synchronize().unwrap();
        } else {
            let status = result.unwrap_err().status();
            assert_eq!(
                status,
                Some(Status::CUDA_ERROR_NOT_SUPPORTED),
                "{}",
                fixture.name
            );
        }
    }
}

#[test]
fn an_error_has_the_version_of_its_driver() {
    for version in [12_040, 13_050] {
        let simulator = crate::support::built(&Builder::new().version(version));
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        let device = driver.device(0).unwrap();
        let error = device
            .attribute(cuda_driver::device::DeviceAttribute(100_000))
            .unwrap_err();
        let Error::Driver(error) = error else {
            panic!("{error}")
        };
        assert_eq!(error.driver_version(), Version::new(version));
    }
}

#[test]
fn the_linker_reports_its_time() {
    for fixture in everywhere() {
        let start = std::time::Instant::now();
        let mut linker = Linker::new(&fixture.context, &JitOptions::new()).unwrap();
        assert!(linker.log().wall_time() <= start.elapsed());
        linker.add(&Ptx::new(MIX).unwrap(), "mix").unwrap();
        let linked = linker.complete().unwrap();
        let (reported, passed) = (linked.log.wall_time(), start.elapsed());
        assert!(
            reported <= passed,
            "{}: {reported:?}, {passed:?}",
            fixture.name
        );
        let module = Module::load_with(
            &fixture.context,
            &Ptx::new(MIX).unwrap(),
            &JitOptions::new(),
        );
        module.unwrap();
    }
}

#[test]
fn the_promotion_is_part_of_a_tensor_map() {
    for (fixture, _, buffer) in with_memory() {
        let map = |promotion| {
            let layout = TensorLayout::new(TensorDataType::F32, &[64, 8, 4]);
            let layout = layout.l2_promotion(promotion);
            TensorMap::tiled(&buffer.as_slice(), &layout, &[8, 8, 4])
        };
        let Some(none) = crate::tensor_map::made(&fixture, map(TensorL2Promotion::None)) else {
            continue;
        };
        let bytes = |map: &TensorMap| map.as_raw().opaque;
        let wide = map(TensorL2Promotion::Bytes256).unwrap();
        // The software device has no L2 cache, and its maps do not record the setting.
        let differ = bytes(&none) != bytes(&wide);
        assert_eq!(differ, fixture.simulator.is_none(), "{}", fixture.name);
        assert_eq!(bytes(&none), bytes(&map(TensorL2Promotion::None).unwrap()));
    }
}

#[test]
fn region_keeps_the_plane_stride_of_its_buffer() {
    for fixture in everywhere() {
        let buffer = PitchedBuffer::<u32>::zeroed(&fixture.stream(), (5, 4, 3)).unwrap();
        let whole = buffer.as_slice();
        assert_eq!(whole.rows_per_plane(), 4);
        // A region keeps the planes of its buffer, though it has fewer rows.
        let part = whole.region(.., 1..2, 1..).unwrap();
        assert_eq!((part.extent().height, part.rows_per_plane()), (1, 4));
        let rows = 4 + 1;
        let expected = whole.as_raw() + (rows * whole.pitch()) as u64;
        assert_eq!(part.as_raw(), expected, "{}", fixture.name);
    }
}
