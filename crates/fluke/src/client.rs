//! The server's HTTP API, seen from the command line.

use std::path::Path;
use std::time::Duration;

use fluke_model::api::{ReconcileAccepted, ReconcileRequest};
use fluke_model::secret::Secret;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;

pub mod address;
pub mod changes;
pub mod error;
pub mod feed;
pub mod listing;

#[cfg(test)]
mod tests;

use address::Server;
use error::{ClientError, Problem};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take, all of it.
const ANSWER: Duration = Duration::from_secs(30);
/// How long an open stream may be silent before it is taken for dead.
const SILENCE: Duration = Duration::from_secs(60);
/// The longest answer that is read.
const LONGEST: usize = 256 * 1024 * 1024;

/// A server to ask.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    server: Server,
}

/// What decides how a server is spoken to, besides its address.
#[derive(Default)]
pub struct Access {
    /// The bearer token; kept out of every message.
    pub token: Option<Secret>,
    /// Certificates to trust besides the system's, as PEM.
    pub ca_file: Option<std::path::PathBuf>,
}

impl Access {
    /// As the environment says: `FLUKE_API_TOKEN`, `FLUKE_CA_FILE`.
    pub fn from_environment() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            token: set("FLUKE_API_TOKEN").map(|token| Secret::new(token.to_string_lossy().trim())),
            ca_file: set("FLUKE_CA_FILE").map(Into::into),
        }
    }
}

impl Client {
    /// Prepares to speak to `server`; connects when first asked something.
    pub fn new(server: Server, access: Access) -> Result<Self, ClientError> {
        // Whoever comes first sets it; there is one provider in this program.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("fluke/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .default_headers(headers(access.token.as_ref())?);
        http = match (&server, &access.ca_file) {
            (Server::Unix(path), _) => http.unix_socket(path.clone()).tls_certs_only([]),
            (Server::Http(url), _) if url.scheme() == "http" => http.tls_certs_only([]),
            (Server::Http(_), Some(file)) => http.tls_certs_merge(certificates(file)?),
            (Server::Http(_), None) => http,
        };
        let http = http.build().map_err(|source| ClientError::Setup { source })?;
        Ok(Self { http, base: server.base()?, server })
    }

    /// What is spoken to.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The text that the server answers to `GET path`.
    pub async fn text(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<String, ClientError> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(Method::GET, url).timeout(ANSWER);
        self.read(self.send(request).await?).await
    }

    /// The value that the server answers to `GET path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        self.value(&self.text(path, &[]).await?)
    }

    /// Reads an answer as what it should be.
    pub fn value<T: DeserializeOwned>(&self, text: &str) -> Result<T, ClientError> {
        serde_json::from_str(text)
            .map_err(|source| ClientError::Strange { server: self.server.to_string(), source })
    }

    /// Asks for a reconcile.
    pub async fn reconcile(
        &self,
        wish: &ReconcileRequest,
    ) -> Result<ReconcileAccepted, ClientError> {
        let request = self.http.request(Method::POST, self.url(&["reconcile"])).json(wish);
        let answer = self.send(request.timeout(ANSWER)).await?;
        let text = self.read(answer).await?;
        self.value(&text)
    }

    /// Says that an agent will not come back; what the server answers.
    pub async fn forget(&self, agent: &str) -> Result<String, ClientError> {
        let request = self.http.request(Method::DELETE, self.url(&["agents", agent]));
        let answer = self.send(request.timeout(ANSWER)).await?;
        self.read(answer).await
    }

    /// Opens the stream of changes, with the events behind `last` first.
    async fn stream(&self, last: Option<&str>) -> Result<Response, ClientError> {
        let request = self.http.request(Method::GET, self.url(&["stream"]));
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        self.send(request.header("accept", "text/event-stream")).await
    }

    /// A stream has no end of its own.
    fn ended(&self) -> ClientError {
        ClientError::Lost { server: self.server.to_string(), source: "it was closed".into() }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let answer = request.send().await.map_err(|source| self.trouble(source))?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            status => Err(self.refusal(status, answer).await),
        }
    }

    async fn read(&self, mut answer: Response) -> Result<String, ClientError> {
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|source| self.trouble(source))? {
            if text.len() + chunk.len() > LONGEST {
                return Err(ClientError::TooLong { server: self.server.to_string() });
            }
            text.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    async fn refusal(&self, status: StatusCode, answer: Response) -> ClientError {
        let text = self.read(answer).await.unwrap_or_default();
        let problem = Problem::read(status.as_u16(), &text);
        let server = self.server.to_string();
        match status {
            StatusCode::UNAUTHORIZED => ClientError::Unauthorised { server, problem },
            StatusCode::FORBIDDEN => ClientError::Forbidden { server, problem },
            StatusCode::NOT_FOUND => ClientError::NotFound { server, problem },
            _ => ClientError::Refused { server, problem },
        }
    }

    fn trouble(&self, source: reqwest::Error) -> ClientError {
        // The address is ours to tell, once, and without what it may hide.
        ClientError::from_transport(&self.server, source.without_url())
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        url
    }
}

fn headers(token: Option<&Secret>) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| ClientError::UnusableToken)?;
        value.set_sensitive(true);
        headers.insert("authorization", value);
    }
    Ok(headers)
}

fn certificates(file: &Path) -> Result<Vec<reqwest::Certificate>, ClientError> {
    let name = file.display().to_string();
    let pem = std::fs::read(file)
        .map_err(|source| ClientError::CaFile { file: name.clone(), source: source.into() })?;
    let found = reqwest::Certificate::from_pem_bundle(&pem)
        .map_err(|source| ClientError::CaFile { file: name.clone(), source: source.into() })?;
    match found.is_empty() {
        true => {
            Err(ClientError::CaFile { file: name, source: "there is no certificate in it".into() })
        }
        false => Ok(found),
    }
}
