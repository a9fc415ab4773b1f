use super::*;

fn read<T>(how: fn(&Uri) -> Result<T, Problem>, query: &str) -> Result<T, Problem> {
    how(&format!("/x?{query}").parse().expect("a path"))
}

#[test]
fn what_is_asked_of_events_is_understood() {
    assert_eq!(read(events, "").map(|query| query.limit), Ok(USUAL_EVENTS));
    let empty = "agent=&task=&kind=&limit=&before=";
    assert_eq!(read(events, empty).map(|query| query.limit), Ok(USUAL_EVENTS));
    let query = "agent=a%2Fb&task=t&kind=drift_detected&limit=7&before=12";
    let query = read(events, query).expect("right");
    assert_eq!(query.agent.map(String::from), Some("a/b".into()));
    assert_eq!(query.task.map(String::from), Some("t".into()));
    assert_eq!(query.kind, Some(EventKind::DriftDetected));
    assert_eq!((query.limit, query.before), (7, Some(EventId(12))));
}

#[test]
fn what_is_asked_of_lists_is_understood() {
    let query = "status=failed&label=role%3Dweb&label=env&name=b-0&limit=5&after=web-01";
    let filter = read(agents, query).expect("right");
    assert_eq!(filter.status, Some(Status::Failed));
    let label = |text: &str| text.parse::<LabelFilter>().expect("a label");
    assert_eq!(filter.labels, [label("role=web"), label("env")]);
    assert_eq!((filter.name.as_deref(), filter.limit), (Some("b-0"), Some(5)));
    assert_eq!(filter.after.map(String::from), Some("web-01".into()));

    let filter = read(tasks, "status=in_sync&name=cert&limit=1&after=a").expect("right");
    assert_eq!((filter.status, filter.limit), (Some(Status::InSync), Some(1)));

    let query = "agent=a&task=t&policy=alert_only&after=a:t:shell.x";
    let filter = read(drift, query).expect("right");
    assert_eq!(filter.policy, Some(Policy::AlertOnly));
    assert_eq!(filter.after.map(String::from), Some("a:t:shell.x".into()));
    assert_eq!(read(drift, ""), Ok(DriftFilter::default()));
}

#[test]
fn what_is_wrong_is_said() {
    fn said<T: std::fmt::Debug>(answer: Result<T, Problem>) -> String {
        answer.expect_err("wrong").detail().to_string()
    }
    for (query, why) in [
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
        (
            "agnet=",
            "there is no parameter `agnet`; there are agent, task, service, kind, limit, before; did you mean `agent`?",
        ),
    ] {
        assert_eq!(said(read(events, query)), why, "{query}");
    }
    for (query, why) in [
        (
            "status=fine",
            "`status`: there is no status `fine`; there are in_sync, drifted, applying, failed, unknown, offline",
        ),
        ("status=failed&status=offline", "`status` is given twice"),
        (
            "label=role%20web",
            "`label`: ' ' is not allowed in a label key; use letters, digits, `.`, `_`, `-` and `/`",
        ),
        ("limit=10001", "`limit`: give a number from 1 to 10000"),
    ] {
        assert_eq!(said(read(agents, query)), why, "{query}");
    }
    assert_eq!(said(read(drift, "after=x")), "`after`: a place in the drift is `agent:task:step`");
    assert_eq!(said(read(nothing, "x=1")), "there is no parameter `x`; this call takes none");
}
