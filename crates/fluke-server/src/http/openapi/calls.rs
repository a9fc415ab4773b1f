//! What each call says of itself.

use fluke_model::api;
use fluke_model::event::EventId;
use fluke_model::id::{AgentName, ServiceName, TaskName};

use super::{Call, Sort};
use crate::http::query;
use crate::http::webhook::Receipt;

pub fn openapi(call: &mut Call) {
    call.named("getOpenapi", "This document").answer(
        200,
        "What is served, as OpenAPI 3.1.",
        "application/json",
        serde_json::json!({ "type": "object" }),
    );
}

pub fn healthz(call: &mut Call) {
    call.named("getHealth", "Whether the process lives").answers_text(
        200,
        "It does.",
        "text/plain; charset=utf-8",
    );
}

pub fn readyz(call: &mut Call) {
    call.named("getReadiness", "Whether a commit is in force")
        .explained("503 says why none is.")
        .answers_text(200, "One is.", "text/plain; charset=utf-8");
}

pub fn metrics(call: &mut Call) {
    call.named("getMetrics", "What can be graphed and alerted on").answers_text(
        200,
        "Prometheus text.",
        "text/plain; version=0.0.4; charset=utf-8",
    );
}

pub fn webhook(call: &mut Call) {
    call.named("receivePush", "A forge says that somebody pushed")
        .explained(
            "Takes the push events of GitHub, GitLab, Gitea and Forgejo, signed with \
             `webhook_secret`; the headers that each of them sends tell which it is.",
        )
        .takes_anything()
        .answers::<Receipt>(200, "Nothing is to be done about it; `detail` says why.")
        .answers::<Receipt>(202, "The repository is read now.")
        .fails(&[Sort::Unauthorized, Sort::NotConfigured, Sort::TooSlow, Sort::TooLarge]);
}

pub fn agents(call: &mut Call) {
    call.named("listAgents", "Every known agent")
        .explained("An agent that went away is known as `offline` for a week.")
        .asks(query::AGENTS)
        .answers::<api::Agents>(200, "Those that were asked for, by name.");
}

pub fn agent(call: &mut Call) {
    call.named("getAgent", "One agent, with its tasks, its steps and its newest events")
        .path::<AgentName>("name", "The agent's name; a `/` in it may be written as `%2F`.")
        .answers::<api::AgentDetail>(200, "What is known of it.")
        .fails(&[Sort::UnknownName]);
}

pub fn forget_agent(call: &mut Call) {
    call.named("forgetAgent", "Says that an agent will not come back")
        .explained(
            "Nobody waits for its host any more, nor for the volumes on it: replicas that have \
             these start elsewhere, with empty ones. One that comes back all the same is as new.",
        )
        .path::<AgentName>("name", "The agent's name; a `/` in it may be written as `%2F`.")
        .answers::<api::Forgotten>(200, "It is forgotten; so are these volumes.")
        .fails(&[Sort::UnknownName, Sort::Conflict]);
}

pub fn tasks(call: &mut Call) {
    call.named("listTasks", "Every task of the commit in force, and how it stands on each agent")
        .explained("503 says why no commit is in force, where none is.")
        .asks(query::TASKS)
        .answers::<api::Tasks>(200, "Those that were asked for, by name.");
}

pub fn task(call: &mut Call) {
    call.named("getTask", "One task, and how it stands on each agent")
        .path::<TaskName>("name", "The task's name; a `/` in it may be written as `%2F`.")
        .answers::<api::TaskView>(200, "What is known of it.")
        .fails(&[Sort::UnknownName]);
}

pub fn services(call: &mut Call) {
    call.named("listServices", "Every service of the commit in force, and how it stands")
        .explained("503 says why no commit is in force, where none is.")
        .asks(query::SERVICES)
        .answers::<api::Services>(200, "Those that were asked for, by name.");
}

pub fn service(call: &mut Call) {
    call.named("getService", "One service: each of its replicas, its names and its routes")
        .path::<ServiceName>("name", "The service's name.")
        .answers::<api::ServiceView>(200, "What is known of it.")
        .fails(&[Sort::UnknownName]);
}

pub fn drift(call: &mut Call) {
    call.named("listDrift", "Every step that is not as it should be")
        .asks(query::DRIFT)
        .answers::<api::DriftList>(200, "What is drifted now, of what was asked for.");
}

pub fn events(call: &mut Call) {
    call.named("listEvents", "What happened, newest first")
        .explained("503 says why, while the event store is away.")
        .asks(query::EVENTS)
        .answers::<api::Events>(200, "A page of what was asked for.");
}

pub fn source(call: &mut Call) {
    call.named("getSource", "What is known of the repository")
        .answers::<api::Source>(200, "The commit in force, and what became of newer ones.");
}

pub fn session(call: &mut Call) {
    call.named("getSession", "What the caller may do here")
        .explained("For everybody; strangers learn nothing but that.")
        .answers::<api::Session>(200, "Who the caller is let in as.")
        .fails(&[Sort::Unauthorized]);
}

pub fn reconcile(call: &mut Call) {
    call.named("startReconcile", "Checks, and puts right whatever the policy is")
        .explained(
            "`seen` makes it an approval: if what is drifted is no longer what the caller saw, \
             nothing is done (409).",
        )
        .takes::<api::ReconcileRequest>()
        .answers::<api::ReconcileAccepted>(202, "It has begun.")
        .with_header(202, "location", "Where it can be followed.")
        .leads_to(202, "getReconcile", "id", "/id")
        .fails(&[Sort::UnknownName, Sort::Conflict, Sort::SeenOtherwise]);
}

pub fn progress(call: &mut Call) {
    call.named("getReconcile", "How far a reconcile has come")
        .explained("The newest 256 are remembered.")
        .path::<String>("id", "As it was answered.")
        .answers::<api::ReconcileProgress>(200, "On each agent that it concerns.")
        .fails(&[Sort::UnknownName]);
}

pub fn stream(call: &mut Call) {
    call.named("followChanges", "Every change, as server-sent events")
        .explained(
            "The `event` of a message is `agent` (data: an Agent, or `{\"name\",\"gone\":true}`), \
             `service` (a ServiceView, or `{\"name\",\"gone\":true}`), `event` (an Event), `source` (a Source), `reconcile` (a ReconcileProgress) or \
             `lagged`. Open the stream first and fetch the lists then. Only messages of kind \
             `event` have an id. After `lagged` the stream ends: begin anew.",
        )
        .header::<EventId>(
            "Last-Event-ID",
            "The id that was heard last: what was missed since is sent first.",
        )
        .answers_text(200, "Messages without end.", "text/event-stream");
}
