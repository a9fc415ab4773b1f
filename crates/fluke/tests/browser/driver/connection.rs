//! The DevTools protocol over pipes: calls with their answers, and events by session.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::PATIENCE;
use super::conduct::Conduct;

type Answer = Result<Value, String>;

/// Where an answer is waited for: in a task, or in a thread.
enum Waiter {
    Task(oneshot::Sender<Answer>),
    Thread(Sender<Answer>),
}

/// The way to the browser. Messages are JSON, each ended by a zero byte.
pub struct Connection {
    pipe: Mutex<Box<dyn Write + Send>>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiter>>,
    conducts: Mutex<HashMap<String, Arc<Conduct>>>,
}

impl Connection {
    /// Reads in a thread of its own: stories have each their own runtime.
    pub fn new(pipe: impl Write + Send + 'static, from: impl Read + Send + 'static) -> Arc<Self> {
        let connection = Arc::new(Self {
            pipe: Mutex::new(Box::new(pipe)),
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            conducts: Mutex::default(),
        });
        let reader = connection.clone();
        std::thread::spawn(move || reader.read(BufReader::new(from)));
        connection
    }

    /// Events of this session go there from now on.
    pub fn listen(&self, session: &str, conduct: Arc<Conduct>) {
        lock(&self.conducts).insert(session.to_owned(), conduct);
    }

    pub fn forget(&self, session: &str) {
        lock(&self.conducts).remove(session);
    }

    /// Calls a method of the browser, or of one of its sessions.
    pub async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.send(session, method, params, Waiter::Task(answer));
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err("the browser is gone".into()),
            Err(_) => panic!("the browser does not answer to {method}"),
        }
    }

    /// The same for where there is no runtime to wait in.
    pub fn call_blocking(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let (answer, answered): (_, Receiver<Answer>) = channel();
        self.send(session, method, params, Waiter::Thread(answer));
        let answer = answered.recv_timeout(PATIENCE);
        answer.unwrap_or_else(|_| Err("the browser is gone".into()))
    }

    fn send(&self, session: Option<&str>, method: &str, params: Value, waiter: Waiter) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.waiting).insert(id, waiter);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let mut pipe = lock(&self.pipe);
        if pipe.write_all(&bytes).and_then(|()| pipe.flush()).is_err() {
            lock(&self.waiting).remove(&id);
        }
    }

    fn read(&self, mut from: impl BufRead) {
        let mut bytes = Vec::new();
        while from.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
            bytes.pop();
            let message: Value = serde_json::from_slice(&bytes).expect("the browser speaks JSON");
            bytes.clear();
            self.hear(message);
        }
        // Whoever waits is told that it is in vain.
        lock(&self.waiting).clear();
    }

    fn hear(&self, mut message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let answer = match message.get("error") {
                Some(error) => Err(error["message"].as_str().unwrap_or("?").to_owned()),
                None => Ok(message["result"].take()),
            };
            match lock(&self.waiting).remove(&id) {
                Some(Waiter::Task(waiter)) => drop(waiter.send(answer)),
                Some(Waiter::Thread(waiter)) => drop(waiter.send(answer)),
                None => {}
            }
            return;
        }
        let (Some(session), Some(method)) =
            (message["sessionId"].as_str(), message["method"].as_str())
        else {
            return;
        };
        let conduct = lock(&self.conducts).get(session).cloned();
        if let Some(conduct) = conduct {
            conduct.note(method, &message["params"]);
        }
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
