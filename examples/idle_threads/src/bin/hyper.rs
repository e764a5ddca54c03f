//! An HTTP server of hyper on tokio's worker threads, with clients over the loopback interface. One line lets every worker
//! give its memory back when the server has been quiet for 100 ms.
//!
//! `cargo run --release -p idle_threads --bin hyper`
//!
//! tokio also has a hook before each wait of a worker, `on_thread_park`. A worker of a busy server waits thousands of times
//! a second. `IDLE_HOOK=park` uses that hook instead, to show what it costs.
//!
//! `hyper --listen 127.0.0.1:8088` serves until it is ended. Other examples use it as a program on tokio.

include!("../allocator.rs");

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use allocanary::tuning;
use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use idle_threads::{THREADS, ask, request, when_quiet};
use tokio::net::TcpListener;

static NUMBER: AtomicU64 = AtomicU64::new(0);

async fn answer(_: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let blocks = request(NUMBER.fetch_add(1, Ordering::Relaxed));
    Ok(Response::new(Full::new(Bytes::from(blocks.to_string()))))
}

async fn serve(listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, address] = words.as_slice()
        && flag == "--listen"
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let served = runtime.and_then(|runtime| {
            runtime.block_on(async {
                serve(TcpListener::bind(address.as_str()).await?).await;
                Ok(())
            })
        });
        if let Err(error) = served {
            eprintln!("hyper: {address}: {error}");
        }
        return ExitCode::FAILURE;
    }
    let park = std::env::var_os("IDLE_HOOK").is_some_and(|hook| hook == "park");
    idle_threads::main(if park { "hyper, before each wait" } else { "hyper" }, || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        if park {
            builder.on_thread_park(|| drop(tuning::thread_idle()));
        }
        let runtime = builder.worker_threads(THREADS).enable_all().build().expect("threads can be started");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        if !park {
            runtime.spawn(when_quiet(Duration::from_millis(100), || drop(tuning::thread_idle()))); // the hook
        }
        runtime.spawn(serve(listener));
        (ask(address), runtime)
    })
}
