//! Lists that come in pages.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Client;
use super::error::ClientError;

/// The most that a server gives at once.
const PAGE: u32 = 1000;

/// A list of the API, and what is wanted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// `agents`, which is also the key of the list in the answer.
    pub name: &'static str,
    /// The parameter that takes the `next` of the page before.
    pub mark: &'static str,
    /// What it is filtered by.
    pub filters: Vec<(&'static str, String)>,
    /// How many at most; none for everything at once.
    pub limit: Option<u32>,
}

/// One page, or several put together; in the words of the server.
#[derive(Serialize)]
#[serde(transparent)]
struct Page(BTreeMap<String, Box<RawValue>>);

impl Client {
    /// What the server answers, in as many pages as `limit` needs, up to the first item that is
    /// not `wanted`. A single page is kept word for word.
    pub async fn list(
        &self,
        listing: &Listing,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<String, ClientError> {
        let strange = |source| ClientError::Strange { server: self.server().to_string(), source };
        let (mut left, mut mark, mut all) = (listing.limit, None::<String>, Vec::new());
        loop {
            let is_first = mark.is_none();
            let text = self.page(listing, left, mark.clone()).await?;
            let Some(limit) = left else { return Ok(text) };
            let mut page = Page(serde_json::from_str(&text).map_err(strange)?);
            let mut items = page.items(listing.name).map_err(strange)?;
            let come = items.len();
            items.truncate(items.iter().take_while(|item| wanted(item.get())).count());
            let still = limit.saturating_sub(u32::try_from(come).unwrap_or(u32::MAX));
            // A page may be empty and not the last; but the place in the list always moves on.
            let next = page.mark().map_err(strange)?;
            let is_last = next.is_none() || next == mark || still == 0 || items.len() < come;
            mark = next;
            if is_first && is_last && items.len() == come {
                return Ok(text);
            }
            all.extend(items);
            if is_last {
                let all = serde_json::value::to_raw_value(&all).map_err(strange)?;
                page.0.insert(listing.name.into(), all);
                return serde_json::to_string(&page).map_err(strange);
            }
            left = Some(still);
        }
    }

    async fn page(
        &self,
        listing: &Listing,
        left: Option<u32>,
        mark: Option<String>,
    ) -> Result<String, ClientError> {
        let mut query = listing.filters.clone();
        query.extend(left.map(|left| ("limit", left.min(PAGE).to_string())));
        query.extend(mark.map(|mark| (listing.mark, mark)));
        self.text(&[listing.name], &query).await
    }
}

impl Page {
    fn items(&self, name: &str) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
        self.0.get(name).map_or(Ok(Vec::new()), |items| serde_json::from_str(items.get()))
    }

    fn mark(&self) -> Result<Option<String>, serde_json::Error> {
        self.0.get("next").map_or(Ok(None), |next| serde_json::from_str(next.get()))
    }
}
