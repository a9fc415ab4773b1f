//! `fluke describe`: everything about one agent, task or service.

use fluke_model::api::{Agents, DriftList, Services, Tasks};
use fluke_model::time::Timestamp;

use super::show::{self, Page};
use crate::cli::{Describe, Global};
use crate::client::Client;
use crate::client::error::ClientError;
use crate::failure::Failure;
use crate::screen::Style;
use crate::suggest;
use crate::view::{agent, service, source, task};

/// Tells everything, once or for as long as it is watched.
pub async fn run(what: Describe, global: &Global) -> Result<(), Failure> {
    let client = super::client(global)?;
    show::show(&client, &what, global).await
}

/// What was fetched for one thing.
pub struct Fetched {
    json: String,
    /// Why a task is drifted, and where.
    drift: Option<DriftList>,
}

impl Page for Describe {
    type Fetched = Fetched;

    async fn fetch(&self, client: &Client) -> Result<Fetched, ClientError> {
        match self {
            Describe::Agent { name } => {
                let json = client.text(&["agents", name.as_str()], &[]).await?;
                Ok(Fetched { json, drift: None })
            }
            Describe::Task { name } => {
                let path = ["tasks", name.as_str()];
                let (json, drift) = tokio::join!(client.text(&path, &[]), client.get(&["drift"]));
                Ok(Fetched { json: json?, drift: Some(drift?) })
            }
            Describe::Service { name } => {
                let json = client.text(&["services", name.as_str()], &[]).await?;
                Ok(Fetched { json, drift: None })
            }
            Describe::Source => {
                Ok(Fetched { json: client.text(&["source"], &[]).await?, drift: None })
            }
        }
    }

    fn json<'a>(&self, fetched: &'a Fetched) -> &'a str {
        &fetched.json
    }

    fn concerns(&self) -> fn(&str) -> bool {
        match self {
            Describe::Agent { .. } => |kind| matches!(kind, "agent" | "event" | "source"),
            Describe::Task { .. } => |kind| matches!(kind, "agent" | "source"),
            Describe::Service { .. } => |kind| matches!(kind, "service" | "source"),
            Describe::Source => |kind| kind == "source",
        }
    }

    fn table(
        &self,
        fetched: &Fetched,
        client: &Client,
        style: Style,
        now: Timestamp,
    ) -> Result<String, ClientError> {
        let drift = fetched.drift.as_ref().map_or(&[][..], |list| &list.drift);
        Ok(match self {
            Describe::Agent { .. } => agent::describe(&client.value(&fetched.json)?, style, now),
            Describe::Task { .. } => {
                task::describe(&client.value(&fetched.json)?, drift, style, now)
            }
            Describe::Service { .. } => service::describe(&client.value(&fetched.json)?, style),
            Describe::Source => source::describe(&client.value(&fetched.json)?, style, now),
        })
    }

    async fn explain(&self, error: ClientError, client: &Client) -> Failure {
        match self {
            Describe::Agent { name } => missing_agent(error, client, name.as_str()).await,
            Describe::Task { name } => missing_task(error, client, name.as_str()).await,
            Describe::Service { name } => missing_service(error, client, name.as_str()).await,
            Describe::Source => error.into(),
        }
    }
}

/// For an agent that is not known: which one may have been meant.
pub async fn missing_agent(error: ClientError, client: &Client, name: &str) -> Failure {
    if !error.is_not_found() {
        return error.into();
    }
    let known = client.get::<Agents>(&["agents"]).await.ok();
    let names =
        known.map(|list| list.agents.into_iter().map(|agent| agent.name.to_string()).collect());
    missing("agent", name, names, "fluke get agents")
}

/// For a task that is not known: which one may have been meant.
pub async fn missing_task(error: ClientError, client: &Client, name: &str) -> Failure {
    if !error.is_not_found() {
        return error.into();
    }
    let known = client.get::<Tasks>(&["tasks"]).await.ok();
    let names =
        known.map(|list| list.tasks.into_iter().map(|task| task.name.to_string()).collect());
    missing("task", name, names, "fluke get tasks")
}

/// For a service that is not known: which one may have been meant.
pub async fn missing_service(error: ClientError, client: &Client, name: &str) -> Failure {
    if !error.is_not_found() {
        return error.into();
    }
    let known = client.get::<Services>(&["services"]).await.ok();
    let names = known
        .map(|list| list.services.into_iter().map(|service| service.name.to_string()).collect());
    missing("service", name, names, "fluke get services")
}

fn missing(what: &str, name: &str, known: Option<Vec<String>>, list: &str) -> Failure {
    let names = known.unwrap_or_default();
    let help = match suggest::nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => format!("no {what} is known at all yet; `{list}` lists them"),
        None if names.len() == 1 => format!("the only {what} that is known is `{}`", names[0]),
        None => format!("`{list}` lists all {} that are known", names.len()),
    };
    Failure::new(format!("there is no {what} `{name}`")).help(help)
}
