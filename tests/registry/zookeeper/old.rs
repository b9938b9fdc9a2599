//! A current server behind a proxy that does not support the persistent watches of ZooKeeper 3.6.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};

/// The request `addWatch`.
const ADD_WATCH: i32 = 106;
/// The error for an unknown request.
const UNIMPLEMENTED: i32 = -6;
/// No packet is longer.
const LONGEST: usize = 4 << 20;

pub struct Old {
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Old {
    pub async fn before(server: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                tokio::spawn(talk(client, server));
            }
        });
        Self { address, task }
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Passes packets on, one by one; like such a server, it ends the connection after an unknown one.
async fn talk(client: TcpStream, server: TcpStream) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // The packet that opens the session has no header.
    let mut opened = false;
    // Kept across iterations: a packet may come in pieces.
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            read = from_client.read_buf(&mut asked) => {
                if !read.is_ok_and(|count| count > 0) {
                    return;
                }
                while let Some(packet) = packet(&mut asked) {
                    if std::mem::replace(&mut opened, true) && packet.get(4..8) == Some(&ADD_WATCH.to_be_bytes()) {
                        // Its number, no transaction, the error.
                        let answer = [&packet[..4], &0_i64.to_be_bytes(), &UNIMPLEMENTED.to_be_bytes()].concat();
                        pass(&mut to_client, &answer).await;
                        return;
                    }
                    pass(&mut to_server, &packet).await;
                }
            }
            read = from_server.read_buf(&mut answered) => {
                if !read.is_ok_and(|count| count > 0) {
                    return;
                }
                while let Some(packet) = packet(&mut answered) {
                    pass(&mut to_client, &packet).await;
                }
            }
        }
    }
}

/// The first packet of the buffer, once it is complete.
fn packet(read: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = read.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize)?;
    assert!(length <= LONGEST, "a packet of {length} bytes");
    if read.len() < 4 + length {
        return None;
    }
    let rest = read.split_off(4 + length);
    Some(std::mem::replace(read, rest).split_off(4))
}

async fn pass(to: &mut OwnedWriteHalf, packet: &[u8]) {
    let length = u32::try_from(packet.len()).unwrap();
    // A closed connection is noticed when reading.
    let _gone = to.write_all(&[&length.to_be_bytes(), packet].concat()).await;
}
