//! What Redis says, and what to do about it.

use redis::{ErrorKind, RedisError};

/// What went wrong, in words for whoever runs the server. Holds no secret: Redis repeats none.
pub fn explain(error: &RedisError, speaks_tls: bool) -> String {
    let (said, code) = said(error);
    match advice(error, &said, &code, speaks_tls) {
        Some(advice) => format!("{said}; {advice}"),
        None => said,
    }
}

/// The first thing that went wrong, and its code if Redis itself said it.
fn said(error: &RedisError) -> (String, String) {
    // A batch fails with one error for each of its commands, all the same.
    if let Some(errors) = error.clone().into_server_errors()
        && let Some((_, first)) = errors.first()
    {
        let said = match first.details() {
            Some(details) => format!("{} {details}", first.code()),
            None => first.code().to_string(),
        };
        return (said, first.code().to_string());
    }
    let code = error.code().unwrap_or_default().to_string();
    let said = match error.detail() {
        Some(detail) if !code.is_empty() => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    (said, code)
}

fn advice(error: &RedisError, said: &str, code: &str, speaks_tls: bool) -> Option<&'static str> {
    let has = |part: &str| said.contains(part);
    Some(match code {
        "OOM" => {
            "Redis is full: raise its `maxmemory`, shorten `ttl`, or let it drop the oldest events \
             with `maxmemory-policy volatile-ttl`"
        }
        "READONLY" => "this is a replica: `url` must name the server that takes writes",
        "WRONGPASS" | "NOAUTH" => "check the user and the password in `url`",
        "NOPERM" => "this user needs more rights: see \"Keep history in Redis\" in the manual",
        "MOVED" | "ASK" | "CROSSSLOT" => "this is a Redis Cluster: set `cluster = true`",
        "CLUSTERDOWN" | "MASTERDOWN" => {
            "a part of the cluster is down: see `redis-cli cluster info`"
        }
        "LOADING" => "this ends by itself",
        "MISCONF" => "Redis cannot write to its own disk: see its log",
        _ if error.kind() == ErrorKind::AuthenticationFailed => {
            "check the user and the password in `url`"
        }
        _ if has("cluster support disabled") => "this is no cluster: take out `cluster = true`",
        _ if has("DB index is out of range") => "there is no such database: see `url`",
        _ if has("UnknownIssuer") => "give the CA of its certificate in `ca_file`",
        _ if has("CertificateRequired") => {
            "Redis wants a certificate: give `cert_file`, `key_file`"
        }
        _ if has("NotValidForName") => "the certificate is for another name than the one in `url`",
        _ if has("InvalidContentType") || has("InvalidMessage") => {
            "that port does not speak TLS: write redis:// instead of rediss://"
        }
        // Redis takes the beginning of TLS for that of a line, and waits for its end.
        _ if error.is_timeout() && speaks_tls => {
            "does it hang? If the port speaks no TLS, write redis:// instead of rediss://"
        }
        _ if error.is_timeout() => "does it hang, or does a firewall swallow everything?",
        _ if error.is_connection_refusal() => "is Redis running there?",
        _ if error.is_connection_dropped() => {
            "did Redis stop? If the port speaks TLS, write rediss:// instead of redis://"
        }
        _ => return None,
    })
}
