//! What a page did that nobody sees: requests, complaints in the console, exceptions.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;

use super::connection::lock;

/// One request of a page.
#[derive(Debug, Clone)]
pub struct Requested {
    pub url: String,
    /// Bytes over the network, once it is done.
    pub bytes: u64,
}

/// Everything that a page did, in order.
#[derive(Default)]
pub struct Conduct {
    requests: Mutex<(Vec<Requested>, HashMap<String, usize>)>,
    complaints: Mutex<Vec<String>>,
}

impl Conduct {
    pub fn requests(&self) -> Vec<Requested> {
        lock(&self.requests).0.clone()
    }

    /// Errors and warnings of the console, exceptions, violations of the content policy.
    pub fn complaints(&self) -> Vec<String> {
        lock(&self.complaints).clone()
    }

    pub fn forget(&self) {
        *lock(&self.requests) = Default::default();
        lock(&self.complaints).clear();
    }

    pub fn note(&self, method: &str, params: &Value) {
        match method {
            "Network.requestWillBeSent" => self.requested(params),
            "Network.loadingFinished" => {
                let bytes = params["encodedDataLength"].as_f64().unwrap_or(0.0) as u64;
                self.found(params, |request| request.bytes = bytes);
            }
            "Network.webSocketCreated" | "Network.webTransportCreated" => self.requested(params),
            "Runtime.consoleAPICalled" => self.console(params),
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let text = details["exception"]["description"].as_str();
                self.complain(text.or(details["text"].as_str()).unwrap_or("?"));
            }
            "Log.entryAdded" => self.logged(&params["entry"]),
            "Inspector.targetCrashed" => self.complain("the page crashed"),
            _ => {}
        }
    }

    fn requested(&self, params: &Value) {
        let url = params["request"]["url"].as_str().or(params["url"].as_str()).unwrap_or("?");
        let mut requests = lock(&self.requests);
        let at = requests.0.len();
        requests.0.push(Requested { url: url.to_owned(), bytes: 0 });
        // A redirect goes on under the same id.
        requests.1.insert(params["requestId"].as_str().unwrap_or_default().to_owned(), at);
    }

    fn found(&self, params: &Value, change: impl FnOnce(&mut Requested)) {
        let mut requests = lock(&self.requests);
        let at = requests.1.get(params["requestId"].as_str().unwrap_or_default()).copied();
        if let Some(request) = at.and_then(|at| requests.0.get_mut(at)) {
            change(request);
        }
    }

    fn console(&self, params: &Value) {
        if !matches!(params["type"].as_str(), Some("error" | "warning" | "assert")) {
            return;
        }
        let arguments = params["args"].as_array().into_iter().flatten();
        let words: Vec<_> = arguments
            .map(|it| match it["description"].as_str() {
                Some(text) => text.to_owned(),
                None => it["value"].to_string(),
            })
            .collect();
        self.complain(&words.join(" "));
    }

    fn logged(&self, entry: &Value) {
        if matches!(entry["level"].as_str(), Some("error" | "warning")) {
            let text = entry["text"].as_str().unwrap_or("?");
            self.complain(&format!("{text} {}", entry["url"].as_str().unwrap_or_default()));
        }
    }

    fn complain(&self, text: &str) {
        lock(&self.complaints).push(text.trim().to_owned());
    }
}
