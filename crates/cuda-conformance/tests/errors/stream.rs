//! Streams and events.

use std::ptr::null_mut;

use cuda_sys::CUstreamAttrID;

use crate::fixture::cases;

cases! { g:
    "stream_with_unknown_flags" => g.d.cuStreamCreate(g.out(), 0x80);
    "stream_to_nowhere" => g.d.cuStreamCreate(null_mut(), 0);
    "stream_with_priority_and_unknown_flags" => g.d.cuStreamCreateWithPriority(g.out(), 0x80, 0);
    "no_stream_destroyed" => g.d.cuStreamDestroy_v2(null_mut());
    "priority_to_nowhere" => g.d.cuStreamGetPriority(g.stream, null_mut());
    "stream_flags_to_nowhere" => g.d.cuStreamGetFlags(g.stream, null_mut());
    "stream_id_to_nowhere" => g.d.cuStreamGetId(g.stream, null_mut());
    "stream_context_to_nowhere" => g.d.cuStreamGetCtx(g.stream, null_mut());
    "waited_for_no_event" => g.d.cuStreamWaitEvent(g.stream, null_mut(), 0);
    "waited_with_unknown_flags" => g.d.cuStreamWaitEvent(g.stream, g.event, 0x10);
    "no_host_function" => g.d.cuLaunchHostFunc(g.stream, None, null_mut());
    "no_callback" => g.d.cuStreamAddCallback(g.stream, None, null_mut(), 0);
    "capturing_to_nowhere" => g.d.cuStreamIsCapturing(g.stream, null_mut());
    "attribute_of_a_stream_unknown" => g.d.cuStreamGetAttribute(g.stream, CUstreamAttrID(99), g.out());
    "attribute_of_a_stream_to_nowhere" => g.d.cuStreamGetAttribute(g.stream, CUstreamAttrID(1), null_mut());
    "attribute_of_a_stream_unknown_set" => g.d.cuStreamSetAttribute(g.stream, CUstreamAttrID(99), g.out());
    "value_awaited_at_an_odd_address" => g.d.cuStreamWaitValue32_v2(g.stream, g.memory + 2, 0, 0);
    "value_awaited_at_null" => g.d.cuStreamWaitValue32_v2(g.stream, 0, 0, 0);
    "value_awaited_with_unknown_flags" => g.d.cuStreamWaitValue32_v2(g.stream, g.memory, 0, 0x100);
    "value_written_at_an_odd_address" => g.d.cuStreamWriteValue32_v2(g.stream, g.memory + 1, 0, 0);
    "value_written_with_unknown_flags" => g.d.cuStreamWriteValue32_v2(g.stream, g.memory, 0, 0x100);
    "no_batch_of_values" => g.d.cuStreamBatchMemOp_v2(g.stream, 0, null_mut(), 0);
    "batch_of_values_from_nowhere" => g.d.cuStreamBatchMemOp_v2(g.stream, 1, null_mut(), 0);
    "batch_of_values_with_flags" => g.d.cuStreamBatchMemOp_v2(g.stream, 0, g.out(), 1);
    "event_with_unknown_flags" => g.d.cuEventCreate(g.out(), 0x100);
    "event_for_processes_with_times" => g.d.cuEventCreate(g.out(), 4);
    "event_to_nowhere" => g.d.cuEventCreate(null_mut(), 0);
    "no_event_destroyed" => g.d.cuEventDestroy_v2(null_mut());
    "no_event_recorded" => g.d.cuEventRecord(null_mut(), g.stream);
    "event_recorded_with_unknown_flags" => g.d.cuEventRecordWithFlags(g.event, g.stream, 0x10);
    "event_recorded_as_external_outside_a_capture" => g.d.cuEventRecordWithFlags(g.event, g.stream, 1);
    "waited_for_an_external_event_outside_a_capture" => g.d.cuStreamWaitEvent(g.stream, g.event, 1);
    "no_event_asked" => g.d.cuEventQuery(null_mut());
    "no_event_synchronized" => g.d.cuEventSynchronize(null_mut());
    "time_since_an_event_not_recorded" => g.d.cuEventElapsedTime(g.out(), g.fresh, g.event);
    "time_until_an_event_not_recorded" => g.d.cuEventElapsedTime(g.out(), g.event, g.fresh);
    "time_of_an_event_without_times" => g.d.cuEventElapsedTime(g.out(), g.untimed, g.event);
    "time_of_no_event" => g.d.cuEventElapsedTime(g.out(), null_mut(), g.event);
    "time_to_nowhere" => g.d.cuEventElapsedTime(null_mut(), g.event, g.event);
    "time_to_nowhere_between_events_of_its_own" => {
        let _ = g.d.cuEventCreate(g.out(), 0);
        let event = g.out::<cuda_sys::CUevent>().read();
        let _ = g.d.cuEventRecord(event, g.stream);
        let _ = g.d.cuEventSynchronize(event);
        g.d.cuEventElapsedTime(null_mut(), event, event)
    };
    "event_shared_that_was_not_made_for_it" => g.d.cuIpcGetEventHandle(g.out(), g.event);
    "event_shared_to_nowhere" => g.d.cuIpcGetEventHandle(null_mut(), g.event);
}
