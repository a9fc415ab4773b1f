use std::os::unix::net::UnixListener as BlockingListener;

use tempfile::tempdir;

use super::*;

#[tokio::test]
async fn the_file_lets_owner_and_group_in_and_goes_away_with_the_socket() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("run/fluke/fluke.sock");
    let socket = LocalSocket::bind(&path).await.expect("binds");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o660);
    UnixStream::connect(&path).await.expect("it listens");
    let beside = fs::read_dir(path.parent().expect("parent")).expect("readable").count();
    assert_eq!(beside, 1, "nothing else is left");

    drop(socket);
    assert!(!path.exists());
}

#[tokio::test]
async fn what_a_dead_server_left_is_replaced() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("fluke.sock");
    drop(BlockingListener::bind(&path).expect("binds"));
    assert!(path.exists(), "a dropped listener leaves its file");

    let _socket = LocalSocket::bind(&path).await.expect("replaces it");
    UnixStream::connect(&path).await.expect("it listens");
}

#[tokio::test]
async fn a_living_server_is_left_alone() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("fluke.sock");
    let _first = LocalSocket::bind(&path).await.expect("binds");
    let error = LocalSocket::bind(&path).await.expect_err("taken");
    assert!(error.to_string().starts_with("another fluke server answers at"), "{error}");
    UnixStream::connect(&path).await.expect("the first one still listens");
}

#[tokio::test]
async fn what_is_no_socket_is_never_removed() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("precious");
    fs::write(&path, "data").expect("written");
    let error = LocalSocket::bind(&path).await.expect_err("not a socket");
    assert!(matches!(error, SocketError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("there"), "data");
}

#[tokio::test]
async fn the_file_of_a_successor_stays() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("fluke.sock");
    let first = LocalSocket::bind(&path).await.expect("binds");
    fs::remove_file(&path).expect("somebody cleans up");
    let _second = LocalSocket::bind(&path).await.expect("binds");
    drop(first);
    UnixStream::connect(&path).await.expect("the second one still listens");
}
