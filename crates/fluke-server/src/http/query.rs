//! What query strings ask for. Each call has one table of the parameters that it takes, which is
//! read here and described in the OpenAPI document: there is no other list.

use std::str::FromStr;

use axum::extract::Query;
use fluke_model::api::DriftMark;
use fluke_model::event::{EventId, EventKind};
use fluke_model::id::{AgentName, LabelKey, ServiceName, TaskName};
use fluke_model::label::LabelFilter;
use fluke_model::policy::Policy;
use fluke_model::status::Status;
use http::Uri;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::problem::{Problem, nearest};
use crate::events::EventQuery;
use crate::registry::{AgentFilter, DriftFilter};

/// The most events that one page has.
const MOST_EVENTS: usize = 1000;
const USUAL_EVENTS: usize = 100;
/// The most of anything else.
const MOST: usize = 10_000;
/// How often a parameter may be given that may be given more than once; an agent has no more labels.
pub(super) const MOST_GIVEN: usize = 64;

/// One parameter that a call takes.
pub(super) struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Whether it may be given more than once.
    pub many: bool,
}

/// Something that a parameter can mean.
trait Value: Sized {
    fn read(text: &str) -> Result<Self, String>;
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

const fn one<T: Value>(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, schema: T::schema, many: false }
}

const fn many<T: Value>(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, schema: T::schema, many: true }
}

/// Of `GET agents`.
pub(super) const AGENTS: &[Parameter] = &[
    one::<Status>("status", "Only agents that stand so."),
    many::<LabelFilter>(
        "label",
        "Only agents with this label: `key=value`, or `key` for any value. Given more than once, \
         all must match.",
    ),
    one::<Part>("name", "Only agents whose name contains this."),
    one::<Limit<MOST>>("limit", "At most so many; all where none is given."),
    one::<AgentName>("after", "Only agents behind this name: the `next` of the page before."),
];

/// Of `GET tasks`.
pub(super) const TASKS: &[Parameter] = &[
    one::<Status>("status", "Only tasks that stand so."),
    one::<Part>("name", "Only tasks whose name contains this."),
    one::<Limit<MOST>>("limit", "At most so many; all where none is given."),
    one::<TaskName>("after", "Only tasks behind this name: the `next` of the page before."),
    one::<bool>("agents", "`false` leaves out the list of each task's agents; their counts stay."),
];

/// Of `GET services`.
pub(super) const SERVICES: &[Parameter] = &[
    one::<Status>("status", "Only services that stand so."),
    one::<Part>("name", "Only services whose name contains this."),
    one::<Limit<MOST>>("limit", "At most so many; all where none is given."),
    one::<ServiceName>("after", "Only services behind this name: the `next` of the page before."),
    one::<bool>("well", "`false` leaves out containers that are well or leave; counts stay."),
];

/// Of `GET drift`.
pub(super) const DRIFT: &[Parameter] = &[
    one::<AgentName>("agent", "Only of this agent."),
    one::<TaskName>("task", "Only of this task."),
    one::<ServiceName>("service", "Only of this service."),
    one::<Policy>("policy", "Only under this policy."),
    one::<Limit<MOST>>("limit", "At most so many; all where none is given."),
    one::<DriftMark>("after", "Only what comes behind this: the `next` of the page before."),
];

/// Of `GET events`.
pub(super) const EVENTS: &[Parameter] = &[
    one::<AgentName>("agent", "Only of this agent."),
    one::<TaskName>("task", "Only of this task."),
    one::<ServiceName>("service", "Only of this service."),
    one::<EventKind>("kind", "Only of this kind."),
    one::<Limit<MOST_EVENTS>>("limit", "At most so many; 100 where none is given."),
    one::<EventId>("before", "Only older ones than this: the `next` of the page before."),
];

/// Which services are wanted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceFilter {
    pub status: Option<Status>,
    pub name: Option<String>,
    pub limit: Option<usize>,
    pub after: Option<ServiceName>,
    /// Whether each comes with those of its containers that are well or leave.
    pub well: bool,
}

/// Which tasks are wanted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TaskFilter {
    pub status: Option<Status>,
    pub name: Option<String>,
    pub limit: Option<usize>,
    pub after: Option<TaskName>,
    /// Whether each comes with the list of its agents.
    pub agents: bool,
}

pub(super) fn agents(uri: &Uri) -> Result<AgentFilter, Problem> {
    let given = Given::read(uri, AGENTS)?;
    Ok(AgentFilter {
        status: given.one("status")?,
        labels: given.all("label")?,
        name: given.one("name")?.map(|Part(part)| part),
        limit: given.one("limit")?.map(|Limit::<MOST>(limit)| limit),
        after: given.one("after")?,
    })
}

pub(super) fn tasks(uri: &Uri) -> Result<TaskFilter, Problem> {
    let given = Given::read(uri, TASKS)?;
    Ok(TaskFilter {
        status: given.one("status")?,
        name: given.one("name")?.map(|Part(part)| part),
        limit: given.one("limit")?.map(|Limit::<MOST>(limit)| limit),
        after: given.one("after")?,
        agents: given.one("agents")?.unwrap_or(true),
    })
}

pub(super) fn services(uri: &Uri) -> Result<ServiceFilter, Problem> {
    let given = Given::read(uri, SERVICES)?;
    Ok(ServiceFilter {
        status: given.one("status")?,
        name: given.one("name")?.map(|Part(part)| part),
        limit: given.one("limit")?.map(|Limit::<MOST>(limit)| limit),
        after: given.one("after")?,
        well: given.one("well")?.unwrap_or(true),
    })
}

pub(super) fn drift(uri: &Uri) -> Result<DriftFilter, Problem> {
    let given = Given::read(uri, DRIFT)?;
    Ok(DriftFilter {
        agent: given.one("agent")?,
        task: given.one("task")?,
        service: given.one("service")?,
        policy: given.one("policy")?,
        limit: given.one("limit")?.map(|Limit::<MOST>(limit)| limit),
        after: given.one("after")?,
    })
}

pub(super) fn events(uri: &Uri) -> Result<EventQuery, Problem> {
    let given = Given::read(uri, EVENTS)?;
    let limit = given.one("limit")?.map(|Limit::<MOST_EVENTS>(limit)| limit);
    Ok(EventQuery {
        agent: given.one("agent")?,
        task: given.one("task")?,
        service: given.one("service")?,
        kind: given.one("kind")?,
        before: given.one("before")?,
        after: None,
        limit: limit.unwrap_or(USUAL_EVENTS),
    })
}

/// For calls that take no parameters: whoever gives one meant something else.
pub(super) fn nothing(uri: &Uri) -> Result<(), Problem> {
    Given::read(uri, &[]).map(drop)
}

/// The parameters of a request, known to be among those that the call takes.
struct Given(Vec<(String, String)>);

impl Given {
    fn read(uri: &Uri, known: &[Parameter]) -> Result<Self, Problem> {
        let Query(mut pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Problem::bad_request(format!("the query cannot be read: {error}")))?;
        for (at, (name, _)) in pairs.iter().enumerate() {
            let Some(parameter) = known.iter().find(|known| known.name == name) else {
                return Err(unknown(name, known));
            };
            if pairs[..at].iter().filter(|(earlier, _)| earlier == name).count() >= MOST_GIVEN {
                let detail = format!("`{name}` is given more than {MOST_GIVEN} times");
                return Err(Problem::bad_request(detail));
            }
            if !parameter.many && pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::bad_request(format!("`{name}` is given twice")));
            }
        }
        // A parameter without a value is not given.
        pairs.retain(|(_, value)| !value.is_empty());
        Ok(Self(pairs))
    }

    fn all<T: Value>(&self, name: &str) -> Result<Vec<T>, Problem> {
        let values = self.0.iter().filter(|(given, _)| given == name);
        let read = |text: &str| {
            T::read(text).map_err(|why| Problem::bad_request(format!("`{name}`: {why}")))
        };
        values.map(|(_, text)| read(text)).collect()
    }

    fn one<T: Value>(&self, name: &str) -> Result<Option<T>, Problem> {
        Ok(self.all(name)?.into_iter().next())
    }
}

fn unknown(name: &str, known: &[Parameter]) -> Problem {
    let names = || known.iter().map(|known| known.name);
    let near = nearest(name, names());
    let meant = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let there_are = match known {
        [] => "this call takes none".to_string(),
        _ => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    let name: String = name.chars().take(64).collect();
    Problem::bad_request(format!("there is no parameter `{name}`; {there_are}{meant}"))
        .suggesting(near)
}

/// How many.
struct Limit<const MOST: usize>(usize);

impl<const MOST: usize> Value for Limit<MOST> {
    fn read(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(limit) if (1..=MOST).contains(&limit) => Ok(Self(limit)),
            _ => Err(format!("give a number from 1 to {MOST}")),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": MOST })
    }
}

/// Part of a name.
struct Part(String);

impl Value for Part {
    fn read(text: &str) -> Result<Self, String> {
        fluke_model::id::check_name("a part of a name", text).map_err(|error| error.to_string())?;
        Ok(Self(text.to_string()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        // Its grammar is that of any name.
        generator.subschema_for::<LabelKey>()
    }
}

impl Value for LabelFilter {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: fluke_model::id::InvalidName| error.to_string())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let name = "[A-Za-z0-9._/-]{1,128}";
        json_schema!({ "type": "string", "pattern": format!("^{name}(={name})?$") })
    }
}

impl Value for bool {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "give `true` or `false`".to_string())
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

impl Value for EventId {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |_| "give the `next` of a page, or an event's `id`".to_string();
        text.parse().map(EventId).map_err(wrong)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

/// For types that read themselves.
macro_rules! reads_itself {
    ($($name:ty),*) => {$(
        impl Value for $name {
            fn read(text: &str) -> Result<Self, String> {
                <Self as FromStr>::from_str(text).map_err(|error| error.to_string())
            }

            fn schema(generator: &mut SchemaGenerator) -> Schema {
                generator.subschema_for::<Self>()
            }
        }
    )*};
}

reads_itself!(AgentName, ServiceName, TaskName, DriftMark);

/// For types with a few values, each of which has a name.
macro_rules! one_of {
    ($($name:ty: $what:literal),*) => {$(
        impl Value for $name {
            fn read(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|one| one.as_str() == text);
                found.copied().ok_or_else(|| none_of($what, text, Self::ALL.iter().map(|one| one.as_str())))
            }

            fn schema(generator: &mut SchemaGenerator) -> Schema {
                generator.subschema_for::<Self>()
            }
        }
    )*};
}

one_of!(Status: "status", Policy: "policy", EventKind: "kind");

fn none_of(what: &str, text: &str, names: impl Iterator<Item = &'static str> + Clone) -> String {
    let text: String = text.chars().take(64).collect();
    match nearest(&text, names.clone()).first() {
        Some(near) => format!("there is no {what} `{text}`; did you mean `{near}`?"),
        None => {
            let names: Vec<_> = names.collect();
            format!("there is no {what} `{text}`; there are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
