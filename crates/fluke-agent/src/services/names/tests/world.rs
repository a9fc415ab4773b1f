//! A server that stands for the world outside, well-behaved or not.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use domain::base::iana::{Class, Rcode};
use domain::base::{Message, MessageBuilder, Ttl};
use domain::rdata::A;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

use super::client;

/// What it says to everything.
pub const ANSWER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);
/// What nobody may believe.
pub const LIE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 66);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Honest,
    /// By UDP nothing but that there is more, by TCP 300 addresses.
    Long,
    Refuses,
    Silent,
    /// Lies under wrong numbers and to other questions before the truth.
    Spoofed,
}

pub struct World {
    pub address: SocketAddr,
    /// The number and the port of each question by UDP.
    pub heard: Arc<Mutex<Vec<(u16, u16)>>>,
    _tasks: JoinSet<()>,
}

impl World {
    pub async fn of(manner: Manner) -> Self {
        let (udp, tcp) = both().await;
        let address = udp.local_addr().expect("bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(datagrams(udp, manner, heard.clone()));
        tasks.spawn(streams(tcp, manner));
        Self { address, heard, _tasks: tasks }
    }

    pub fn heard(&self) -> Vec<(u16, u16)> {
        self.heard.lock().expect("whole").clone()
    }
}

/// The same port for both, which somebody else may have for one of them.
pub async fn both() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().expect("bound")).await {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both");
}

async fn datagrams(udp: UdpSocket, manner: Manner, heard: Arc<Mutex<Vec<(u16, u16)>>>) {
    let mut buffer = vec![0; 65_535];
    loop {
        let (length, from) = udp.recv_from(&mut buffer).await.expect("received");
        let asked = Message::from_octets(buffer[..length].to_vec()).expect("a question");
        heard.lock().expect("whole").push((asked.header().id(), from.port()));
        for answer in said(&asked, manner) {
            udp.send_to(&answer, from).await.expect("sent");
        }
    }
}

fn said(asked: &Message<Vec<u8>>, manner: Manner) -> Vec<Vec<u8>> {
    match manner {
        Manner::Honest => vec![told(asked, &[ANSWER])],
        Manner::Silent => Vec::new(),
        Manner::Refuses => {
            let no = MessageBuilder::new_vec().start_error(asked, Rcode::REFUSED);
            vec![no.finish()]
        }
        Manner::Long => {
            let mut cut = told(asked, &[]);
            cut[2] |= 0x02;
            vec![cut]
        }
        Manner::Spoofed => {
            let mut numbered = told(asked, &[LIE]);
            numbered[0] ^= 1;
            let other = client::question(asked.header().id(), "bank.test", 1.into(), None);
            let other = Message::from_octets(other).expect("a question");
            let mut no_answer = told(asked, &[LIE]);
            no_answer[2] &= 0x7F;
            let garbage = vec![0xFF; 40];
            vec![numbered, told(&other, &[LIE]), no_answer, garbage, told(asked, &[ANSWER])]
        }
    }
}

async fn streams(tcp: TcpListener, manner: Manner) {
    loop {
        let (mut stream, _) = tcp.accept().await.expect("accepted");
        let Some(asked) = client::hear(&mut stream).await else { continue };
        let many: Vec<Ipv4Addr> = (0..300_u32).map(|n| Ipv4Addr::from(0xC633_6400 + n)).collect();
        let answer = match manner {
            Manner::Long => told(&asked, &many),
            _ => told(&asked, &[ANSWER]),
        };
        client::say(&mut stream, &answer).await;
    }
}

fn told(asked: &Message<Vec<u8>>, addresses: &[Ipv4Addr]) -> Vec<u8> {
    let name = asked.sole_question().expect("a question").into_qname();
    let mut answer =
        MessageBuilder::new_vec().start_answer(asked, Rcode::NOERROR).expect("room for it");
    answer.header_mut().set_ra(true);
    for address in addresses {
        answer.push((&name, Class::IN, Ttl::from_secs(60), A::new(*address))).expect("room");
    }
    answer.finish()
}
