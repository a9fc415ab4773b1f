//! `fluke forget`: says that a host is gone for good.

use fluke_model::api::Forgotten;

use super::Printing;
use super::describe::missing_agent;
use crate::cli::{Forget, Global};
use crate::failure::Failure;
use crate::sanitise;
use crate::screen;

/// Has the server forget it, and tells what nothing waits for any more.
pub async fn run(what: Forget, global: &Global) -> Result<(), Failure> {
    let Forget::Agent { name } = what;
    let client = super::client(global)?;
    let json = match client.forget(name.as_str()).await {
        Ok(json) => json,
        Err(error) => return Err(missing_agent(error, &client, name.as_str()).await),
    };
    let forgotten: Forgotten = client.value(&json)?;
    match Printing::of(global).document(&json) {
        Some(text) => screen::print(&text.unwrap_or(json)),
        None => screen::print(&told(&forgotten)),
    }
}

fn told(forgotten: &Forgotten) -> String {
    let volumes: Vec<String> = forgotten.volumes.iter().map(|name| sanitise::line(name)).collect();
    let name = &forgotten.name;
    match volumes.is_empty() {
        true => format!("{name} is forgotten\n"),
        false => format!(
            "{name} is forgotten, and no replica waits any more for {}\n",
            volumes.join(", ")
        ),
    }
}
