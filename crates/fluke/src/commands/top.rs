//! `fluke top`: listens to the server and to the keys, and has the dashboard drawn.
//!
//! Nothing is polled, and nothing is drawn that is drawn already: while nothing changes, only the
//! ages on the screen are brought up to date, now and then.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::api::{
    Agent, Agents, DriftList, Events, ReconcileRequest, ReconcileScope, Source,
};
use fluke_model::id::AgentName;
use serde::Deserialize;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::reconcile::who;
use crate::cli::Global;
use crate::client::Client;
use crate::client::error::ClientError;
use crate::client::feed::{Feed, Heard, Message};
use crate::failure::{Failure, writing};
use crate::screen::Style;
use crate::terminal::Terminal;
use crate::terminal::inputs::{Input, Inputs};
use crate::top::{Connection, EVENTS, Effect, Top, Update};
use crate::when;

/// How often ages are told anew while nothing changes.
const TICK: Duration = Duration::from_secs(10);
/// The shortest time between two pictures of changes; keys do not wait.
const FRAME: Duration = Duration::from_millis(100);
/// The shortest time between two fetches of the same thing.
const PAUSE: Duration = Duration::from_millis(250);
/// Fetching takes at most one part in so many of the time.
const SHARE: u32 = 4;
/// How many updates wait to be taken in.
const WAITING: usize = 1024;

/// Shows the dashboard until somebody ends it.
pub async fn run(global: &Global) -> Result<(), Failure> {
    let style = Style::of_stdout(global.colour);
    let client = super::client(global)?;
    if !style.can_move() {
        return Err(Failure::new(
            "`fluke top` draws on a terminal, and this is none (or a dumb one)",
        )
        .help("in a pipe, use `fluke get agents -w` or `fluke events -f`")
        .usage(true));
    }
    // What is wrong from the start is better told on a terminal that is not taken.
    let source: Source = client.get(&["source"]).await?;
    let mut top = Top::new(client.server().to_string());
    top.take(Update::Source(Box::new(source)));
    Driver::new(client, top, global).run().await
}

struct Driver<'a> {
    client: Client,
    top: Top,
    global: &'a Global,
    feed: Feed,
    tell: mpsc::Sender<Update>,
    told: mpsc::Receiver<Update>,
    agents: Arc<Notify>,
    drift: Arc<Notify>,
}

impl<'a> Driver<'a> {
    fn new(client: Client, top: Top, global: &'a Global) -> Self {
        let (tell, told) = mpsc::channel(WAITING);
        let feed = Feed::follow(client.clone(), None);
        let agents = refreshed(client.clone(), tell.clone(), fetch_agents);
        let drift = refreshed(client.clone(), tell.clone(), fetch_drift);
        Self { client, top, global, feed, tell, told, agents, drift }
    }

    async fn run(mut self) -> Result<(), Failure> {
        let (stdout, stdin) = (io::stdout(), io::stdin());
        let mut terminal = Terminal::take(stdout.as_fd(), stdin.as_fd()).map_err(writing)?;
        let mut inputs = Inputs::listen(&terminal).map_err(writing)?;
        self.spawn(fetch_rights);
        let mut due = Instant::now();
        loop {
            // All are safe to cancel.
            tokio::select! {
                biased;
                input = inputs.next() => {
                    match input {
                        Input::Stop => return Ok(()),
                        Input::Suspend => terminal.suspend().map_err(writing)?,
                        Input::Resized => {}
                        Input::Key(key) => match self.top.press(key) {
                            Some(Effect::Quit) => return Ok(()),
                            Some(effect) => self.perform(effect),
                            None => {}
                        },
                    }
                    due = Instant::now();
                }
                () = sleep_until(due) => {
                    self.draw(&mut terminal).map_err(writing)?;
                    due = Instant::now() + TICK;
                }
                Some(update) = self.told.recv() => {
                    self.top.take(update);
                    due = due.min(Instant::now() + FRAME);
                }
                heard = self.feed.next() => {
                    self.hear(heard)?;
                    due = due.min(Instant::now() + FRAME);
                }
            }
        }
    }

    fn draw(&mut self, terminal: &mut Terminal) -> io::Result<()> {
        let style = Style::of_stdout(self.global.colour);
        let lines = self.top.draw(style.size(), style.colours, when::now());
        terminal.draw(&lines, style.size())
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Failure> {
        match heard {
            Heard::Connected => {
                self.top.take(Update::Connection(Connection::Live));
                // What happened before the stream was open is told by nobody else.
                self.refresh_all();
            }
            Heard::Lost(error) if !error.is_transient() => return Err(error.into()),
            Heard::Lost(error) => {
                let (since, why) = (when::now(), error.to_string());
                self.top.take(Update::Connection(Connection::Lost { since, why }));
            }
            Heard::Message(message) => self.take(&message),
        }
        Ok(())
    }

    fn refresh_all(&self) {
        self.agents.notify_one();
        self.drift.notify_one();
        self.spawn(fetch_events);
        self.spawn(fetch_source);
        self.look_again(None);
    }

    fn take(&mut self, message: &Message) {
        let data = &message.data;
        // What cannot be read is of a newer server, and no reason to stop.
        let update = match message.kind.as_str() {
            "agent" => agent(data),
            "event" => serde_json::from_str(data).ok().map(|event| Update::Event(Box::new(event))),
            "source" => {
                serde_json::from_str(data).ok().map(|source| Update::Source(Box::new(source)))
            }
            "reconcile" => {
                serde_json::from_str(data).ok().map(|progress| Update::Progress(Box::new(progress)))
            }
            "lagged" => {
                self.refresh_all();
                None
            }
            _ => None,
        };
        match &update {
            Some(Update::Agent(agent)) => {
                self.drift.notify_one();
                self.look_again(Some(&agent.name));
            }
            Some(Update::Gone(_)) => self.drift.notify_one(),
            // It may say nothing new of the agent, which is told by nobody then.
            Some(Update::Source(_)) => self.look_again(None),
            _ => {}
        }
        if let Some(update) = update {
            self.top.take(update);
        }
    }

    /// Fetches the agent that is looked at again, if it is this one.
    fn look_again(&self, changed: Option<&AgentName>) {
        if let Some(name) =
            self.top.looked_at().filter(|name| changed.is_none_or(|changed| changed == *name))
        {
            self.perform(Effect::Look(name.clone()));
        }
    }

    fn perform(&self, effect: Effect) {
        match effect {
            Effect::Quit => {}
            Effect::Look(name) => {
                self.spawn(async move |client| {
                    let detail = client.get(&["agents", name.as_str()]).await?;
                    Ok(Update::Detail(Box::new(detail)))
                });
            }
            Effect::Reconcile(name) => {
                let (client, tell) = (self.client.clone(), self.tell.clone());
                tokio::spawn(reconcile(client, name, tell));
            }
        }
    }

    /// Fetches something beside everything else; what does not work is said.
    fn spawn<F>(&self, fetch: impl FnOnce(Client) -> F)
    where
        F: Future<Output = Result<Update, ClientError>> + Send + 'static,
    {
        let (fetched, tell) = (fetch(self.client.clone()), self.tell.clone());
        tokio::spawn(async move {
            let update = fetched.await.unwrap_or_else(|error| Update::Notice(error.to_string()));
            // Nobody listens while the program ends.
            let _ = tell.send(update).await;
        });
    }
}

/// Fetches the same thing whenever it is notified, however often, but never hurries.
fn refreshed<F>(
    client: Client,
    tell: mpsc::Sender<Update>,
    fetch: impl Fn(Client) -> F + Send + 'static,
) -> Arc<Notify>
where
    F: Future<Output = Result<Update, ClientError>> + Send + 'static,
{
    let wanted = Arc::new(Notify::new());
    let notified = wanted.clone();
    tokio::spawn(async move {
        loop {
            notified.notified().await;
            let began = Instant::now();
            match fetch(client.clone()).await {
                Ok(update) => {
                    if tell.send(update).await.is_err() {
                        return;
                    }
                }
                // The connection is told of elsewhere; once it is back this is asked for again.
                Err(error) => drop(tell.send(Update::Notice(error.to_string())).await),
            }
            sleep((began.elapsed() * SHARE).max(PAUSE)).await;
        }
    });
    wanted
}

async fn fetch_agents(client: Client) -> Result<Update, ClientError> {
    Ok(Update::Agents(client.get::<Agents>(&["agents"]).await?.agents))
}

async fn fetch_drift(client: Client) -> Result<Update, ClientError> {
    Ok(Update::Drift(client.get::<DriftList>(&["drift"]).await?.drift))
}

async fn fetch_source(client: Client) -> Result<Update, ClientError> {
    Ok(Update::Source(Box::new(client.get(&["source"]).await?)))
}

async fn fetch_events(client: Client) -> Result<Update, ClientError> {
    let text = client.text(&["events"], &[("limit", EVENTS.to_string())]).await?;
    Ok(Update::Events(client.value::<Events>(&text)?.events))
}

/// What a session of the API may do.
#[derive(Deserialize)]
struct Rights {
    may_change: bool,
}

/// A server that cannot say will say no when it is asked for something.
async fn fetch_rights(client: Client) -> Result<Update, ClientError> {
    let rights = client.get::<Rights>(&["session"]).await;
    Ok(Update::MayChange(rights.map_or(true, |rights| rights.may_change)))
}

fn agent(data: &str) -> Option<Update> {
    #[derive(Deserialize)]
    struct Gone {
        name: AgentName,
    }
    match serde_json::from_str::<Agent>(data) {
        Ok(agent) => Some(Update::Agent(Box::new(agent))),
        Err(_) => serde_json::from_str(data).ok().map(|Gone { name }| Update::Gone(name)),
    }
}

/// Asks for a reconcile; how far it has come is told by the stream, but for what it said before.
async fn reconcile(client: Client, name: AgentName, tell: mpsc::Sender<Update>) {
    let (scope, by) = (ReconcileScope::Agent, Some(who()));
    let name = Some(name.to_string());
    let request = ReconcileRequest { scope, name, agent: None, seen: None, by };
    let id = match client.reconcile(&request).await {
        Ok(accepted) => accepted.id,
        Err(error) => {
            let _ = tell.send(Update::Refused(error.to_string())).await;
            return;
        }
    };
    let _ = tell.send(Update::Accepted(id.clone())).await;
    if let Ok(progress) = client.get(&["reconcile", &id]).await {
        let _ = tell.send(Update::Progress(Box::new(progress))).await;
    }
}
