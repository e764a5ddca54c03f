//! The flags of `heap`. In: what the user typed. Out: plain values.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Flags of `heap`.
#[derive(Args, Clone, Default)]
pub struct HeapFlags {
    /// A process ID, or the name of a process or of its executable; or `diff BEFORE AFTER`, or `show READING`.
    ///
    /// BEFORE, AFTER and READING are files of --save. A process whose name is diff or show is found by its process ID.
    #[arg(value_name = "PROCESS", value_hint = ValueHint::AnyPath, num_args = 0..=3)]
    pub what: Vec<String>,
    /// Read the process and all its children; a page that several have counts once [default: one process].
    #[arg(long, conflicts_with = "all")]
    pub tree: bool,
    /// Read every process that may be read, one line each [default: one process].
    #[arg(long, conflicts_with_all = ["what", "every", "to"])]
    pub all: bool,
    /// Read a core file, as the kernel or gcore writes it, in place of a process; pages full of zeroes do not count [default: none].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["what", "tree", "all", "every", "freeze"])]
    pub core: Option<PathBuf>,
    /// Read again and again, such as 5s, until the process ends: a line each time [default: once].
    #[arg(long, value_name = "TIME", conflicts_with = "tree")]
    pub every: Option<String>,
    /// Stop the process while it is read, for about half a second for each GiB [default: do not stop it].
    #[arg(long, conflicts_with_all = ["tree", "all"])]
    pub freeze: bool,
    /// Also read how many processes have each page (PSS), and what is lazily freed. Meanwhile `mmap`, `munmap` and `brk` of the process wait, up to
    /// 0.4 s for each resident GiB [default: not read; --tree as root reads how many have a page, without such a wait].
    #[arg(long, conflicts_with = "core")]
    pub exact_shares: bool,
    /// Show what the heap contains: kinds of objects, who holds them, and what is leaked (docs/contents.md) [default: show the parts].
    #[arg(long, conflicts_with_all = ["tree", "all", "every", "short", "exact_shares"])]
    pub contents: bool,
    /// Memory of the process that --contents may copy. For a larger process the output has only the kinds, by a sample [default: 2GiB].
    #[arg(long, value_name = "SIZE", requires = "contents")]
    pub copy_limit: Option<String>,
    /// With --contents: also show texts that occur more than once, and those of leaked blocks. They may be secrets [default: off].
    #[arg(long, requires = "contents")]
    pub texts: bool,
    /// With --contents: show who points to the block at this address, the path from its holder, and what it retains [default: none].
    #[arg(long, value_name = "ADDRESS", requires = "contents")]
    pub to_address: Option<String>,
    /// With --contents: show this for the five blocks of a kind that retain most. NAME is the kind, or a part of its name [default: none].
    #[arg(long, value_name = "NAME", requires = "contents", conflicts_with = "to_address")]
    pub kind: Option<String>,
    /// With --contents: show where leaked blocks were allocated, by a trace of the process that `allocanary record --stack-sample all` writes [default: none].
    #[arg(long, value_name = "FILE", requires = "contents", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
    /// Time for each process, or for the core. If it is not enough, the heap is not analysed, and the output says so. With --contents it is CPU
    /// time [default: 30s].
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Memory that the reader may take, such as 1GiB. If it is not enough, the heap is not analysed, and the output says so
    /// [default: 256MiB; with --contents also twelve times what may be copied].
    #[arg(long, value_name = "SIZE")]
    pub reader_memory: Option<String>,
    /// Print the reading as one line of JSON (docs/json.md has its fields) [default: text].
    #[arg(long, conflicts_with = "short")]
    pub json: bool,
    /// Print the answer in at most ten lines [default: off].
    #[arg(long, conflicts_with_all = ["tree", "all", "every"])]
    pub short: bool,
    /// Save the reading for diff and show; only you can read the file; with --every a line each [default: none].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub save: Option<PathBuf>,
    /// Also write a file that only you can read: a page with a map of the memory (*.html) [default: none].
    #[arg(long = "output", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "tree")]
    pub to: Option<PathBuf>,
}
