//! `fluke get`: the lists.

use fluke_model::api::{Agents, DriftList, Events, Services, Source, Tasks};
use fluke_model::event::EventId;
use fluke_model::time::Timestamp;

use super::show::{self, Page};
use crate::cli::{AgentsArgs, DriftArgs, EventsArgs, Get, Global, TasksArgs};
use crate::client::Client;
use crate::client::error::ClientError;
use crate::client::listing::Listing;
use crate::colour::Paint;
use crate::failure::Failure;
use crate::screen::{self, Style};
use crate::view::{fleet, service, source};
use crate::when;

/// How many events are shown where nobody says.
const USUAL_EVENTS: u32 = 20;
/// More than anybody reads, and less than any machine's memory.
const MOST_EVENTS: u32 = 100_000;

/// Shows a list, once or for as long as it is watched.
pub async fn run(what: Get, global: &Global) -> Result<(), Failure> {
    let client = super::client(global)?;
    if what.names_only() {
        let fetched = what.fetch(&client).await?;
        return screen::print(&what.names(&fetched, &client)?);
    }
    show::show(&client, &what, global).await
}

/// What was fetched for a list.
pub struct Fetched {
    json: String,
    /// How many agents there are, for an empty list of drift.
    agents: Option<Agents>,
    /// Whether the source needs a look, for everything but the source itself.
    source: Option<Source>,
}

impl Page for Get {
    type Fetched = Fetched;

    async fn fetch(&self, client: &Client) -> Result<Fetched, ClientError> {
        let (json, source) = tokio::join!(self.fetch_list(client), self.fetch_source(client));
        let json = json?;
        let agents = match self {
            Get::Drift(_) => Some(client.get(&["agents"]).await?),
            _ => None,
        };
        Ok(Fetched { json, agents, source })
    }

    fn json<'a>(&self, fetched: &'a Fetched) -> &'a str {
        &fetched.json
    }

    fn concerns(&self) -> fn(&str) -> bool {
        match self {
            Get::Agents(_) | Get::Drift(_) | Get::Tasks(_) => {
                |kind| matches!(kind, "agent" | "source")
            }
            Get::Services(_) => |kind| matches!(kind, "service" | "source"),
            Get::Events(_) => |kind| matches!(kind, "event" | "source"),
            Get::Source => |kind| kind == "source",
        }
    }

    fn warning(&self, fetched: &Fetched) -> Option<String> {
        fetched.source.as_ref().and_then(source::warning)
    }

    fn table(
        &self,
        fetched: &Fetched,
        client: &Client,
        style: Style,
        now: Timestamp,
    ) -> Result<String, ClientError> {
        let json = &fetched.json;
        let table = match self {
            Get::Agents(_) => fleet::agents(&client.value::<Agents>(json)?.agents, now),
            Get::Tasks(_) => fleet::tasks(&client.value::<Tasks>(json)?.tasks),
            Get::Services(_) => service::list(&client.value::<Services>(json)?.services),
            Get::Events(_) => {
                let events = client.value::<Events>(json)?;
                let table = fleet::events(&events.events, now);
                if let Some(note) = fleet::unreadable(&events) {
                    return Ok(table.render(style, 0)
                        + &Paint::Yellow.on(&note, style.colours)
                        + "\n");
                }
                table
            }
            Get::Drift(_) => fleet::drift(&client.value::<DriftList>(json)?.drift, now),
            Get::Source => return Ok(source::describe(&client.value(json)?, style, now)),
        };
        Ok(match (table.is_empty(), &fetched.agents) {
            (false, _) => table.render(style, 0),
            (true, Some(agents)) if !self.is_filtered() => {
                Paint::Green.on(fleet::no_drift(agents).trim_end(), style.colours) + "\n"
            }
            (true, _) => self.nothing().to_string(),
        })
    }

    fn news(
        &self,
        before: &Fetched,
        fetched: &Fetched,
        client: &Client,
        now: Timestamp,
    ) -> Result<Option<String>, ClientError> {
        let (old, new) = (&before.json, &fetched.json);
        let table = match self {
            Get::Agents(_) => {
                let (old, new): (Agents, Agents) = (client.value(old)?, client.value(new)?);
                fleet::changed_agents(&old.agents, &new.agents, now)
            }
            Get::Tasks(_) => {
                let (old, new): (Tasks, Tasks) = (client.value(old)?, client.value(new)?);
                fleet::changed_tasks(&old.tasks, &new.tasks)
            }
            Get::Services(_) => {
                let (old, new): (Services, Services) = (client.value(old)?, client.value(new)?);
                service::changed(&old.services, &new.services)
            }
            Get::Drift(_) => {
                let (old, new): (DriftList, DriftList) = (client.value(old)?, client.value(new)?);
                fleet::changed_drift(&old.drift, &new.drift, now)
            }
            Get::Events(_) => {
                let (old, new): (Events, Events) = (client.value(old)?, client.value(new)?);
                fleet::new_events(&old.events, &new.events, now)
            }
            Get::Source => return Ok(None),
        };
        let news = match table.is_empty() {
            true => String::new(),
            false => table.render(Style::default(), 0),
        };
        Ok(Some(match self.is_empty(new, client)? {
            true => news + &self.table(fetched, client, Style::default(), now)?,
            false => news,
        }))
    }
}

impl Get {
    /// Whether nothing is left of the list.
    fn is_empty(&self, json: &str, client: &Client) -> Result<bool, ClientError> {
        Ok(match self {
            Get::Agents(_) => client.value::<Agents>(json)?.agents.is_empty(),
            Get::Drift(_) => client.value::<DriftList>(json)?.drift.is_empty(),
            Get::Tasks(_) => client.value::<Tasks>(json)?.tasks.is_empty(),
            Get::Services(_) => client.value::<Services>(json)?.services.is_empty(),
            Get::Events(_) | Get::Source => false,
        })
    }

    async fn fetch_list(&self, client: &Client) -> Result<String, ClientError> {
        match self {
            Get::Agents(args) => client.list(&agents(args), |_| true).await,
            Get::Drift(args) => client.list(&drift(args), |_| true).await,
            Get::Tasks(args) => client.list(&tasks("tasks", args), |_| true).await,
            Get::Services(args) => client.list(&tasks("services", args), |_| true).await,
            Get::Source => client.text(&["source"], &[]).await,
            Get::Events(args) => fetch_events(client, args).await,
        }
    }

    /// That it cannot be had is no reason to show nothing.
    async fn fetch_source(&self, client: &Client) -> Option<Source> {
        match self {
            Get::Source => None,
            _ => client.get(&["source"]).await.ok(),
        }
    }

    fn names(&self, fetched: &Fetched, client: &Client) -> Result<String, ClientError> {
        let names: Vec<String> = match self {
            Get::Agents(_) => {
                let mut list = client.value::<Agents>(&fetched.json)?.agents;
                fleet::worst_agents_first(&mut list);
                list.iter().map(|agent| agent.name.to_string()).collect()
            }
            Get::Tasks(_) => {
                let mut list = client.value::<Tasks>(&fetched.json)?.tasks;
                fleet::worst_tasks_first(&mut list);
                list.iter().map(|task| task.name.to_string()).collect()
            }
            Get::Services(_) => {
                let mut list = client.value::<Services>(&fetched.json)?.services;
                service::worst_first(&mut list);
                list.iter().map(|service| service.name.to_string()).collect()
            }
            Get::Drift(_) | Get::Events(_) | Get::Source => Vec::new(),
        };
        Ok(names.iter().map(|name| format!("{name}\n")).collect())
    }

    fn is_filtered(&self) -> bool {
        match self {
            Get::Agents(args) => !agents(args).filters.is_empty(),
            Get::Drift(args) => !drift(args).filters.is_empty(),
            Get::Tasks(args) => !tasks("tasks", args).filters.is_empty(),
            Get::Services(args) => !tasks("services", args).filters.is_empty(),
            Get::Events(args) => args.since.is_some() || !events(args).filters.is_empty(),
            Get::Source => false,
        }
    }

    fn nothing(&self) -> &'static str {
        match (self, self.is_filtered()) {
            (Get::Agents(_), true) => "no known agent is like that; `fluke get agents` lists all\n",
            (Get::Agents(_), false) => {
                "no agent has connected yet; `fluke join-line` on the server's host prints the line \
                 that starts one\n"
            }
            (Get::Tasks(_), true) => "no task is like that; `fluke get tasks` lists all\n",
            (Get::Tasks(_), false) => {
                "there is no task in the commit in force; `fluke get source` says which that is\n"
            }
            (Get::Services(_), true) => "no service is like that; `fluke get services` lists all\n",
            (Get::Services(_), false) => {
                "there is no service in the commit in force; `fluke get source` says which that is\n"
            }
            (Get::Events(_), true) => {
                "nothing like that has happened; `fluke get events` lists all\n"
            }
            (Get::Events(_), false) => "nothing has happened yet\n",
            (Get::Drift(_), _) => "nothing of that is drifted; `fluke get drift` lists all\n",
            (Get::Source, _) => "",
        }
    }
}

fn agents(args: &AgentsArgs) -> Listing {
    let mut filters = Vec::new();
    filters.extend(args.status.map(|status| ("status", status.as_str().to_string())));
    filters.extend(args.labels.iter().map(|label| ("label", label.clone())));
    filters.extend(args.name.clone().map(|name| ("name", name)));
    Listing { name: "agents", mark: "after", filters, limit: args.limit.limit }
}

fn drift(args: &DriftArgs) -> Listing {
    let mut filters = Vec::new();
    filters.extend(args.agent.as_ref().map(|agent| ("agent", agent.to_string())));
    filters.extend(args.task.as_ref().map(|task| ("task", task.to_string())));
    filters.extend(args.service.as_ref().map(|service| ("service", service.to_string())));
    filters.extend(args.policy.map(|policy| ("policy", policy.as_str().to_string())));
    Listing { name: "drift", mark: "after", filters, limit: args.limit.limit }
}

fn tasks(name: &'static str, args: &TasksArgs) -> Listing {
    let mut filters = Vec::new();
    filters.extend(args.status.map(|status| ("status", status.as_str().to_string())));
    filters.extend(args.name.clone().map(|name| ("name", name)));
    Listing { name, mark: "after", filters, limit: args.limit.limit }
}

fn events(args: &EventsArgs) -> Listing {
    let mut filters = Vec::new();
    filters.extend(args.agent.as_ref().map(|agent| ("agent", agent.to_string())));
    filters.extend(args.task.as_ref().map(|task| ("task", task.to_string())));
    filters.extend(args.service.as_ref().map(|service| ("service", service.to_string())));
    filters.extend(args.kind.map(|kind| ("kind", kind.as_str().to_string())));
    let usual = if args.since.is_some() { MOST_EVENTS } else { USUAL_EVENTS };
    Listing { name: "events", mark: "before", filters, limit: Some(args.limit.unwrap_or(usual)) }
}

/// Pages of events, back to where they are too old.
pub async fn fetch_events(client: &Client, args: &EventsArgs) -> Result<String, ClientError> {
    let oldest = args.since.map(|since| when::before(when::now(), since));
    // One that cannot be read is shown, or complained about, later.
    let is_recent = |event: &str| {
        let time = serde_json::from_str::<Dated>(event).map(|event| event.time).ok();
        time.is_none_or(|time| oldest.is_none_or(|oldest| time >= oldest))
    };
    client.list(&events(args), is_recent).await
}

/// Pages of events, back to the one that is known.
pub async fn fetch_events_after(
    client: &Client,
    args: &EventsArgs,
    known: EventId,
) -> Result<String, ClientError> {
    let is_new =
        |event: &str| serde_json::from_str::<Dated>(event).is_ok_and(|event| event.id > known);
    client.list(&Listing { limit: Some(MOST_EVENTS), ..events(args) }, is_new).await
}

#[derive(serde::Deserialize)]
struct Dated {
    id: EventId,
    time: Timestamp,
}
