//! What the query string of `GET events` asks for.

use axum::extract::Query;
use fluke_model::event::{EventId, EventKind};
use http::Uri;

use super::problem::{Problem, nearest};
use crate::events::EventQuery;

const MOST: usize = 1000;
const USUAL: usize = 100;
const PARAMETERS: [&str; 5] = ["agent", "task", "kind", "limit", "before"];

/// Reads `?agent=&task=&kind=&limit=&before=`; a parameter without a value is not given.
pub(super) fn events(uri: &Uri) -> Result<EventQuery, Problem> {
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|error| Problem::bad_request(format!("the query cannot be read: {error}")))?;
    let mut query = EventQuery { limit: USUAL, ..EventQuery::default() };
    let mut seen = Vec::new();
    for (name, value) in &pairs {
        if seen.contains(&name) {
            return Err(Problem::bad_request(format!("`{name}` is given twice")));
        }
        if !value.is_empty() || !PARAMETERS.contains(&name.as_str()) {
            set(&mut query, name, value).map_err(Problem::bad_request)?;
        }
        seen.push(name);
    }
    Ok(query)
}

fn set(query: &mut EventQuery, name: &str, value: &str) -> Result<(), String> {
    let wrong = |why: String| format!("`{name}`: {why}");
    match name {
        "agent" => query.agent = Some(value.parse().map_err(|e| wrong(format!("{e}")))?),
        "task" => query.task = Some(value.parse().map_err(|e| wrong(format!("{e}")))?),
        "kind" => query.kind = Some(kind(value).map_err(wrong)?),
        "limit" => match value.parse() {
            Ok(limit) if (1..=MOST).contains(&limit) => query.limit = limit,
            _ => return Err(wrong(format!("give a number from 1 to {MOST}"))),
        },
        "before" => match value.parse() {
            Ok(id) => query.before = Some(EventId(id)),
            Err(_) => return Err(wrong("give the `next` of a page, or an event's `id`".into())),
        },
        _ => {
            let known = PARAMETERS.join(", ");
            return Err(format!("there is no parameter `{name}`; there are {known}"));
        }
    }
    Ok(())
}

fn kind(text: &str) -> Result<EventKind, String> {
    let names = || EventKind::ALL.iter().map(|kind| kind.as_str());
    let found = EventKind::ALL.iter().find(|kind| kind.as_str() == text);
    found.copied().ok_or_else(|| match nearest(text, names()).first() {
        Some(near) => format!("there is no kind `{text}`; did you mean `{near}`?"),
        None => format!(
            "there is no kind `{text}`; there are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<EventQuery, Problem> {
        events(&format!("/api/v1/events?{query}").parse().expect("a path"))
    }

    #[test]
    fn what_is_asked_is_understood() {
        assert_eq!(read("").map(|query| query.limit), Ok(USUAL));
        assert_eq!(read("agent=&task=&kind=&limit=&before=").map(|query| query.limit), Ok(USUAL));
        let query =
            read("agent=a%2Fb&task=t&kind=drift_detected&limit=7&before=12").expect("right");
        assert_eq!(query.agent.map(String::from), Some("a/b".into()));
        assert_eq!(query.task.map(String::from), Some("t".into()));
        assert_eq!(query.kind, Some(EventKind::DriftDetected));
        assert_eq!((query.limit, query.before), (7, Some(EventId(12))));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (query, said) in [
            ("limit=0", "`limit`: give a number from 1 to 1000"),
            ("limit=1001", "`limit`: give a number from 1 to 1000"),
            ("limit=ten", "`limit`: give a number from 1 to 1000"),
            ("before=yesterday", "`before`: give the `next` of a page, or an event's `id`"),
            ("kind=drift", "`kind`: there is no kind `drift`; did you mean `drift_detected`?"),
            (
                "agent=a%20b",
                "`agent`: ' ' is not allowed in an agent name; use letters, digits, `.`, `_`, `-` and `/`",
            ),
            ("limit=1&limit=2", "`limit` is given twice"),
            ("agnet=", "there is no parameter `agnet`; there are agent, task, kind, limit, before"),
        ] {
            assert_eq!(read(query), Err(Problem::bad_request(said)), "{query}");
        }
    }
}
