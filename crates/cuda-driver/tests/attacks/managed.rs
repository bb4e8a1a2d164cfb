//! Managed memory, tensor maps and views of memory that were created earlier.

use cuda_driver::device::DeviceAttribute;
use cuda_driver::memory::ManagedBuffer;
use cuda_driver::prelude::*;
use cuda_driver::tensor_map::{TensorDataType, TensorLayout, TensorMap};

use crate::support::{Attack, Case};

fn is_concurrent(case: &Case) -> bool {
    let attribute = DeviceAttribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    case.context.device().attribute(attribute).unwrap() != 0
}

/// Claim: a host slice of managed memory borrows the buffer, and is created after the conflicting
/// uses are done. Kernels on several streams write and read the memory before each slice.
#[test]
fn host_slices_wait_for_kernels() {
    Attack::new().run(|case| {
        if !is_concurrent(case) {
            return;
        }
        let (stream, other) = (case.stream(), case.stream());
        let mut managed = ManagedBuffer::from_host(&stream, &vec![1_u32; case.n]).unwrap();
        let one = case.filled(&other, 1);
        let mut seen = case.filled(&other, 0);
        let mut expected = 1;
        for round in 0..4 {
            case.hold_up(&other);
            case.mix(&other, managed.as_mut_slice(), one.as_slice())
                .unwrap();
            expected = 2 * expected + 1;
            case.expect_words(managed.host().unwrap(), expected);
            case.copy(&other, seen.as_mut_slice(), managed.as_slice())
                .unwrap();
            managed.host_mut().unwrap().fill(round);
            case.expect(&seen, expected);
            expected = round;
        }
    });
}

/// Claim: a graph cannot keep managed memory, because the host may have slices of it. A graph tries
/// to write it under a slice.
#[test]
fn graphs_write_no_managed_memory_under_slices() {
    Attack::new().run(|case| {
        if !is_concurrent(case) {
            return;
        }
        let stream = case.stream();
        let mut managed = ManagedBuffer::from_host(&stream, &vec![1_u32; case.n]).unwrap();
        let mut own = case.filled(&stream, 2);
        let mut graph = case.graph();
        let _ = graph.add_fill(&[], managed.as_mut_slice(), 5_u32);
        let _ = graph.add_copy(&[], managed.as_mut_slice(), own.as_slice());
        let _ = graph.add_copy(&[], &mut own, managed.as_slice());
        let args = (managed.as_mut_slice(), &own, case.n as u32);
        // SAFETY: the kernel uses n words of each ← both have n.
        let _ = unsafe { graph.add_kernel(&[], case.mix_kernel(), case.config(), args) };
        let captured = Graph::capture(&case.context, |scope| {
            let _ = scope.fill(managed.as_mut_slice(), 6_u32);
            Ok(())
        });
        let words = managed.host().unwrap();
        for graph in [Some(graph), captured.ok()].into_iter().flatten() {
            let exec = graph.instantiate().unwrap();
            let _ = exec.launch(&stream);
            stream.synchronize().unwrap();
            case.expect_words(words, 1);
        }
    });
}

/// Claim: managed memory is freed after its uses, and until then the program may use its host
/// words.
#[test]
fn managed_memory_is_freed_after_its_readers() {
    Attack::new().run(|case| {
        let (stream, other) = (case.stream(), case.stream());
        let mut results = Vec::new();
        for round in 0..4_u32 {
            let managed = ManagedBuffer::from_host(&stream, &vec![round; case.n]).unwrap();
            let mut result = case.filled(&other, 9);
            case.hold_up(&other);
            case.copy(&other, result.as_mut_slice(), managed.as_slice())
                .unwrap();
            drop(managed);
            let fresh = ManagedBuffer::from_host(&stream, &vec![77_u32; case.n]).unwrap();
            results.push((result, round));
            drop(fresh);
        }
        for (result, round) in &results {
            case.expect(result, *round);
        }
    });
}

/// Claim: a tensor map is an argument only together with memory that has the same start and length
/// as its own. Maps outlive their memory, and are used with other memory.
#[test]
fn tensor_maps_take_no_other_memory() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let layout = TensorLayout::new(TensorDataType::U32, &[16, 16]);
        let mut first = case.filled(&stream, 1);
        let other = case.filled(&stream, 2);
        let Ok(mut map) = TensorMap::tiled(&first.as_slice(), &layout, &[8, 8]) else {
            // Devices before compute capability 9.0 do not support tensor maps.
            return;
        };
        assert!(map.reads(first.as_slice()).is_ok(), "{}", case.title);
        assert!(map.reads(other.as_slice()).is_err(), "{}", case.title);
        for range in [0..8, 64..128, 1..17, 0..255, 0..case.n - 1] {
            assert!(
                map.reads(first.slice(range.clone()).unwrap()).is_err(),
                "{range:?}"
            );
            assert!(map.writes(first.slice_mut(range).unwrap()).is_err());
        }
        let address = first.as_raw();
        drop(first);
        let again = case.filled(&stream, 3);
        assert_eq!(
            map.reads(again.as_slice()).is_ok(),
            again.as_raw() == address
        );
        let small = DeviceBuffer::<u32>::zeroed(&stream, 16).unwrap();
        assert!(
            map.replace_address(&small.as_slice()).is_err(),
            "{}",
            case.title
        );
        map.replace_address(&other.as_slice()).unwrap();
        assert!(map.reads(other.as_slice()).is_ok(), "{}", case.title);
        assert_eq!(
            map.reads(again.as_slice()).is_ok(),
            again.as_raw() == other.as_raw()
        );
        let short = DeviceBuffer::<u32>::zeroed(&stream, 255).unwrap();
        assert!(TensorMap::tiled(&short.as_slice(), &layout, &[8, 8]).is_err());
    });
}
