//! What agents say.

use fluke_model::gather::Gather;
use fluke_model::id::{
    AgentName, InstanceId, LabelKey, LabelValue, ServiceName, SessionId, StepAddress, TaskName,
    check_name,
};
use fluke_model::label::Labels;
use fluke_model::message::{
    Checked, Fact, Hello, Holdings, NodeType, Record, RecordId, StepReport, Subject, ToServer,
};
use fluke_model::snapshot::StepIndex;
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Drift, MAX_OUTPUT, Output, Verdict};

use super::directory::{
    known_placements, mesh_from_proto, mesh_to_proto, placements_to_proto, section,
    section_to_proto,
};
use super::parts::{
    commit, commit_to_proto, hash, hash_to_proto, instruction, instruction_to_proto, named,
    outcome, outcome_to_proto, steps, steps_to_proto, trigger, trigger_to_proto,
};
use super::services::{
    network_from_proto, network_to_proto, services_from_proto, services_to_proto,
};
use super::text::{at_most, bounded, clip, clip_line, line};
use super::{MAX_DIFF, MAX_EXECUTORS, MAX_LABELS, MAX_REASON, MAX_STEPS, MAX_VERSION};
use crate::error::WireError;
use crate::proto;
use crate::proto::agent_message::Body;

/// What all reasons and diffs of one answer may come to, so that it fits into a message.
const MAX_REPORT_TEXT: usize = crate::MAX_TO_SERVER / 2;

pub(crate) fn to_server_to_proto(message: ToServer) -> Body {
    match message {
        ToServer::Hello(hello) => Body::Hello(hello_to_proto(hello)),
        ToServer::Heartbeat => Body::Heartbeat(proto::Heartbeat {}),
        ToServer::Checked(checked) => Body::Checked(checked_to_proto(checked)),
        ToServer::Record(record) => Body::Record(record_to_proto(record)),
        ToServer::Finished { instruction } => {
            let instruction = Some(instruction_to_proto(instruction));
            Body::Finished(proto::Finished { instruction })
        }
        ToServer::LookAgain { snapshot, steps } => Body::LookAgain(proto::LookAgain {
            snapshot: hash_to_proto(snapshot),
            steps: Some(steps_to_proto(steps)),
        }),
        ToServer::Lost { records } => Body::Lost(proto::Lost { records }),
        ToServer::Services(report) => Body::Services(services_to_proto(report)),
        ToServer::Network(report) => Body::Network(network_to_proto(report)),
        ToServer::Mesh(report) => Body::Mesh(mesh_to_proto(report)),
        ToServer::Placements(known) => Body::Placements(placements_to_proto(known.whole())),
        ToServer::Resend(section) => {
            Body::Resend(proto::Resend { section: section_to_proto(section) })
        }
        ToServer::Leaving => Body::Leaving(proto::Leaving {}),
        ToServer::GoingDown => Body::GoingDown(proto::GoingDown {}),
        ToServer::Settled { instruction, problem } => Body::Settled(proto::Settled {
            instruction: Some(instruction_to_proto(instruction)),
            problem: problem.map(|problem| clip(problem, MAX_REASON)),
        }),
    }
}

/// None for what a newer agent says and this version does not know.
pub(crate) fn to_server_from_proto(body: Option<Body>) -> Result<Option<ToServer>, WireError> {
    let Some(body) = body else { return Ok(None) };
    Ok(Some(match body {
        Body::Hello(hello) => ToServer::Hello(hello_from_proto(hello)?),
        Body::Heartbeat(proto::Heartbeat {}) => ToServer::Heartbeat,
        Body::Checked(checked) => {
            ToServer::Checked(checked_from_proto(checked).map_err(|e| e.within("checked"))?)
        }
        Body::Record(record) => match record_from_proto(record).map_err(|e| e.within("record"))? {
            Some(record) => ToServer::Record(record),
            None => return Ok(None),
        },
        Body::Finished(finished) => ToServer::Finished {
            instruction: instruction("finished.instruction", finished.instruction)?,
        },
        Body::LookAgain(look) => ToServer::LookAgain {
            snapshot: hash("look_again.snapshot", &look.snapshot)?,
            steps: steps("look_again.steps", look.steps.unwrap_or_default())?,
        },
        Body::Lost(proto::Lost { records }) => ToServer::Lost { records },
        Body::Services(report) => {
            ToServer::Services(services_from_proto(report).map_err(|e| e.within("services"))?)
        }
        Body::Network(report) => {
            ToServer::Network(network_from_proto(report).map_err(|e| e.within("network"))?)
        }
        Body::Mesh(report) => {
            ToServer::Mesh(mesh_from_proto(report).map_err(|e| e.within("mesh"))?)
        }
        Body::Placements(known) => {
            ToServer::Placements(known_placements(known).map_err(|e| e.within("placements"))?)
        }
        Body::Resend(resend) => match section(resend.section()) {
            Some(section) => ToServer::Resend(section),
            None => return Ok(None),
        },
        Body::Leaving(proto::Leaving {}) => ToServer::Leaving,
        Body::GoingDown(proto::GoingDown {}) => ToServer::GoingDown,
        Body::Settled(settled) => ToServer::Settled {
            instruction: instruction("settled.instruction", settled.instruction)?,
            problem: settled
                .problem
                .map(|problem| bounded("settled.problem", problem, MAX_REASON))
                .transpose()?,
        },
    }))
}

fn hello_to_proto(hello: Hello) -> proto::Hello {
    let node_type = match hello.node_type {
        NodeType::Worker => proto::NodeType::Worker,
        NodeType::Proxy => proto::NodeType::Proxy,
    };
    proto::Hello {
        name: hello.name.into(),
        labels: hello.labels.0.into_iter().map(|(k, v)| (k.into(), v.into())).gather(),
        version: clip_line(hello.version, MAX_VERSION),
        executors: hello.executors,
        node_type: node_type.into(),
        snapshot: hello.snapshot.map(hash_to_proto),
        instance: hello.instance.0,
        previous: hello.previous.map(|session| session.0),
        tables: (hello.tables != Holdings::default()).then(|| holdings_to_proto(hello.tables)),
    }
}

pub(crate) fn hello_from_proto(wire: proto::Hello) -> Result<Hello, WireError> {
    let hello = || -> Result<Hello, WireError> {
        let node_type = match wire.node_type() {
            proto::NodeType::Proxy => NodeType::Proxy,
            proto::NodeType::Worker | proto::NodeType::Unspecified => NodeType::Worker,
        };
        let executors = at_most("executors", wire.executors, MAX_EXECUTORS)?;
        for executor in &executors {
            named("executors", check_name("executor kind", executor))?;
        }
        Ok(Hello {
            name: named("name", AgentName::new(&wire.name))?,
            labels: labels(wire.labels)?,
            version: line("version", wire.version, MAX_VERSION)?,
            executors,
            node_type,
            snapshot: wire.snapshot.map(|bytes| hash("snapshot", &bytes)).transpose()?,
            instance: InstanceId(wire.instance),
            previous: wire.previous.map(SessionId),
            tables: wire.tables.map(holdings_from_proto).transpose()?.unwrap_or_default(),
        })
    };
    hello().map_err(|error| error.within("hello"))
}

fn holdings_to_proto(tables: Holdings) -> proto::Holdings {
    proto::Holdings {
        names: tables.names.map(hash_to_proto),
        routes: tables.routes.map(hash_to_proto),
        peers: tables.peers.map(hash_to_proto),
        placements: tables.placements.map(hash_to_proto),
    }
}

fn holdings_from_proto(wire: proto::Holdings) -> Result<Holdings, WireError> {
    let held = |field, wire: Option<Vec<u8>>| wire.map(|wire| hash(field, &wire)).transpose();
    Ok(Holdings {
        names: held("tables.names", wire.names)?,
        routes: held("tables.routes", wire.routes)?,
        peers: held("tables.peers", wire.peers)?,
        placements: held("tables.placements", wire.placements)?,
    })
}

fn labels(wire: std::collections::BTreeMap<String, String>) -> Result<Labels, WireError> {
    let pairs = at_most("labels", Vec::from_iter(wire), MAX_LABELS)?;
    let label = |(key, value)| -> Result<_, WireError> {
        Ok((
            named("labels", LabelKey::try_from(key))?,
            named("labels", LabelValue::try_from(value))?,
        ))
    };
    Ok(Labels(pairs.into_iter().map(label).try_gather()?))
}

fn checked_to_proto(checked: Checked) -> proto::Checked {
    let share = TextShare::of(&checked.changes);
    proto::Checked {
        instruction: Some(instruction_to_proto(checked.instruction)),
        snapshot: hash_to_proto(checked.snapshot),
        changes: checked.changes.into_iter().map(|report| share.report_to_proto(report)).collect(),
        checked: checked.checked,
    }
}

fn checked_from_proto(wire: proto::Checked) -> Result<Checked, WireError> {
    let changes = at_most("changes", wire.changes, MAX_STEPS)?;
    let report = |(n, report)| {
        report_from_proto(report).map_err(|e: WireError| e.within(format_args!("changes[{n}]")))
    };
    Ok(Checked {
        instruction: instruction("instruction", wire.instruction)?,
        snapshot: hash("snapshot", &wire.snapshot)?,
        changes: changes.into_iter().enumerate().map(report).collect::<Result<_, _>>()?,
        checked: wire.checked,
    })
}

/// How long the texts of one answer may be, so that all of them fit into one message.
struct TextShare {
    reason: usize,
    diff: usize,
}

impl TextShare {
    fn of(changes: &[StepReport]) -> Self {
        let length = |report: &StepReport| match &report.verdict {
            Verdict::Satisfied => 0,
            Verdict::Error { reason } => reason.len().min(MAX_REASON),
            Verdict::Drifted(Drift { reason, diff }) => {
                reason.len().min(MAX_REASON) + diff.as_ref().map_or(0, |d| d.len().min(MAX_DIFF))
            }
        };
        let lengths = changes.iter().map(length);
        let (total, texts) = lengths.fold((0, 0), |(total, texts), length| {
            (total + length, texts + usize::from(length > 0))
        });
        if total <= MAX_REPORT_TEXT {
            return Self { reason: MAX_REASON, diff: MAX_DIFF };
        }
        let each = MAX_REPORT_TEXT / texts / 2;
        Self { reason: each.min(MAX_REASON), diff: each.min(MAX_DIFF) }
    }

    fn report_to_proto(&self, report: StepReport) -> proto::StepReport {
        use proto::step_report::Verdict as Wire;
        let verdict = match report.verdict {
            Verdict::Satisfied => Wire::Satisfied(proto::Satisfied {}),
            Verdict::Drifted(drift) => Wire::Drifted(proto::Drifted {
                reason: clip(drift.reason, self.reason),
                diff: drift.diff.map(|diff| clip(diff, self.diff)),
            }),
            Verdict::Error { reason } => {
                Wire::Undecided(proto::Undecided { reason: clip(reason, self.reason) })
            }
        };
        proto::StepReport { step: report.step.0, verdict: Some(verdict) }
    }
}

fn report_from_proto(wire: proto::StepReport) -> Result<StepReport, WireError> {
    use proto::step_report::Verdict as Wire;
    let verdict = match wire.verdict {
        Some(Wire::Satisfied(proto::Satisfied {})) => Verdict::Satisfied,
        Some(Wire::Drifted(drifted)) => drifted_from_proto(drifted)?,
        Some(Wire::Undecided(undecided)) => undecided_from_proto(undecided)?,
        None => Verdict::Error {
            reason: "the agent answered in a way that this server does not know; \
                     upgrade the server"
                .to_owned(),
        },
    };
    Ok(StepReport { step: StepIndex(wire.step), verdict })
}

pub(super) fn drifted_from_proto(wire: proto::Drifted) -> Result<Verdict, WireError> {
    Ok(Verdict::Drifted(Drift {
        reason: bounded("reason", wire.reason, MAX_REASON)?,
        diff: wire.diff.map(|diff| bounded("diff", diff, MAX_DIFF)).transpose()?,
    }))
}

pub(super) fn undecided_from_proto(wire: proto::Undecided) -> Result<Verdict, WireError> {
    Ok(Verdict::Error { reason: bounded("reason", wire.reason, MAX_REASON)? })
}

fn record_to_proto(record: Record) -> proto::Record {
    let (task, step, index, service) = match record.subject {
        Subject::Step { task, step, index } => (task.into(), step, index.0, None),
        Subject::Service { service, part } => {
            (String::new(), part, 0, service.map(|service| service.into()))
        }
    };
    proto::Record {
        id: record.id.0,
        at_ms: record.at.0,
        instruction: record.instruction.map(instruction_to_proto),
        snapshot: hash_to_proto(record.snapshot),
        commit: commit_to_proto(&record.commit),
        task,
        step_kind: step.kind().to_owned(),
        step_name: step.name().to_owned(),
        index,
        service,
        trigger: Some(trigger_to_proto(record.trigger)),
        fact: Some(fact_to_proto(record.fact)),
    }
}

/// None for a fact that this version does not know.
fn record_from_proto(wire: proto::Record) -> Result<Option<Record>, WireError> {
    let Some(fact) = wire.fact else { return Ok(None) };
    let instruction = match wire.instruction {
        Some(id) => Some(instruction("instruction", Some(id))?),
        None => None,
    };
    let step = named("step_name", StepAddress::new(&wire.step_kind, &wire.step_name))?;
    let subject = match wire.task.as_str() {
        "" => {
            let service = wire.service.map(|name| named("service", ServiceName::new(name)));
            Subject::Service { service: service.transpose()?, part: step }
        }
        task => Subject::Step {
            task: named("task", TaskName::new(task))?,
            step,
            index: StepIndex(wire.index),
        },
    };
    Ok(Some(Record {
        id: RecordId(wire.id),
        at: Timestamp(wire.at_ms),
        instruction,
        snapshot: hash("snapshot", &wire.snapshot)?,
        commit: commit("commit", wire.commit)?,
        subject,
        trigger: trigger("trigger", wire.trigger)?,
        fact: fact_from_proto(fact)?,
    }))
}

fn fact_to_proto(fact: Fact) -> proto::record::Fact {
    use proto::record::Fact as Wire;
    match fact {
        Fact::Began { reason } => Wire::Began(proto::Began { reason: clip(reason, MAX_REASON) }),
        Fact::Ended { outcome, duration_ms, mut output } => {
            output.trim();
            Wire::Ended(proto::Ended {
                outcome: outcome_to_proto(outcome),
                duration_ms,
                output: output.tail,
                dropped: output.dropped,
            })
        }
        Fact::PassedOver { outcome, reason } => Wire::PassedOver(proto::PassedOver {
            outcome: outcome_to_proto(outcome),
            reason: clip(reason, MAX_REASON),
        }),
    }
}

fn fact_from_proto(wire: proto::record::Fact) -> Result<Fact, WireError> {
    use proto::record::Fact as Wire;
    Ok(match wire {
        Wire::Began(began) => {
            Fact::Began { reason: bounded("began.reason", began.reason, MAX_REASON)? }
        }
        Wire::Ended(ended) => Fact::Ended {
            outcome: outcome(ended.outcome()),
            duration_ms: ended.duration_ms,
            output: Output {
                tail: at_most("ended.output", ended.output, MAX_OUTPUT)?,
                dropped: ended.dropped,
            },
        },
        Wire::PassedOver(passed) => Fact::PassedOver {
            outcome: outcome(passed.outcome()),
            reason: bounded("passed_over.reason", passed.reason, MAX_REASON)?,
        },
    })
}
