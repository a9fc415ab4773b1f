//! `fluke reconcile`: asks, follows, and tells how it ended.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use fluke_model::api::{ReconcileProgress, ReconcileRequest, ReconcileScope};
use fluke_model::id::AgentName;
use tokio::time::{Instant, timeout};

use super::Printing;
use super::describe::{missing_agent, missing_service, missing_task};
use crate::cli::{Format, Global, Reconcile, ReconcileArgs};
use crate::client::Client;
use crate::client::changes::Changes;
use crate::client::error::ClientError;
use crate::failure::Failure;
use crate::live::Live;
use crate::screen::{self, Style};
use crate::view::reconcile as view;
use crate::when;

/// How long to go without looking when nothing is heard.
const LOOK: Duration = Duration::from_secs(2);
/// How long a server may be away before following it is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks for a reconcile and, unless told otherwise, waits for its end.
pub async fn run(args: ReconcileArgs, global: &Global) -> Result<(), Failure> {
    let client = super::client(global)?;
    let printing = Printing::of(global);
    // Listening starts before asking, so that nothing is missed.
    let changes =
        (!args.no_wait).then(|| Changes::follow(client.clone(), |kind| kind == "reconcile"));
    let wish = wish(&args.what);
    let id = match client.reconcile(&wish).await {
        Ok(accepted) => accepted.id,
        Err(error) => return Err(explain(error, &client, &args.what).await),
    };
    match changes {
        None => print_id(&id, printing),
        Some(changes) => {
            let (json, progress) = Follower::new(&client, &id, printing).follow(changes).await?;
            conclude(&json, &progress, printing)
        }
    }
}

fn wish(what: &Reconcile) -> ReconcileRequest {
    let (scope, name) = match what {
        Reconcile::All => (ReconcileScope::All, None),
        Reconcile::Agent { name } => (ReconcileScope::Agent, Some(name.to_string())),
        Reconcile::Task { name, .. } => (ReconcileScope::Task, Some(name.to_string())),
        Reconcile::Service { name, .. } => (ReconcileScope::Service, Some(name.to_string())),
    };
    let agent = match what {
        Reconcile::Task { agent, .. } | Reconcile::Service { agent, .. } => {
            agent.as_ref().map(ToString::to_string)
        }
        Reconcile::All | Reconcile::Agent { .. } => None,
    };
    ReconcileRequest { scope, name, agent, seen: None, by: Some(who()) }
}

/// `user@host`, for the event.
pub fn who() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).ok().flatten();
    let user = user.map_or_else(|| nix::unistd::Uid::current().to_string(), |user| user.name);
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    format!("{user}@{}", host.unwrap_or_else(|_| "unknown".into()))
}

async fn explain(error: ClientError, client: &Client, what: &Reconcile) -> Failure {
    match what {
        Reconcile::All => error.into(),
        Reconcile::Agent { name } => missing_agent(error, client, name.as_str()).await,
        // Either of the two may be the one that is not known.
        Reconcile::Task { agent: Some(agent), .. }
        | Reconcile::Service { agent: Some(agent), .. }
            if is_unknown(client, agent).await =>
        {
            missing_agent(error, client, agent.as_str()).await
        }
        Reconcile::Task { name, .. } => missing_task(error, client, name.as_str()).await,
        Reconcile::Service { name, .. } => missing_service(error, client, name.as_str()).await,
    }
}

async fn is_unknown(client: &Client, agent: &AgentName) -> bool {
    let known = client.text(&["agents", agent.as_str()], &[]).await;
    known.is_err_and(|error| error.is_not_found())
}

fn print_id(id: &str, printing: Printing) -> Result<(), Failure> {
    let json = serde_json::json!({ "id": id }).to_string();
    match printing.document(&json) {
        Some(text) => screen::print(&text.unwrap_or(json)),
        None => screen::print(&format!("{}\n", crate::sanitise::line(id))),
    }
}

fn conclude(json: &str, progress: &ReconcileProgress, printing: Printing) -> Result<(), Failure> {
    match printing.document(json) {
        Some(text) => screen::print(&text.unwrap_or_else(|_| json.to_string()))?,
        None => screen::print(&view::outcome(progress, printing.style()))?,
    }
    if view::has_failed(progress) { Err(Failure::Shown) } else { Ok(()) }
}

/// Follows one reconcile to its end.
struct Follower<'a> {
    client: &'a Client,
    id: &'a str,
    printing: Printing,
    drawn: Live<io::Stderr>,
    /// Agents whose end has been printed.
    told: BTreeSet<String>,
}

impl<'a> Follower<'a> {
    fn new(client: &'a Client, id: &'a str, printing: Printing) -> Self {
        Self { client, id, printing, drawn: Live::new(io::stderr()), told: BTreeSet::new() }
    }

    async fn follow(
        mut self,
        mut changes: Changes,
    ) -> Result<(String, ReconcileProgress), Failure> {
        let mut heard = Instant::now();
        loop {
            match self.look().await {
                Ok((json, progress)) => {
                    heard = Instant::now();
                    self.show(&progress)?;
                    if progress.done {
                        let _ = self.drawn.erase(Style::of_stderr(self.printing.colour));
                        return Ok((json, progress));
                    }
                }
                Err(error) if error.is_transient() && heard.elapsed() < PATIENCE => {}
                Err(error) => return Err(self.lost(error)),
            }
            let _ = timeout(LOOK, changes.next()).await;
        }
    }

    async fn look(&self) -> Result<(String, ReconcileProgress), ClientError> {
        let json = self.client.text(&["reconcile", self.id], &[]).await?;
        let progress = self.client.value(&json)?;
        Ok((json, progress))
    }

    /// A moving picture for a person; for a log, a line for each agent that is done.
    fn show(&mut self, progress: &ReconcileProgress) -> Result<(), Failure> {
        let style = Style::of_stderr(self.printing.colour);
        if style.can_move() {
            // Losing the picture is no reason to lose the result.
            let _ = self.drawn.draw(&view::progress(progress, style, when::now()), style);
            return Ok(());
        }
        if self.printing.format != Format::Table {
            return Ok(());
        }
        for agent in &progress.agents {
            if let Some(line) = view::finished_line(agent)
                && self.told.insert(agent.name.to_string())
            {
                screen::print(&line)?;
            }
        }
        Ok(())
    }

    fn lost(&mut self, error: ClientError) -> Failure {
        let _ = self.drawn.erase(Style::of_stderr(self.printing.colour));
        if error.is_not_found() {
            let what = format!(
                "the server does not know reconcile {} any more: was it restarted?",
                self.id
            );
            return Failure::new(what)
                .help("the agents go on with what they were told; see `fluke get drift` and `fluke get events`");
        }
        error.into()
    }
}
