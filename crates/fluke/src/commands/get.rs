//! `fluke get`: the lists.

use fluke_model::api::{Agents, DriftList, Events, Source, Tasks};
use fluke_model::time::Timestamp;

use super::show::{self, Page};
use crate::cli::{EventsArgs, Get, Global};
use crate::client::Client;
use crate::client::error::ClientError;
use crate::colour::Paint;
use crate::failure::Failure;
use crate::screen::Style;
use crate::view::{fleet, source};

/// Shows a list, once or for as long as it is watched.
pub async fn run(what: Get, global: &Global) -> Result<(), Failure> {
    let client = super::client(global)?;
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
        let (path, query) = self.address();
        let path = [path];
        let (json, source) = tokio::join!(client.text(&path, &query), self.fetch_source(client));
        let json = json?;
        let agents = match self {
            Get::Drift => Some(client.get(&["agents"]).await?),
            _ => None,
        };
        Ok(Fetched { json, agents, source })
    }

    fn json<'a>(&self, fetched: &'a Fetched) -> &'a str {
        &fetched.json
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
            Get::Agents => fleet::agents(&client.value::<Agents>(json)?, now),
            Get::Tasks => fleet::tasks(&client.value::<Tasks>(json)?),
            Get::Events(_) => {
                let events = client.value::<Events>(json)?;
                if let Some(note) = fleet::unreadable(&events) {
                    let table = fleet::events(&events.events, now).render(style, 0);
                    return Ok(table + &Paint::Yellow.on(&note, style.colours) + "\n");
                }
                fleet::events(&events.events, now)
            }
            Get::Drift => fleet::drift(&client.value::<DriftList>(json)?, now),
            Get::Source => return Ok(source::describe(&client.value(json)?, style, now)),
        };
        Ok(match (table.is_empty(), &fetched.agents) {
            (false, _) => table.render(style, 0),
            (true, Some(agents)) => {
                Paint::Green.on(fleet::no_drift(agents).trim_end(), style.colours) + "\n"
            }
            (true, None) => self.nothing().to_string(),
        })
    }
}

impl Get {
    fn address(&self) -> (&'static str, Vec<(&'static str, String)>) {
        match self {
            Get::Agents => ("agents", Vec::new()),
            Get::Drift => ("drift", Vec::new()),
            Get::Tasks => ("tasks", Vec::new()),
            Get::Source => ("source", Vec::new()),
            Get::Events(args) => ("events", filters(args)),
        }
    }

    /// That it cannot be had is no reason to show nothing.
    async fn fetch_source(&self, client: &Client) -> Option<Source> {
        match self {
            Get::Source => None,
            _ => client.get(&["source"]).await.ok(),
        }
    }

    fn nothing(&self) -> &'static str {
        match self {
            Get::Agents => {
                "no agent has connected yet; `fluke agent --help` tells how to start one\n"
            }
            Get::Tasks => "there is no task in the commit in force\n",
            Get::Events(_) => "no such event\n",
            Get::Drift | Get::Source => "",
        }
    }
}

fn filters(args: &EventsArgs) -> Vec<(&'static str, String)> {
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend(args.agent.as_ref().map(|agent| ("agent", agent.to_string())));
    query.extend(args.task.as_ref().map(|task| ("task", task.to_string())));
    query.extend(args.kind.map(|kind| ("kind", kind.as_str().to_string())));
    query
}
