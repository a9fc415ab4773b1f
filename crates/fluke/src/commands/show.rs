//! Showing something that the server knows, once or again and again.

use std::io;
use std::time::Duration;

use fluke_model::time::Timestamp;
use tokio::time::{sleep, timeout};

use super::Printing;
use crate::cli::{Format, Global};
use crate::client::Client;
use crate::client::changes::Changes;
use crate::client::error::ClientError;
use crate::colour::Paint;
use crate::failure::{Failure, writing};
use crate::live::Live;
use crate::screen::{self, Style};
use crate::when;

/// How often "3s ago" is told anew while nothing changes.
const TICK: Duration = Duration::from_secs(5);
/// Before the server is asked again after it did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that can be fetched and shown.
pub trait Page {
    /// What is fetched for it.
    type Fetched;

    /// Asks the server.
    async fn fetch(&self, client: &Client) -> Result<Self::Fetched, ClientError>;

    /// What the API returned, word for word.
    fn json<'a>(&self, fetched: &'a Self::Fetched) -> &'a str;

    /// The same for people.
    fn table(
        &self,
        fetched: &Self::Fetched,
        client: &Client,
        style: Style,
        now: Timestamp,
    ) -> Result<String, ClientError>;

    /// What else should be known.
    fn warning(&self, _fetched: &Self::Fetched) -> Option<String> {
        None
    }

    /// The failure that an error of [`Page::fetch`] is.
    async fn explain(&self, error: ClientError, _client: &Client) -> Failure {
        error.into()
    }
}

/// Shows `page` as the command line asks.
pub async fn show(client: &Client, page: &impl Page, global: &Global) -> Result<(), Failure> {
    let printing = Printing::of(global);
    if global.watch {
        return watch(client, page, printing).await;
    }
    let fetched = match page.fetch(client).await {
        Ok(fetched) => fetched,
        Err(error) => return Err(page.explain(error, client).await),
    };
    if let Some(warning) = page.warning(&fetched) {
        let style = Style::of_stderr(printing.colour);
        screen::note(&format!("{} {warning}\n", Paint::Yellow.on("warning:", style.colours)));
    }
    screen::print(&render(client, page, &fetched, printing, printing.style())?)
}

fn render<P: Page>(
    client: &Client,
    page: &P,
    fetched: &P::Fetched,
    printing: Printing,
    style: Style,
) -> Result<String, Failure> {
    if printing.format == Format::Table {
        return Ok(page.table(fetched, client, style, when::now())?);
    }
    // Read as a plain value, so that keys that this version does not know come through.
    let document = printing.document(page.json(fetched)).transpose();
    let text = document
        .map_err(|source| ClientError::Strange { server: client.server().to_string(), source })?;
    Ok(text.unwrap_or_default())
}

/// On a terminal the page is drawn over itself; in a pipe it follows itself when it changed.
async fn watch<P: Page>(client: &Client, page: &P, printing: Printing) -> Result<(), Failure> {
    let mut changes = Changes::follow(client.clone());
    let mut fetched = match page.fetch(client).await {
        Ok(fetched) => fetched,
        Err(error) => return Err(page.explain(error, client).await),
    };
    let live = printing.style().is_terminal() && printing.format == Format::Table;
    let mut drawn = Live::new(io::stdout());
    let mut printed = String::new();
    let mut trouble = None;
    loop {
        let style = printing.style();
        let text = render(client, page, &fetched, printing, style)?;
        if live {
            let above = headline(page.warning(&fetched), trouble.as_ref(), style);
            drawn.draw(&(above + &text), style).map_err(writing)?;
        } else if page.json(&fetched) != printed {
            printed = page.json(&fetched).to_string();
            screen::print(&text)?;
        }
        match (&trouble, live) {
            (Some(_), _) => sleep(PAUSE).await,
            (None, false) => changes.next().await,
            // Nothing new; but the times that are shown have moved on.
            (None, true) if timeout(TICK, changes.next()).await.is_err() => continue,
            (None, true) => {}
        }
        trouble = match page.fetch(client).await {
            Ok(newer) => {
                fetched = newer;
                None
            }
            Err(error) if error.is_transient() => Some(error),
            Err(error) => return Err(page.explain(error, client).await),
        };
    }
}

fn headline(warning: Option<String>, trouble: Option<&ClientError>, style: Style) -> String {
    let line = |word: &str, paint: Paint, text: &str| {
        format!("{} {text}\n", paint.on(word, style.colours))
    };
    let mut text = String::new();
    if let Some(trouble) = trouble {
        text.push_str(&line("out of date:", Paint::Red, &format!("{trouble}; trying again")));
    }
    if let Some(warning) = warning {
        text.push_str(&line("warning:", Paint::Yellow, &warning));
    }
    text
}
