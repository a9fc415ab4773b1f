//! The server's HTTP API, over its local socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// `GET`s a document.
pub(crate) fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> io::Result<T> {
    let (status, body) = exchange(socket, "GET", path, &[], "")?;
    if status != 200 {
        return Err(io::Error::other(format!("GET {path}: {status}: {body}")));
    }
    serde_json::from_str(&body).map_err(|error| io::Error::other(format!("GET {path}: {error}")))
}

/// One request, one answer: status and body. HTTP/1.0, where the end of the body is the end of
/// the connection.
pub(crate) fn exchange(
    socket: &Path,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no HTTP: {head}")))?;
    Ok((status, body.to_string()))
}
