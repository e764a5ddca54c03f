//! Recognises the JVM's heap. With compressed pointers it is below 32 GiB, or below 64 GiB with objects at multiples of 16. Only a program
//! that is linked to a fixed address is there too. ZGC maps a file in memory, which has a name.

use super::{RuntimeHeap, Sight};
use crate::Mapping;

/// The Java heap.
pub const HEAP: RuntimeHeap = RuntimeHeap {
    name: "the JVM's heap",
    how: "libjvm.so is mapped, and memory below 64 GiB",
    tool: "jcmd PID GC.heap_info; -XX:NativeMemoryTracking=summary and jcmd PID VM.native_memory",
    is_here,
    owns: |_, mapping| mapping.name.is_empty() && mapping.to <= 64 << 30 && !mapping.executable,
};

/// The code that the JVM has compiled.
pub const CODE: RuntimeHeap = RuntimeHeap {
    name: "the JVM's compiled code",
    how: "libjvm.so is mapped, and memory that can be executed",
    tool: "jcmd PID Compiler.codecache",
    is_here,
    owns: |_, mapping: &Mapping| mapping.executable,
};

fn is_here(sight: &Sight) -> bool {
    sight.has_file("libjvm.so")
}
