//! Lets the reader of a sampled profile read a live process.

use allocanary_profile::reader::{Mapping, ProcessMemory};

use crate::{LiveProcess, Memory};

impl ProcessMemory for LiveProcess {
    fn pid(&self) -> u32 {
        LiveProcess::pid(self)
    }

    fn mappings(&self) -> Vec<Mapping> {
        Memory::mappings(self).to_vec()
    }

    fn present(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let present = self.pages().within(from, to).filter(|run| run.state.is_resident());
        present.map(|run| (run.from, run.to)).collect()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        Memory::read(self, at, into)
    }
}
