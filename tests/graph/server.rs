//! A server of sockets, not of HTTP: it can close, hang or cut an answer at any byte, and writes down what reached it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    fn is(&self, part: &str) -> bool {
        self.line.split(' ').nth(1).is_some_and(|path| path.contains(part))
    }
}

/// What the server does with a request that it has read.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Writes these bytes and keeps the connection.
    Write(String),
    /// Writes these bytes and closes.
    WriteAndClose(String),
    /// Never answers.
    Hang,
}

/// Where on a connection the server goes wrong, if it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Accept {
    Serve,
    CloseAtOnce,
    CloseAfterHead,
}

type Script = dyn Fn(&Request, usize) -> Step + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves by `script`, which sees each request and its number from 0.
    pub(crate) async fn start(script: impl Fn(&Request, usize) -> Step + Send + Sync + 'static) -> Self {
        Self::start_with(|_| Accept::Serve, script).await
    }

    pub(crate) async fn start_with(
        accept: impl Fn(usize) -> Accept + Send + 'static,
        script: impl Fn(&Request, usize) -> Step + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (shared, script): (_, Arc<Script>) = (Arc::clone(&log), Arc::new(script));
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                match accept(number) {
                    Accept::CloseAtOnce => drop(stream),
                    how => drop(tokio::spawn(serve(stream, how, Arc::clone(&shared), Arc::clone(&script)))),
                }
            }
        });
        Self { address, log }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests so far whose path holds `part`.
    pub(crate) fn seen(&self, part: &str) -> Vec<Request> {
        self.log.lock().expect("no panic").iter().filter(|request| request.is(part)).cloned().collect()
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.seen(part).len()
    }
}

async fn serve(mut stream: TcpStream, how: Accept, log: Arc<Mutex<Vec<Request>>>, script: Arc<Script>) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            read(&mut stream, &mut buffer).await?;
        };
        if how == Accept::CloseAfterHead {
            return None;
        }
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let mut lines = head.lines().filter(|line| !line.is_empty());
        let line = lines.next().unwrap_or_default().to_owned();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
        let whole = end + length.parse::<usize>().expect("a length");
        while buffer.len() < whole {
            read(&mut stream, &mut buffer).await?;
        }
        let request = Request { line, headers, body: buffer[end..whole].to_vec() };
        buffer.drain(..whole);
        let number = {
            let mut log = log.lock().expect("no panic");
            log.push(request.clone());
            log.len() - 1
        };
        match script(&request, number) {
            Step::Write(bytes) => stream.write_all(bytes.as_bytes()).await.ok()?,
            Step::WriteAndClose(bytes) => {
                stream.write_all(bytes.as_bytes()).await.ok()?;
                stream.shutdown().await.ok()?;
                return None;
            }
            Step::Hang => std::future::pending().await,
        }
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(buffer).await.ok()? > 0).then_some(())
}

/// An answer with a status, headers and a body.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n" + body
}

/// A token answer.
pub(crate) fn token(value: &str, seconds: u64) -> Step {
    let body = format!(r#"{{"token_type":"Bearer","expires_in":{seconds},"access_token":"{value}"}}"#);
    Step::Write(answer("200 OK", &[("content-type", "application/json")], &body))
}

pub(crate) fn accepted() -> Step {
    Step::Write(answer("202 Accepted", &[("request-id", "graph-1")], ""))
}

pub(crate) fn status(status: &str) -> Step {
    Step::Write(answer(status, &[], ""))
}
