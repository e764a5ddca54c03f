//! A service on axum whose requests do their work on tokio's blocking threads, like requests that call a database or an image library.
//!
//! `door_axum PORT [threads=N] [trim]`: N is the most blocking threads (tokio's default: 512). `trim` calls `malloc_trim` every 5 s.

use std::sync::Mutex;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::routing::get;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(serde::Deserialize)]
struct Request {
    size: usize,
    seed: u64,
}

/// What stays in memory after requests: sessions.
type Sessions = &'static Mutex<Vec<Vec<u8>>>;

/// Allocates blocks of random sizes, `size` bytes in all. One of 2,000 stays.
fn work(request: &Request, sessions: Sessions) -> usize {
    let mut random = request.seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    let mut blocks = Vec::new();
    let mut taken = 0;
    while taken < request.size {
        let size = 32 << (next() % 11);
        let size = size + next() % size;
        blocks.push(vec![1_u8; size]);
        taken += size;
    }
    std::thread::sleep(Duration::from_millis(20));
    let count = blocks.len();
    let mut sessions = sessions.lock().expect("no holder panics");
    sessions.extend(blocks.into_iter().filter(|_| next() % 2000 == 0));
    count
}

async fn answer(Query(request): Query<Request>, State(sessions): State<Sessions>) -> String {
    let done = tokio::task::spawn_blocking(move || work(&request, sessions));
    done.await.expect("the work does not panic").to_string()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads = arguments.iter().find_map(|word| word.strip_prefix("threads="));
    let threads = threads.map_or(512, |count| count.parse().expect("threads=N takes a number"));
    if arguments.iter().any(|word| word == "trim") {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(5));
                // SAFETY: malloc_trim may be called at any time, by any thread.
                unsafe { libc::malloc_trim(0) };
            }
        });
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(threads).build();
    runtime.expect("threads can be started").block_on(async {
        let address = format!("127.0.0.1:{}", arguments[0]);
        let listener = tokio::net::TcpListener::bind(&address).await.expect("the port is free");
        let sessions: Sessions = Box::leak(Box::default());
        let app = axum::Router::new().route("/request", get(answer)).with_state(sessions);
        axum::serve(listener, app).await.expect("the service does not end");
    });
}
