//! Connections that can be cut, and are bounded in number.
//!
//! An HTTP server answers every request it reads; a provider in trouble does not. A handler that wants its connection
//! to die marks it and returns whatever it likes: from then on nothing can be written, so the server closes the
//! socket without one byte of an answer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The handler's hold on its connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Scissors(Arc<AtomicBool>);

impl Scissors {
    /// Lets nothing more be written.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Acquire) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for Scissors {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        stream.io().scissors.clone()
    }
}

/// Accepts so many connections at once; the rest wait in the operating system's backlog.
#[derive(Debug)]
pub(super) struct BoundedListener {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl BoundedListener {
    pub(super) fn new(listener: TcpListener, connections_max: usize) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(connections_max.clamp(1, Semaphore::MAX_PERMITS))) }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let permit = Arc::clone(&self.room).acquire_owned().await;
            match (self.listener.accept().await, permit) {
                (Ok((stream, peer)), Ok(permit)) => {
                    let _ = stream.set_nodelay(true); // latencies are ours to add; without it Nagle adds its own
                    return (Connection { stream, scissors: Scissors::default(), _permit: permit }, peer);
                }
                // Out of file descriptors, or the peer was gone before we looked: neither is for ever.
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    scissors: Scissors,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.scissors.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.scissors.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.scissors.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
