//! A server that asks for nothing, and the names it is called by.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// The status of the answer to who asks for metrics by this name.
fn asked_by(server: &ServerProgram, name: &str) -> String {
    let mut stream = TcpStream::connect(&server.http).expect("connects");
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.lines().next().unwrap_or_default().to_string()
}

#[test]
fn a_server_without_tokens_and_tls_answers_to_the_names_of_its_config() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let names = "  agent_tokens = [\"t\"]\n  http_names = [\"fluke.big.com\"]\n  \
                 tls {\n    enabled = false\n  }\n";
    let server =
        ServerProgram::start(folder, &(names.to_string() + &git(&repository(folder))), &[]);
    for (name, answer) in [
        (&*server.http, "HTTP/1.1 200 OK"),
        ("fluke.big.com:7071", "HTTP/1.1 200 OK"),
        ("other.big.com:7071", "HTTP/1.1 421 Misdirected Request"),
    ] {
        assert_eq!(asked_by(&server, name), answer, "{name}");
    }
}
