//! Captures in which no call was captured, because the calls were made elsewhere.

use cuda_driver::Error;
use cuda_driver::context::ContextFlags;
use cuda_driver::graph::{Capture, EagerCapture};
use cuda_driver::prelude::*;

use crate::support::{everywhere, everywhere_since, filled, new_stream};

#[test]
fn a_call_on_a_stream_leaves_an_empty_capture() {
    for fixture in everywhere() {
        let (stream, name) = (fixture.stream(), &fixture.name);
        let mut x = filled(&stream, 4, 1);
        // The fill runs at once.
        let captured = Graph::capture(&fixture.context, |_| x.fill(7));
        let error = captured.unwrap_err();
        assert_eq!(error, Error::EmptyCapture { is_eager: false }, "{name}");
        assert!(error.to_string().contains("scope.launch"), "{error}");
        assert_eq!(x.to_vec().unwrap(), [7; 4], "{name}");

        let ended = Capture::begin(&fixture.context).unwrap().end();
        assert!(matches!(ended, Err(Error::EmptyCapture { .. })), "{name}");
        // An error of the program comes first.
        let failed = Graph::capture(&fixture.context, |_| Err(Error::NodeGone));
        assert_eq!(failed.unwrap_err(), Error::NodeGone, "{name}");
        // One call suffices.
        let graph = Graph::capture(&fixture.context, |scope| scope.fill(&mut x, 8).map(drop));
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        assert_eq!(x.to_vec().unwrap(), [8; 4], "{name}");
    }
}

#[test]
fn an_eager_capture_of_another_stream_is_empty() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mut x = filled(&stream, 4, 1);
        let captured = Graph::capture_eager(&other, |_| x.fill(7));
        let error = captured.unwrap_err();
        assert_eq!(error, Error::EmptyCapture { is_eager: true });
        assert_eq!(x.to_vec().unwrap(), [7; 4], "{}", fixture.name);
        // The stream can be used again.
        filled(&other, 4, 2).to_vec().unwrap();
    }
}

#[test]
fn an_empty_capture_leaves_an_existing_graph_as_it_was() {
    for fixture in everywhere_since((12, 3)) {
        let stream = fixture.stream();
        let mut x = filled(&stream, 4, 1);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 5_u32).unwrap();
        let captured = graph.capture_into(&[first.edge()], |_| Ok(()));
        assert_eq!(captured, Err(Error::EmptyCapture { is_eager: false }));
        assert_eq!(graph.len(), 1);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), [5; 4], "{}", fixture.name);
    }
}

#[test]
fn buffers_of_a_forgotten_capture_are_used_elsewhere() {
    for fixture in everywhere() {
        // The capture stays open, so calls that wait for the whole context are refused for ever.
        let context = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let (lost, stream) = (new_stream(&context), new_stream(&context));
        let x = filled(&lost, 4, 6);
        lost.synchronize().unwrap();
        std::mem::forget(EagerCapture::begin(&lost).unwrap());
        let error = EagerCapture::begin(&lost).unwrap_err();
        assert!(error.to_string().contains("use another stream"), "{error}");
        let mut words = vec![0; 4];
        x.copy_to_host_on(&mut words, &stream).unwrap();
        assert_eq!(words, [6; 4], "{}", fixture.name);
    }
}
