//! `fluke install`, `fluke uninstall`: server and agent as services of this host.
//!
//! Looks around, plans, shows the plan or carries it out, and waits until what was started works.

mod doing;
mod facts;
mod needs;
mod places;
mod plan;
mod record;
mod texts;
mod waiting;

use fluke_model::gather::Gather;
use fluke_model::label::Labels;
use fluke_model::secret::Secret;

use super::{in_one_thread, join_line, server};
use crate::cli::{Global, Install, InstallAgentArgs, InstallServerArgs, Part, UninstallArgs};
use crate::config;
use crate::config::variables::Variables;
use crate::failure::Failure;
use crate::screen;
use plan::{Action, Content, Facts, Plan, Wish};
use texts::Skeleton;

/// The server's unit.
pub const SERVER_UNIT: &str = "fluke-server.service";
/// The agent's unit.
pub const AGENT_UNIT: &str = "fluke-agent.service";
/// The server's config.
pub const SERVER_CONFIG: &str = "/etc/fluke/server.hcl";
/// The server's variables.
pub const SERVER_VARIABLES: &str = "/etc/fluke/server.env";

/// Installs what is not in place yet.
pub fn run(what: &Install, global: &Global) -> Result<(), Failure> {
    let (wish, how) = match what {
        Install::Server(args) => (server_wish(args)?, args.how),
        Install::Agent(args) => (agent_wish(args)?, args.how),
    };
    in_one_thread(async {
        if !how.dry_run {
            facts::may_change()?;
        }
        let facts = facts::look(wish.part).await?;
        let plan = plan::install(&wish, &facts).map_err(|objection| {
            Failure::from_error(&objection).help(objection.help()).usage(true)
        })?;
        sound(&wish, &plan)?;
        if how.dry_run {
            return show(&plan);
        }
        carry_out(&plan, "everything is in place: nothing to do").await?;
        if how.no_start {
            return screen::print(&format!("{} starts with the host\n", wish.part.unit()));
        }
        screen::print(&format!("{}\n", waiting::until_it_works(wish.part).await?))?;
        tell_what_next(wish.part, global)
    })
}

/// Removes what was installed.
pub fn undo(args: &UninstallArgs) -> Result<(), Failure> {
    in_one_thread(async {
        if !args.dry_run {
            facts::may_change()?;
        }
        let services = facts::services(args.part).await;
        let facts = Facts { services, ..facts::look(args.part).await? };
        let plan = plan::uninstall(args.part, &facts, args.purge);
        match args.dry_run {
            true => show(&plan),
            false => carry_out(&plan, "nothing that was installed is left to remove").await,
        }
    })
}

fn server_wish(args: &InstallServerArgs) -> Result<Wish, Failure> {
    let skeleton = args
        .git_url
        .clone()
        .map(|git_url| Skeleton::Server { git_url, git_branch: args.git_branch.clone() });
    let token = Some(Secret::new(random_token()?));
    Ok(Wish { part: Part::Server, skeleton, token, start: !args.how.no_start })
}

fn agent_wish(args: &InstallAgentArgs) -> Result<Wish, Failure> {
    let ca_file = args
        .ca_file
        .as_ref()
        .map(std::path::absolute)
        .transpose()
        .map_err(|error| Failure::new("--ca-file is no path").because(&error).usage(true))?;
    let skeleton = args.url.clone().map(|url| Skeleton::Agent {
        url,
        ca_fingerprint: args.ca_fingerprint.clone(),
        ca_file,
        name: args.name.clone(),
        labels: Labels(args.labels.iter().cloned().gather()),
        is_proxy: args.proxy,
    });
    let token = args.token.clone().or_else(|| config::environment("FLUKE_TOKEN"));
    let token = token.map(Secret::new).filter(|token| !token.is_empty());
    Ok(Wish { part: Part::Agent, skeleton, token, start: !args.how.no_start })
}

fn random_token() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(format!("the system has no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A config that is to be written must be one, before anything is.
fn sound(wish: &Wish, plan: &Plan) -> Result<(), Failure> {
    let path = wish.part.config();
    let written = plan.actions.iter().find_map(|action| match action {
        Action::Write { path: own, content: Content::Plain(text), .. } if *own == path => {
            Some(text)
        }
        _ => None,
    });
    let Some(text) = written else { return Ok(()) };
    let name = path.display().to_string();
    let token = |name: &str| (name == "FLUKE_TOKEN").then(|| "token".to_string());
    let problems = match wish.part {
        Part::Server => config::read_server(&name, text.as_bytes(), &token).err(),
        Part::Agent => config::read_agent(&name, text.as_bytes(), &token).err(),
    };
    match problems {
        None => Ok(()),
        Some(problems) => {
            let why = crate::diagnostics::one_line(&problems);
            Err(Failure::new(format!("what was said does not make a config: {why}"))
                .help("nothing was changed; `fluke install --help` shows how things are written")
                .usage(true))
        }
    }
}

async fn carry_out(plan: &Plan, or_else: &str) -> Result<(), Failure> {
    for note in &plan.notes {
        screen::print(&format!("  {note}\n"))?;
    }
    for action in &plan.actions {
        screen::print(&format!("+ {action}\n"))?;
        doing::perform(action).await?;
    }
    match plan.actions.is_empty() {
        true => screen::print(&format!("{or_else}\n")),
        false => Ok(()),
    }
}

/// The plan, with what would be written.
fn show(plan: &Plan) -> Result<(), Failure> {
    let mut text = String::new();
    for note in &plan.notes {
        text += &format!("  {note}\n");
    }
    for action in &plan.actions {
        text += &format!("+ {action}\n");
        match action {
            Action::Write { content: Content::Plain(content), .. } => {
                text.extend(content.lines().map(|line| format!("    | {line}\n")));
            }
            Action::Write { content: Content::Hidden(_), .. } => {
                text += "    | FLUKE_TOKEN=(hidden)\n";
            }
            _ => {}
        }
    }
    if plan.actions.is_empty() {
        text += "nothing to do\n";
    }
    screen::print(&text)
}

fn tell_what_next(part: Part, global: &Global) -> Result<(), Failure> {
    match part {
        Part::Agent => screen::print("on the server, `fluke get agents` shows it\n"),
        Part::Server => {
            let variables = Variables::load(Some(SERVER_VARIABLES.as_ref()))
                .map_err(|error| Failure::from_error(&error))?;
            let config = server::load(SERVER_CONFIG.as_ref(), &variables, global.colour)?;
            let join = join_line::join(&config, None, None)?;
            screen::print(&format!(
                "\n{}\n# `fluke join-line` prints this again; `fluke get agents` shows who is there\n",
                join.text()
            ))
        }
    }
}
