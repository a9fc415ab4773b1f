//! Connections whose kernel notices that the other end is dead.
//!
//! Heartbeats show that the other side's program lives. That its host is cut off or without power
//! is seen sooner, and at no cost to either program, by the kernels.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// A quiet connection is asked after so long, and again so often, so many times.
const QUIET: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_secs(5);
const TIMES: u32 = 3;

/// Sends small messages at once, and lets the kernel end the connection when nothing has come back
/// for half a minute: neither an answer to what was sent nor to its own questions.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let questions = TcpKeepalive::new().with_time(QUIET).with_interval(AGAIN).with_retries(TIMES);
    socket.set_tcp_keepalive(&questions)?;
    socket.set_tcp_user_timeout(Some(QUIET + AGAIN * TIMES))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_dead_other_end_is_known_in_half_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).await.expect("a connection");
        prepare(&stream).expect("options that Linux has");
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("told"));
        let asks_until = QUIET + AGAIN * socket.tcp_keepalive_retries().expect("told");
        assert_eq!(asks_until, Duration::from_secs(30));
        assert_eq!(socket.tcp_user_timeout().expect("told"), Some(asks_until));
    }
}
