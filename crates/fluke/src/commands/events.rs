//! `fluke events`: what happened, and then what happens.
//!
//! The stream is opened before history is asked for, and every event has an id that grows: so
//! nothing falls between the two, and nothing is told twice, however often the stream breaks.

use fluke_model::event::{Event, EventId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Printing;
use super::get::{fetch_events, fetch_events_after};
use super::show::{self, warn};
use crate::cli::{EventsArgs, FollowArgs, Format, Get, Global};
use crate::client::Client;
use crate::client::error::ClientError;
use crate::client::feed::{Feed, Heard, Message};
use crate::failure::Failure;
use crate::screen;
use crate::view::event_line;
use crate::when;

/// Shows events, and follows them if asked to.
pub async fn run(args: FollowArgs, global: &Global) -> Result<(), Failure> {
    let client = super::client(global)?;
    match args.follow {
        false => show::show(&client, &Get::Events(args.filter), global).await,
        true => Follower::new(&client, args.filter, Printing::of(global)).follow().await,
    }
}

/// A page of events, each in the words of the server.
#[derive(Deserialize)]
struct Page {
    events: Vec<Box<RawValue>>,
}

/// The part of an event without which it cannot be told once.
#[derive(Deserialize)]
struct Numbered {
    id: EventId,
}

struct Follower<'a> {
    client: &'a Client,
    filter: EventsArgs,
    printing: Printing,
    /// The newest event that was told or passed over.
    told: EventId,
}

impl<'a> Follower<'a> {
    fn new(client: &'a Client, filter: EventsArgs, printing: Printing) -> Self {
        Self { client, filter, printing, told: EventId(0) }
    }

    async fn follow(mut self) -> Result<(), Failure> {
        let mut feed = Feed::follow(self.client.clone(), None);
        // What fails at first is no interruption: it would fail again.
        if let Heard::Lost(error) = feed.next().await {
            return Err(error.into());
        }
        let history = fetch_events(self.client, &self.filter).await?;
        self.tell_page(&history)?;
        let mut is_lost = false;
        loop {
            match feed.next().await {
                Heard::Message(message) => self.hear(&message).await?,
                Heard::Connected if std::mem::take(&mut is_lost) => {
                    warn(Some("connected again".into()), self.printing);
                }
                Heard::Connected => {}
                Heard::Lost(error) if !error.is_transient() => return Err(error.into()),
                Heard::Lost(error) => {
                    if !std::mem::replace(&mut is_lost, true) {
                        warn(Some(format!("{error}; trying again")), self.printing);
                    }
                }
            }
        }
    }

    async fn hear(&mut self, message: &Message) -> Result<(), Failure> {
        match message.kind.as_str() {
            "event" => self.tell(&message.data),
            // More was missed than the stream makes up for.
            "lagged" => match fetch_events_after(self.client, &self.filter, self.told).await {
                Ok(missed) => self.tell_page(&missed),
                Err(error) if error.is_transient() => {
                    warn(Some(format!("events were missed: {error}")), self.printing);
                    Ok(())
                }
                Err(error) => Err(error.into()),
            },
            _ => Ok(()),
        }
    }

    /// A page comes newest first.
    fn tell_page(&mut self, page: &str) -> Result<(), Failure> {
        let page: Page = self.client.value(page)?;
        page.events.iter().rev().try_for_each(|event| self.tell(event.get()))
    }

    fn tell(&mut self, json: &str) -> Result<(), Failure> {
        let Numbered { id } = self.client.value(json)?;
        if id <= self.told {
            return Ok(());
        }
        self.told = id;
        let event = self.client.value::<Event>(json);
        if event.as_ref().is_ok_and(|event| !self.filter.includes(event)) {
            return Ok(());
        }
        screen::print(&self.text(json, event)?)
    }

    fn text(&self, json: &str, event: Result<Event, ClientError>) -> Result<String, Failure> {
        match (self.printing.format, event) {
            (Format::Table, Ok(event)) => {
                Ok(event_line::line(&event, self.printing.style(), when::now()))
            }
            (Format::Table, Err(_)) => {
                Ok("… an event that this version of fluke cannot read; `-o json` shows it\n".into())
            }
            // As it came: without a line break in it.
            (Format::Json | Format::Yaml, _) if !json.contains('\n') => Ok(format!("{json}\n")),
            (Format::Json | Format::Yaml, _) => {
                Ok(format!("{}\n", self.client.value::<serde_json::Value>(json)?))
            }
        }
    }
}
