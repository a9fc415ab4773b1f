//! What somebody was let in by, for what lasts longer than the moment.

use std::time::SystemTime;

use fluke_model::secret::SecretDigest;
use fluke_model::time::Timestamp;
use http::HeaderMap;

use super::Caller;
use crate::http::App;
use crate::http::session::{self, Ended, Session};

/// A session that is good, with what its cookie is signed with.
#[derive(Debug, Clone)]
pub(in crate::http) struct SignedIn {
    pub session: Session,
    pub token: SecretDigest,
    /// Counted from 1.
    pub number: usize,
}

/// The session that a request shows, if it is a good one.
pub(in crate::http) fn signed_in(
    headers: &HeaderMap,
    valid: &[SecretDigest],
    ended: &Ended,
    now: Timestamp,
) -> Option<SignedIn> {
    let (session, at) = Session::read(session::shown(headers)?, valid, now)?;
    let is_over = ended.has(&session.nonce);
    (!is_over).then(|| SignedIn { session, token: valid[at], number: at + 1 })
}

/// What somebody was let in by; it may be taken back, or its time be up.
#[derive(Debug, Clone)]
pub(in crate::http) enum Pass {
    /// Nothing was asked for.
    Nothing,
    /// The local socket.
    Socket,
    /// A token.
    Token(SecretDigest),
    /// A session that was begun with a token.
    Session(Box<SignedIn>),
}

impl Pass {
    /// Of a caller who was let in by these tokens.
    pub fn of(caller: &Caller, valid: &[SecretDigest], signed_in: Option<&SignedIn>) -> Self {
        let token = |number: &usize| valid.get(number.wrapping_sub(1)).copied();
        match (caller, signed_in) {
            (Caller::Socket { .. }, _) => Self::Socket,
            (Caller::Browser { .. }, Some(it)) => Self::Session(Box::new(it.clone())),
            (Caller::Token(number) | Caller::Browser { token: number, .. }, _) => {
                token(number).map_or(Self::Nothing, Self::Token)
            }
            (Caller::Anonymous, _) => Self::Nothing,
        }
    }

    /// Whether its holder would be let in again now.
    pub fn holds(&self, app: &App) -> bool {
        self.holds_at(SystemTime::now().into(), &app.api_tokens.valid(), &app.0.ended)
    }

    fn holds_at(&self, now: Timestamp, valid: &[SecretDigest], ended: &Ended) -> bool {
        let is_valid = |token: &SecretDigest| valid.iter().any(|valid| valid.same(token));
        match self {
            Self::Nothing => valid.is_empty(),
            Self::Socket => true,
            Self::Token(token) => is_valid(token),
            Self::Session(it) => {
                is_valid(&it.token) && it.session.lasts(now) && !ended.has(&it.session.nonce)
            }
        }
    }
}

#[cfg(test)]
mod tests;
