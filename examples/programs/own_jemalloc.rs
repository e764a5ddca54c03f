//! A Rust program with its own jemalloc, like many services: its threads allocate, keep and free strings. In: nothing. Out: a number that
//! is the same under all settings, and on standard error the settings of its jemalloc.
//!
//! `allocanary run -- target/release/examples/own-jemalloc`

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn work(seed: usize) -> usize {
    let mut kept: Vec<String> = vec![String::new(); 500];
    for turn in 0..20_000 {
        kept[turn * seed % 500] = "x".repeat(16 + turn % 500);
    }
    kept.iter().map(String::len).sum()
}

fn main() {
    let threads: Vec<_> = (1..9).map(|seed| std::thread::spawn(move || work(seed))).collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>());
    let (narenas, tcache) = (tikv_jemalloc_ctl::opt::narenas::read(), tikv_jemalloc_ctl::opt::tcache::read());
    eprintln!("narenas {}, tcache {}", narenas.unwrap(), tcache.unwrap());
}
