//! A trace's figures for a script. In: the facts about a trace. Out: a document whose sizes and times end in their unit.

use allocanary_trace::format::{Marks, TraceHeader};
use allocanary_trace::info::{Class, CurvePoint, Info, StackFigures, ThreadInfo};
use serde_json::{Value, json};

use crate::views::who::seconds;

/// All figures of a trace.
pub fn json(info: &Info) -> Value {
    let merged = &info.merged;
    json!({
        "header": header(&info.header),
        "file_bytes": info.packed_bytes.unwrap_or(info.bytes), "unpacked_bytes": info.bytes,
        "duration_seconds": seconds(merged.nanos), "events": merged.events, "damage": merged.damage,
        "frees_without_allocation": merged.strays, "frees_from_before": merged.before,
        "allocations_without_free": merged.lost_frees,
        "allocations": info.allocations, "callocs": info.callocs, "aligned_allocations": info.aligned,
        "frees": info.frees, "reallocations": info.resizes, "crossing_frees": info.crossing,
        "allocated_total_bytes": info.requested,
        "peak_requested_bytes": info.peak_live, "peak_seconds": seconds(info.peak_nanos),
        "end_requested_bytes": info.end_live, "end_blocks": merged.alive,
        "peak_anonymous_bytes": info.most_resident,
        "stacks": info.stacks.as_ref().map(stacks),
        "classes": info.classes.iter().map(class).collect::<Vec<_>>(),
        "lifetimes": info.lifetimes.iter().map(|(up_to, blocks)| json!({ "up_to": up_to, "blocks": blocks })).collect::<Vec<_>>(),
        "threads": info.threads.iter().map(thread).collect::<Vec<_>>(), "peak_threads": info.most_threads,
        "curve": info.curve.iter().map(point).collect::<Vec<_>>(),
    })
}

fn header(header: &TraceHeader) -> Value {
    json!({
        "program": header.program, "command": header.command, "pid": header.pid, "parent_pid": header.parent,
        "host": header.host, "build": header.build,
        "start_timestamp_seconds": seconds(header.start_wall), "ended_because": header.state.words(),
        "is_attached": header.attached, "is_taken_out": header.taken_out,
        "window_seconds": (header.window > 0).then(|| seconds(header.window)),
        "pages_read_at_seconds": header.end.map(seconds), "marks": marks(&header.marks),
        "one_block_in": header.rate, "one_stack_in": header.stacks,
        "lost_calls": header.lost, "lost_calls_without_chunk": header.no_chunk,
        "cut_stacks": header.cut, "broken_stacks": header.broken, "stacks_without_room": header.no_room,
        "python_malloc": header.python_malloc,
        "anonymous_bytes": header.resident, "peak_anonymous_bytes": header.most_resident,
    })
}

fn marks(marks: &Marks) -> Value {
    let [ready, peak, idle] = [marks.ready, marks.peak, marks.idle].map(|at| at.map(seconds));
    json!({ "ready_seconds": ready, "peak_seconds": peak, "idle_seconds": idle })
}

fn stacks(stacks: &StackFigures) -> Value {
    json!({
        "allocations": stacks.allocations, "different": stacks.different, "nodes": stacks.nodes,
        "modules": stacks.modules, "file_bytes": stacks.bytes,
    })
}

fn class(class: &Class) -> Value {
    json!({
        "largest_block_bytes": class.up_to, "allocations": class.allocations, "allocated_total_bytes": class.bytes,
        "peak_requested_bytes": class.at_peak, "end_requested_bytes": class.at_end, "grows": class.grows,
    })
}

fn thread(thread: &ThreadInfo) -> Value {
    json!({
        "thread": thread.thread, "events": thread.events, "has_ended": thread.ended,
        "first_event_seconds": seconds(thread.first_nanos), "last_event_seconds": seconds(thread.last_nanos),
    })
}

fn point(point: &CurvePoint) -> Value {
    json!({
        "at_seconds": seconds(point.nanos), "requested_bytes": point.live, "anonymous_bytes": point.resident,
        "events": point.events,
    })
}
