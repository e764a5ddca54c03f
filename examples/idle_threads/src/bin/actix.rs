//! An HTTP server of actix-web. Each of its worker threads has its own tokio runtime, which actix builds. Each runtime gets a task that
//! makes the worker give its memory back when it has been quiet for 100 ms.
//!
//! A task that called `thread_idle` five times a second, busy or not, cost a tenth of the requests.
//!
//! `cargo run --release -p idle_threads --bin actix`

include!("../allocator.rs");

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use allocanary::tuning;
use idle_threads::{THREADS, ask, request, when_quiet};

static NUMBER: AtomicU64 = AtomicU64::new(0);

async fn answer() -> HttpResponse {
    HttpResponse::Ok().body(request(NUMBER.fetch_add(1, Ordering::Relaxed)).to_string())
}

fn main() -> ExitCode {
    idle_threads::main("actix-web", || {
        let (send, address) = channel();
        let server = std::thread::spawn(move || {
            rt::System::new().block_on(async move {
                // The function is called once in each worker.
                let server = HttpServer::new(|| {
                    rt::spawn(when_quiet(Duration::from_millis(100), || drop(tuning::thread_idle()))); // the hook
                    App::new().route("/", web::get().to(answer))
                });
                let server = server.workers(THREADS).bind("127.0.0.1:0").expect("there is a free port");
                send.send(server.addrs()[0]).expect("main waits for it");
                server.disable_signals().run().await
            })
        });
        (ask(address.recv().expect("the server was bound")), server)
    })
}
