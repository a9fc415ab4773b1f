//! Those who come to the agents' port by mistake: a browser gets words instead of an empty page.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use tonic::body::Body;
use tonic::codegen::Service;

const WORDS: &str = "This port is for fluke agents, which speak gRPC. People and programs use the \
                     port of `listen_http`, 7071 where nothing else is set.\n";

/// Lets gRPC through, and tells everybody else where they are.
#[derive(Debug, Clone)]
pub(super) struct AgentsOnly<S>(pub(super) S);

impl<S, B> Service<Request<B>> for AgentsOnly<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        match kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
            true => Either::Left(self.0.call(request)),
            false => Either::Right(ready(Ok(words()))),
        }
    }
}

fn words() -> Response<Body> {
    let mut response = Response::new(Body::new(WORDS.to_owned()));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
