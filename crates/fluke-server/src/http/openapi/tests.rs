use std::collections::BTreeSet;

use super::*;

#[test]
fn nothing_is_served_that_is_not_described_but_pages_for_people() {
    let for_programs = ["/api/", "/webhooks/", "/healthz", "/readyz", "/metrics"];
    for route in ROUTES {
        let expected = for_programs.iter().any(|start| route.path.starts_with(start));
        assert_eq!(route.about.is_some(), expected, "{} needs `.says(…)`", route.path);
    }
}

#[test]
fn every_call_has_a_name_of_its_own_and_says_what_it_does() {
    let document = document(true);
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, call) in methods.as_object().expect("methods") {
            let name = call["operationId"].as_str().expect("a name");
            assert!(names.insert(name.to_string()), "{method} {path}: `{name}` is taken");
            assert!(call["summary"].is_string(), "{method} {path}");
            let answers = call["responses"].as_object().expect("answers");
            assert!(answers.keys().any(|status| status.starts_with('2')), "{method} {path}");
            for part in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let name = part.trim_end_matches('}');
                let parameters = call["parameters"].as_array().expect("parameters");
                let found = parameters.iter().find(|it| it["in"] == "path" && it["name"] == name);
                assert!(found.is_some(), "{method} {path}: what is `{name}`?");
            }
        }
    }
}

#[test]
fn it_says_which_calls_ask_for_credentials() {
    for (tokens, path, method, asked) in [
        (true, "/api/v1/agents", "get", true),
        (false, "/api/v1/agents", "get", false),
        (true, "/metrics", "get", true),
        (true, "/healthz", "get", false),
        (true, "/api/v1/reconcile", "post", true),
        (false, "/api/v1/reconcile", "post", true),
    ] {
        let security = &document(tokens)["paths"][path][method]["security"];
        let schemes = security.as_array().expect("a list").len();
        assert_eq!(schemes, if asked { 2 } else { 0 }, "{method} {path}, tokens: {tokens}");
    }
}

/// Every `$ref` in a value.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn what_it_refers_to_is_there() {
    let document = document(true);
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn types_keep_their_grammar_and_their_words() {
    let document = document(true);
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["LabelKey"]["pattern"], "^[A-Za-z0-9._/-]+$");
    assert_eq!(schemas["AgentName"]["maxLength"], 128);
    assert_eq!(schemas["Timestamp"]["format"], "date-time");
    assert_eq!(schemas["Agent"]["description"], "One agent, at a glance.");
    let kinds = schemas["EventKind"].to_string();
    let all = fluke_model::event::EventKind::ALL;
    assert!(all.iter().all(|kind| kinds.contains(kind.as_str())), "{kinds}");
    let agents = &document["paths"]["/api/v1/agents"]["get"]["parameters"];
    assert_eq!(agents[1]["schema"]["type"], "array", "labels may be given more than once");
}
