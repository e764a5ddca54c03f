//! Sends a request to another canary. In: its address. Out: its answer, within limits of time and size.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::error::causes;

/// The longest wait for a canary.
const DEADLINE: Duration = Duration::from_secs(2);

/// The most bytes of an answer. The cells of a thousand peers need fewer.
const MOST_BYTES: usize = 256 * 1024;

/// Requests `path` there. The error is a line for people.
pub(super) async fn get(address: SocketAddr, path: &'static str) -> Result<Bytes, String> {
    match tokio::time::timeout(DEADLINE, exchange(address, path)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
    }
}

async fn exchange(address: SocketAddr, path: &'static str) -> Result<Bytes, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| causes(&error))?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(16 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| causes(&error))?;
    let request = Request::get(path).header(HOST, address.to_string()).header(CONNECTION, "close");
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| causes(&error))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| causes(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("answered {}", response.status()));
        }
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| causes(&*error))
    };
    tokio::pin!(answer, connection);
    // The connection may end before its last answer is read. After that, waiting for the answer would never end.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(causes(&error)),
        },
    }
}
