//! `GET /api/v1/openapi.json`: what is served, as OpenAPI 3.1, made from [`ROUTES`] and from the
//! types that are sent.
//!
//! A route carries its own description (`calls.rs`), a parameter its own (`query.rs`), and the
//! JSON is described by the types it is written from. There is no other list to keep up to date.

pub(super) mod calls;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodFilter;
use bytes::Bytes;
use http::{Uri, header};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::auth::Access;
use super::problem::{Details, Problem, Sort};
use super::query::{self, MOST_GIVEN, Parameter};
use super::{App, ROUTES, Route};

/// Of a server without `api_tokens`, and of one with.
static DOCUMENTS: LazyLock<[Bytes; 2]> =
    LazyLock::new(|| [false, true].map(|tokens| document(tokens).to_string().into()));

pub(super) async fn serve(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    query::nothing(&uri)?;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let document = DOCUMENTS[usize::from(app.api_tokens.are_asked_for())].clone();
    Ok((kind, document).into_response())
}

/// The whole document, for a server that asks for tokens or does not.
pub(super) fn document(tokens: bool) -> Value {
    let mut schemas = Schemas::default();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        if let Some(describe) = route.about {
            let mut call = Call { schemas: &mut schemas, said: Map::new(), answers: Map::new() };
            describe(&mut call);
            let operation = call.end(route.access, tokens);
            paths.entry(path(route)).or_default().insert(method(route).into(), operation);
        }
    }
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "fluke",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Continuous delivery for machines: what is known of a fleet, and the \
                            way to have it put right. Errors are problem details (RFC 9457).",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas.all(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "One of the server's `api_tokens`.",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": super::session::COOKIE,
                    "description": "Set by signing in with a browser.",
                },
            },
        },
    })
}

/// Names may contain slashes, which a client writes as `%2F`: one parameter like any other.
fn path(route: &Route) -> String {
    route.path.replace("{*", "{")
}

fn method(route: &Route) -> &'static str {
    let known = [(MethodFilter::POST, "post"), (MethodFilter::DELETE, "delete")];
    known.iter().find(|(of, _)| *of == route.method).map_or("get", |(_, name)| name)
}

/// The schemas of everything that is sent: what is written and what is read may differ.
struct Schemas {
    written: SchemaGenerator,
    read: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            written: settings().for_serialize().into_generator(),
            read: settings().for_deserialize().into_generator(),
        }
    }
}

impl Schemas {
    fn all(mut self) -> Map<String, Value> {
        let mut all = self.read.take_definitions(true);
        all.extend(self.written.take_definitions(true));
        all
    }
}

/// One call, as it describes itself.
pub(super) struct Call<'a> {
    schemas: &'a mut Schemas,
    said: Map<String, Value>,
    answers: Map<String, Value>,
}

impl Call<'_> {
    fn named(&mut self, id: &str, summary: &str) -> &mut Self {
        self.said.insert("operationId".into(), id.into());
        self.said.insert("summary".into(), summary.into());
        self
    }

    fn explained(&mut self, description: &str) -> &mut Self {
        self.said.insert("description".into(), description.into());
        self
    }

    fn parameter(&mut self, parameter: Value) -> &mut Self {
        let parameters = self.said.entry("parameters").or_insert_with(|| json!([]));
        if let Some(parameters) = parameters.as_array_mut() {
            parameters.push(parameter);
        }
        self
    }

    /// What the query string may hold.
    fn asks(&mut self, parameters: &[Parameter]) -> &mut Self {
        for parameter in parameters {
            // A parameter without a value is not given.
            let empty = json!({ "type": "string", "maxLength": 0 });
            let one = json!({ "anyOf": [(parameter.schema)(&mut self.schemas.read), empty] });
            let schema = match parameter.many {
                true => json!({ "type": "array", "items": one, "maxItems": MOST_GIVEN }),
                false => one,
            };
            self.parameter(json!({
                "name": parameter.name,
                "in": "query",
                "description": parameter.about,
                "schema": schema,
            }));
        }
        self
    }

    /// A part of the path.
    fn path<T: JsonSchema>(&mut self, name: &str, about: &str) -> &mut Self {
        let schema = self.schemas.read.subschema_for::<T>();
        self.parameter(json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": about,
            "schema": schema,
        }))
    }

    fn header<T: JsonSchema>(&mut self, name: &str, about: &str) -> &mut Self {
        let schema = self.schemas.read.subschema_for::<T>();
        self.parameter(json!({
            "name": name,
            "in": "header",
            "description": about,
            "schema": schema,
        }))
    }

    /// The body that it reads.
    fn takes<T: JsonSchema>(&mut self) -> &mut Self {
        let schema = self.schemas.read.subschema_for::<T>();
        let content = json!({ "application/json": { "schema": schema } });
        self.said.insert("requestBody".into(), json!({ "required": true, "content": content }));
        self.fails(&[Sort::BadRequest, Sort::TooSlow, Sort::TooLarge, Sort::MediaType])
    }

    /// A body that is somebody else's to describe.
    fn takes_anything(&mut self) -> &mut Self {
        let content = json!({ "application/json": { "schema": {} } });
        self.said.insert("requestBody".into(), json!({ "required": true, "content": content }));
        self
    }

    /// The JSON that it answers with.
    fn answers<T: JsonSchema>(&mut self, status: u16, about: &str) -> &mut Self {
        let schema = self.schemas.written.subschema_for::<T>();
        self.answer(status, about, "application/json", json!(schema))
    }

    /// An answer that is no JSON.
    fn answers_text(&mut self, status: u16, about: &str, kind: &str) -> &mut Self {
        self.answer(status, about, kind, json!({ "type": "string" }))
    }

    fn answer(&mut self, status: u16, about: &str, kind: &str, schema: Value) -> &mut Self {
        let answer = json!({ "description": about, "content": { kind: { "schema": schema } } });
        self.answers.insert(status.to_string(), answer);
        self
    }

    /// A header of the answer with this status.
    fn with_header(&mut self, status: u16, name: &str, about: &str) -> &mut Self {
        if let Some(answer) = self.answers.get_mut(&status.to_string()) {
            let header = json!({
                "description": about,
                "required": true,
                "schema": { "type": "string" },
            });
            answer["headers"][name] = header;
        }
        self
    }

    /// Another call that takes what the answer with this status has at `pointer`.
    fn leads_to(&mut self, status: u16, call: &str, parameter: &str, pointer: &str) -> &mut Self {
        if let Some(answer) = self.answers.get_mut(&status.to_string()) {
            let value = format!("$response.body#{pointer}");
            answer["links"][call] = json!({
                "operationId": call,
                "parameters": { parameter: value },
            });
        }
        self
    }

    /// The problems that it may answer with, besides those that any call may.
    fn fails(&mut self, sorts: &[Sort]) -> &mut Self {
        for sort in sorts {
            let line = format!("`{}`: {}.", sort.id(), sort.title());
            let entry = self.answers.entry(sort.status().as_str()).or_insert(Value::Null);
            let text = match entry["description"].as_str() {
                Some(text) if text.contains(&line) => text.to_string(),
                Some(text) => format!("{text} {line}"),
                None => line,
            };
            let schema = self.schemas.written.subschema_for::<Details>();
            let content = json!({ "application/problem+json": { "schema": schema } });
            *entry = json!({ "description": text, "content": content });
        }
        self
    }

    /// Adds what is so of every call.
    fn end(mut self, access: Access, tokens: bool) -> Value {
        self.fails(&[Sort::BadRequest, Sort::UriTooLong, Sort::HeadersTooLarge]);
        self.fails(&[Sort::TooManyRequests, Sort::Internal, Sort::Unavailable]);
        if access != Access::Open {
            self.fails(&[Sort::Forbidden, Sort::Misdirected]);
        }
        let credentials = json!([{ "token": [] }, { "session": [] }]);
        let security = match access {
            Access::Open => json!([]),
            Access::Change => {
                self.fails(&[Sort::Unauthorized]);
                credentials
            }
            _ if tokens => {
                self.fails(&[Sort::Unauthorized]);
                credentials
            }
            _ => json!([]),
        };
        self.said.insert("security".into(), security);
        self.said.insert("responses".into(), self.answers.into());
        self.said.into()
    }
}

#[cfg(test)]
mod tests;
