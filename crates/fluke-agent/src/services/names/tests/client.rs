//! Asks as a container would.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use domain::base::iana::Rtype;
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::A;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Longer than anything here takes; a test that waits for so long fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub fn question(id: u16, name: &str, kind: Rtype, edns: Option<u16>) -> Vec<u8> {
    let name: Name<Vec<u8>> = name.parse().expect("a name");
    let mut question = MessageBuilder::new_vec().question();
    question.header_mut().set_id(id);
    question.header_mut().set_rd(true);
    question.push((name, kind)).expect("room");
    let mut question = question.additional();
    if let Some(size) = edns {
        let sized = question.opt(|opt| {
            opt.set_udp_payload_size(size);
            Ok(())
        });
        sized.expect("room");
    }
    question.finish()
}

/// One question by UDP, from `source`.
pub async fn from(source: Ipv4Addr, server: SocketAddrV4, packet: &[u8]) -> Message<Vec<u8>> {
    let socket = UdpSocket::bind(SocketAddr::from((source, 0))).await.expect("a socket");
    socket.connect(server).await.expect("loopback");
    socket.send(packet).await.expect("sent");
    received(&socket).await
}

pub async fn received(socket: &UdpSocket) -> Message<Vec<u8>> {
    let mut buffer = vec![0; 65_535];
    let length = tokio::time::timeout(DEADLINE, socket.recv(&mut buffer));
    let length = length.await.expect("an answer in time").expect("received");
    buffer.truncate(length);
    Message::from_octets(buffer).expect("a message")
}

pub async fn udp(server: SocketAddrV4, name: &str) -> Message<Vec<u8>> {
    from(Ipv4Addr::LOCALHOST, server, &question(7, name, Rtype::A, Some(1232))).await
}

pub async fn tcp(server: SocketAddrV4, name: &str) -> Message<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await.expect("connected");
    say(&mut stream, &question(8, name, Rtype::A, None)).await;
    hear(&mut stream).await.expect("an answer")
}

pub async fn say(stream: &mut TcpStream, packet: &[u8]) {
    let length = u16::try_from(packet.len()).expect("short");
    stream.write_u16(length).await.expect("sent");
    stream.write_all(packet).await.expect("sent");
}

/// The next message; none where the server has hung up.
pub async fn hear(stream: &mut TcpStream) -> Option<Message<Vec<u8>>> {
    let heard = async {
        let length = stream.read_u16().await.ok()?;
        let mut message = vec![0; usize::from(length)];
        stream.read_exact(&mut message).await.ok()?;
        Message::from_octets(message).ok()
    };
    tokio::time::timeout(DEADLINE, heard).await.expect("something in time")
}

pub fn addresses(answer: &Message<Vec<u8>>) -> Vec<Ipv4Addr> {
    let records = answer.answer().expect("readable").limit_to::<A>();
    records.map(|record| record.expect("readable").data().addr()).collect()
}

pub fn explanation(answer: &Message<Vec<u8>>) -> String {
    let text = answer.opt().and_then(|opt| {
        let error = opt.opt().extended_error()?;
        error.text_slice().map(|text| String::from_utf8_lossy(text).into_owned())
    });
    text.unwrap_or_default()
}
