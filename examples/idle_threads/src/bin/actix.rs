//! An HTTP server of actix-web. Each of its worker threads has a runtime of its own, which actix builds: there is no hook
//! before a wait. So each worker gets a task that calls `thread_idle` five times a second.
//!
//! `cargo run --release -p idle_threads --bin actix`

include!("../allocator.rs");

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use allocanary::tuning;
use idle_threads::{THREADS, ask, request};

static NUMBER: AtomicU64 = AtomicU64::new(0);

async fn answer() -> HttpResponse {
    HttpResponse::Ok().body(request(NUMBER.fetch_add(1, Ordering::Relaxed)).to_string())
}

/// The hook: a task of the calling thread.
fn give_back_when_idle() {
    rt::spawn(async {
        loop {
            rt::time::sleep(Duration::from_millis(200)).await;
            let _ = tuning::thread_idle();
        }
    });
}

fn main() -> ExitCode {
    idle_threads::main("actix-web", || {
        let (send, address) = channel();
        let server = std::thread::spawn(move || {
            rt::System::new().block_on(async move {
                // The function is called once in each worker.
                let server = HttpServer::new(|| {
                    give_back_when_idle();
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
