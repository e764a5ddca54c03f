//! The machine that a memory is of. A core can be from another one than its reader's.

use std::ops::Range;

use allocanary_sys::sys::page_bytes;

/// A processor, as far as it decides where a process has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// x86-64. Thread-local variables lie below the thread pointer.
    X86_64,
    /// ARM with 64 bits. Thread-local variables lie above the thread pointer.
    Aarch64,
}

/// A processor, and its kernel's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor.
    pub processor: Processor,
    /// The bytes of a page: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64, by the kernel's configuration.
    pub page: u64,
}

impl Processor {
    /// The processor that this command is for. What is built for a third one reads no heaps.
    pub const HERE: Processor = if cfg!(target_arch = "aarch64") { Processor::Aarch64 } else { Processor::X86_64 };

    /// By the number of a machine in an ELF file.
    pub fn of_elf(number: u16) -> Option<Processor> {
        match number {
            62 => Some(Processor::X86_64),
            183 => Some(Processor::Aarch64),
            _ => None,
        }
    }

    /// How it is named in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Processor::X86_64 => "x86-64",
            Processor::Aarch64 => "aarch64",
        }
    }

    /// The addresses, at most `reach` bytes far, at which a thread with this pointer can have its thread-local variables.
    pub fn variables(self, pointer: u64, reach: u64) -> Range<u64> {
        match self {
            Processor::X86_64 => pointer.saturating_sub(reach)..pointer,
            Processor::Aarch64 => pointer..pointer.saturating_add(reach),
        }
    }

    /// The first address that no program has: of 47 bits on x86-64, of 48 on aarch64. Programs that ask for addresses of more bits get them
    /// only one by one, and no allocator asks.
    pub fn address_end(self) -> u64 {
        match self {
            Processor::X86_64 => 1 << 47,
            Processor::Aarch64 => 1 << 48,
        }
    }
}

impl Default for Machine {
    fn default() -> Machine {
        Machine::X86_64
    }
}

impl Machine {
    /// x86-64, whose pages have 4 KiB.
    pub const X86_64: Machine = Machine { processor: Processor::X86_64, page: 4096 };

    /// The machine on which this command runs.
    pub fn here() -> Machine {
        Machine { processor: Processor::HERE, page: page_bytes() }
    }

    /// The first byte of the page that has an address.
    pub fn page_of(self, at: u64) -> u64 {
        at / self.page * self.page
    }
}
