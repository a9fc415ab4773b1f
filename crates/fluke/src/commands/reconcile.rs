//! `fluke reconcile`: asks, follows, and tells how it ended.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use fluke_model::api::{
    ReconcileProgress, ReconcileRequest, ReconcileScope, ServiceView, Services,
};
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
use crate::view::service::HOSTS;
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
        Some(mut changes) => {
            let follower = Follower::new(&client, &id, printing);
            let (json, progress) = follower.follow(&mut changes).await?;
            let waiting =
                patiently(&mut changes, async || waiting(&client, &args.what).await).await;
            // Not to know what else is missing is no reason to lose what came of it.
            let shown = waiting.as_deref().unwrap_or_default();
            let concluded = conclude(&json, &progress, shown, printing);
            waiting.map_err(|error| unseen(&error)).and(concluded)
        }
    }
}

/// Asks until there is an answer, while the server is only away.
async fn patiently<T>(
    changes: &mut Changes,
    ask: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let since = Instant::now();
    loop {
        match ask().await {
            Err(error) if error.is_transient() && since.elapsed() < PATIENCE => {}
            answer => return answer,
        }
        let _ = timeout(LOOK, changes.next()).await;
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

/// What services wait for where no agent is asked for it, and so none tells.
async fn waiting(client: &Client, what: &Reconcile) -> Result<Vec<String>, ClientError> {
    let waiting = match what {
        Reconcile::All => client.get(&["services"]).await.map(all_waiting),
        Reconcile::Service { name, agent: None } => {
            client.get(&["services", name.as_str()]).await.map(|it: ServiceView| it.waiting)
        }
        Reconcile::Service { .. } | Reconcile::Agent { .. } | Reconcile::Task { .. } => {
            Ok(Vec::new())
        }
    };
    match waiting {
        // It was taken out of Git meanwhile.
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        waiting => waiting,
    }
}

/// With the name of each service, since there may be several.
fn all_waiting(all: Services) -> Vec<String> {
    let named = |ServiceView { name, waiting, .. }: ServiceView| {
        waiting.into_iter().map(move |why| format!("{name}: {why}"))
    };
    all.services.into_iter().flat_map(named).collect()
}

fn unseen(error: &ClientError) -> Failure {
    let what = "could not see whether replicas wait for a host that is not there";
    Failure::new(what).because(error).help("`fluke get services` shows it")
}

fn conclude(
    json: &str,
    progress: &ReconcileProgress,
    waiting: &[String],
    printing: Printing,
) -> Result<(), Failure> {
    let document = printing.document(json);
    match &document {
        Some(text) => screen::print(text.as_deref().unwrap_or(json))?,
        None => screen::print(&view::outcome(progress, waiting, printing.style()))?,
    }
    match view::has_failed(progress, waiting) {
        // The document is of those who were asked.
        true if document.is_some() && !waiting.is_empty() => {
            Err(Failure::new(waiting.join("; ")).help(HOSTS))
        }
        true => Err(Failure::Shown),
        false => Ok(()),
    }
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
        changes: &mut Changes,
    ) -> Result<(String, ReconcileProgress), Failure> {
        loop {
            let seen = patiently(changes, async || self.look().await).await;
            let (json, progress) = seen.map_err(|error| self.lost(error))?;
            self.show(&progress)?;
            if progress.done {
                let _ = self.drawn.erase(Style::of_stderr(self.printing.colour));
                return Ok((json, progress));
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
