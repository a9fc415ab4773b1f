//! Showing something that the server knows, once or again and again.

use fluke_model::time::Timestamp;

use super::{Printing, watch};
use crate::cli::{Format, Global};
use crate::client::Client;
use crate::client::error::ClientError;
use crate::colour::Paint;
use crate::failure::Failure;
use crate::screen::{self, Style};
use crate::when;

/// Something that can be fetched and shown.
pub trait Page {
    /// What is fetched for it.
    type Fetched;

    /// Asks the server.
    async fn fetch(&self, client: &Client) -> Result<Self::Fetched, ClientError>;

    /// What the API returned, word for word.
    fn json<'a>(&self, fetched: &'a Self::Fetched) -> &'a str;

    /// Which kinds of changes are a reason to fetch it again.
    fn concerns(&self) -> fn(&str) -> bool;

    /// The same for people.
    fn table(
        &self,
        fetched: &Self::Fetched,
        client: &Client,
        style: Style,
        now: Timestamp,
    ) -> Result<String, ClientError>;

    /// Only what is new, for who reads line by line; none where that cannot be told.
    fn news(
        &self,
        _before: &Self::Fetched,
        _fetched: &Self::Fetched,
        _client: &Client,
        _now: Timestamp,
    ) -> Result<Option<String>, ClientError> {
        Ok(None)
    }

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
        return watch::watch(client, page, printing).await;
    }
    let fetched = match page.fetch(client).await {
        Ok(fetched) => fetched,
        Err(error) => return Err(page.explain(error, client).await),
    };
    warn(page.warning(&fetched), printing);
    screen::print(&render(client, page, &fetched, printing, printing.style())?)
}

/// Says on stderr what else should be known.
pub fn warn(warning: Option<String>, printing: Printing) {
    if let Some(warning) = warning {
        let style = Style::of_stderr(printing.colour);
        screen::note(&format!("{} {warning}\n", Paint::Yellow.on("warning:", style.colours)));
    }
}

/// The page as text, in the format that was asked for.
pub fn render<P: Page>(
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
