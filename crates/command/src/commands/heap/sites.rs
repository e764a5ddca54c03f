//! Finds where leaked blocks were allocated. In: contents with the addresses of the leaked blocks, and a trace of the
//! same process. Out: the contents, with the call sites.

use std::collections::HashSet;
use std::path::Path;

use allocanary_contents::{Contents, LeakSite};
use allocanary_names::FrameNames;
use allocanary_rows::error::{Error, Result};
use allocanary_trace::reader::Trace;
use allocanary_who::{By, Folding, MomentChoice, TracePoint, sites};

/// Opens a trace with stacks.
pub fn open(file: &Path) -> Result<Trace> {
    let trace = Trace::open(file)?;
    if let Some(why) = trace.header.without_stacks() {
        return Err(Error::Input(format!("heap: --trace {}: {why}", file.display())));
    }
    Ok(trace)
}

/// Adds the call sites of the leaked blocks to contents, and removes the addresses of the blocks.
pub fn add(contents: &mut Contents, trace: &Trace) -> Result<()> {
    is_of(trace, contents)?;
    let Some(leaked) = &mut contents.leaked else { return Ok(()) };
    let lost: HashSet<u64> = std::mem::take(&mut leaked.addresses).into_iter().collect();
    let end = MomentChoice::At(u64::MAX);
    let moment = TracePoint::of(Some(end), &trace.header.marks, &[])?.expect("a time is a moment");
    let (mut taken, ..) = sites::take(trace, moment, false)?;
    taken.blocks.retain(|block| lost.contains(&block.address));
    let stacks = trace.stacks()?;
    let mut names = FrameNames::of(&stacks).with_map_of(trace.path());
    let blocks = taken.blocks.len() as u64;
    let found = sites::find(&trace.header.program, &taken, None, &mut names, By::Function, &Folding::default());
    let of_sites = found.sites.into_iter().filter(|site| site.blocks > 0);
    leaked.sites = of_sites.map(|site| LeakSite { name: site.name, blocks: site.blocks, bytes: site.live }).collect();
    leaked.sites.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.name.cmp(&other.name)));
    if let Some(others) = leaked.blocks.checked_sub(blocks).filter(|others| *others > 0) {
        leaked.sites.push(LeakSite { name: String::new(), blocks: others, bytes: 0 });
    }
    contents.problems.extend(found.one_in.map(|one_in| {
        format!("One allocation in {one_in:.0} has a stack in the trace: the blocks of call sites are an estimate.")
    }));
    Ok(())
}

/// Refuses a trace of another process. The addresses of its blocks would be mistaken for those of this process.
fn is_of(trace: &Trace, contents: &Contents) -> Result<()> {
    let (header, process) = (&trace.header, &contents.process);
    let executable = process.raw_path();
    let begun = header.start_wall / 1_000_000_000;
    // A core does not say when its process began; such contents have the time of the reading instead. The tolerance of
    // 2 s is needed because the kernel counts from the time of boot, which is rounded.
    let is_core = process.started == contents.taken / 1000;
    if header.pid == process.pid && header.program == executable && (is_core || begun + 2 >= process.started) {
        return Ok(());
    }
    Err(Error::Input(format!(
        "heap: --trace {}: wanted a trace of process {}, {}, begun at {} (seconds since 1970) or later; found one of process {}, {}, \
         begun at {begun}",
        trace.path().display(),
        process.pid,
        process.executable.harmless(),
        process.started,
        header.pid,
        header.program
    )))
}
