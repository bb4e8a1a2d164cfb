//! Green contexts, whose memory belongs to the primary context of their device.

use std::any::Any;
use std::thread;

use cuda_driver::device::SmSplitFlags;
use cuda_driver::prelude::*;

use crate::set_up::{COPY, load, stream as new_stream};
use crate::support::{Attack, Case};

/// Returns the primary context and two green contexts of its device.
fn contexts(case: &Case) -> [Context; 3] {
    let sms = case.context.device().sm_resource().unwrap();
    let split = sms.split_by_count(2, 8, SmSplitFlags::empty()).unwrap();
    let [one, two] = [0, 1].map(|part: usize| Context::green(&split.groups[part]).unwrap());
    [case.context.clone(), one, two]
}

/// Claim: kernels of green contexts may use memory of each other and of the primary context, in any
/// order and from any thread, and the driver destroys a green context only after everything that
/// was made in it.
#[test]
fn green_contexts_end_before_their_objects() {
    Attack::new().since(12, 4).run(|case| {
        let contexts = contexts(case);
        let mut owners: Vec<Box<dyn Any + Send>> = Vec::new();
        for _ in 0..12 {
            let owner = &contexts[case.pick(3)];
            let user = &contexts[case.pick(3)];
            let (here, there) = (new_stream(owner), new_stream(user));
            let copy = load(user, COPY).function("copy").unwrap();
            let words = vec![6_u32; case.n];
            let source = DeviceBuffer::from_host(&here, &words).unwrap();
            let mut target = DeviceBuffer::<u32>::zeroed(&there, case.n).unwrap();
            let config = LaunchConfig::for_num_elems(case.n as u32).unwrap();
            case.hold_up(&there);
            let view = source.as_slice().for_peer(user).unwrap();
            let arguments = (view, &mut target, case.n as u32);
            // SAFETY: the kernel reads n words of the one and writes n of the other.
            unsafe { there.launch(&copy, config, arguments) }.unwrap();
            // The memory is freed behind the kernel, and probably reused.
            drop(source);
            let next = DeviceBuffer::from_host(&here, &vec![8_u32; case.n]).unwrap();
            let event = Event::new(user, EventFlags::DISABLE_TIMING).unwrap();
            event.record(&there).unwrap();
            owners.push(Box::new((here, there)));
            owners.push(Box::new((copy, event)));
            case.expect(&target, 6);
            owners.push(Box::new((target, next)));
        }
        owners.extend(contexts.map(|context| Box::new(context) as Box<dyn Any + Send>));
        while !owners.is_empty() {
            let owner = owners.swap_remove(case.pick(owners.len()));
            if case.pick(2) == 0 {
                drop(owner);
            } else {
                thread::spawn(move || drop(owner)).join().unwrap();
            }
        }
    });
}

/// Claim: a wait for one context of a device does not break a capture in another one, and the
/// captured graph works after the handles of the green context were dropped.
#[test]
fn a_capture_survives_waits_for_the_other_contexts() {
    Attack::new().since(12, 4).run(|case| {
        let contexts = contexts(case);
        let owner = contexts[case.pick(3)].clone();
        let stream = new_stream(&owner);
        let mut words = DeviceBuffer::from_host(&stream, &vec![1_u32; case.n]).unwrap();
        let graph = Graph::capture(&owner, |scope| {
            for context in &contexts {
                // An error is fine, but the capture must stay intact.
                let _ = context.synchronize();
            }
            scope.fill(&mut words, 5)?;
            Ok(())
        });
        let exec = graph.unwrap().instantiate().unwrap();
        drop((contexts, owner));
        case.launch_late(&exec, &stream);
        case.expect(&words, 5);
    });
}
