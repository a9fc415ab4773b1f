//! Config files: HCL with environment references, read into types, with every problem told.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use fluke_manifest::hcl::ast::{Block, Body, Span};
use fluke_manifest::hcl::budget::Budget;
use fluke_manifest::hcl::decode::{Evaluate, Fields};
use fluke_manifest::hcl::eval::eval;
use fluke_manifest::hcl::parse;
use fluke_manifest::hcl::problem::Problem;
use fluke_manifest::hcl::scope::Scope;
use fluke_manifest::hcl::source::Source;
use fluke_model::diagnostic::{Diagnostic, Severity};

pub mod agent;
pub mod expand;
mod fields;
pub mod listen;
pub mod server;
pub mod variables;

use agent::AgentFile;
use expand::{Environment, expand};
use server::ServerConfig;

use crate::failure::Failure;

/// The variables of this process.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether the text is meant to be a config, and not a manifest.
pub fn is_config(text: &[u8]) -> bool {
    parse(text).body.blocks.iter().any(|block| matches!(&*block.kind.text, "server" | "agent"))
}

/// Reads the `server` block of a config file.
pub fn read_server(
    file: &str,
    text: &[u8],
    environment: Environment<'_>,
) -> Result<ServerConfig, Vec<Diagnostic>> {
    let read = |read: &mut Fields<'_, '_>, evaluate: Evaluate<'_>| {
        let block = own_block(read, "server", "agent");
        block.and_then(|block| server::read(block, evaluate, environment, read.problems()))
    };
    read_file(file, text, environment, read).and_then(|config| config.ok_or_else(Vec::new))
}

/// Reads the `agent` block of a config file.
pub fn read_agent(
    file: &str,
    text: &[u8],
    environment: Environment<'_>,
) -> Result<AgentFile, Vec<Diagnostic>> {
    let read = |read: &mut Fields<'_, '_>, evaluate: Evaluate<'_>| {
        let block = own_block(read, "agent", "server");
        block.map(|block| agent::read(block, evaluate, read.problems()))
    };
    let config = read_file(file, text, environment, read)?;
    let mut config = config.ok_or_else(Vec::new)?;
    let place = |at| format!("{file}:{}", Source::new(file, text).position(at).0);
    config.allow.stated = config.allow.at.map(place);
    Ok(config)
}

/// The block that is needed; both may stand in one file, but the other one alone is a mix-up.
fn own_block<'b>(
    read: &mut Fields<'b, '_>,
    own: &'static str,
    other: &'static str,
) -> Option<&'b Block> {
    let others = read.blocks(other, &[]);
    let Some(mixed_up) = others.first() else { return read.required_block(own).ok() };
    let block = read.block(own);
    if block.is_none() {
        let message = format!("this is the config of `fluke {other}`: it has no `{own}` block");
        read.report(mixed_up.header(), message, format!("start it with `fluke {other}`"));
    }
    block
}

/// Everything that is wrong with a config file, whatever it is for.
pub fn check(file: &str, text: &[u8], environment: Environment<'_>) -> Vec<Diagnostic> {
    let read = |read: &mut Fields<'_, '_>, evaluate: Evaluate<'_>| {
        if let Some(block) = read.block("server") {
            server::read(block, evaluate, environment, read.problems());
        }
        let block = read.block("agent")?;
        Some((block.header(), agent::read(block, evaluate, read.problems())))
    };
    match read_file(file, text, environment, read) {
        Err(diagnostics) => diagnostics,
        Ok(None) => Vec::new(),
        Ok(Some((header, agent))) => left_to_flags(header, agent)
            .map(|problem| Source::new(file, text).diagnostic(Severity::Warning, problem))
            .into_iter()
            .collect(),
    }
}

/// What is not in the file may be in flags; but that should be known.
fn left_to_flags(header: Span, agent: AgentFile) -> Option<Problem> {
    let problem = agent.complete("any-host").err()?;
    Some(Problem::new(header, problem.to_string()).help(problem.help()))
}

/// Parses, replaces references, and reads; a result only where nothing is wrong.
fn read_file<T>(
    file: &str,
    text: &[u8],
    environment: Environment<'_>,
    read: impl FnOnce(&mut Fields<'_, '_>, Evaluate<'_>) -> T,
) -> Result<T, Vec<Diagnostic>> {
    let source = Source::new(file, text);
    let mut parsed = parse(text);
    if !parsed.problems.is_empty() {
        return Err(source.errors(parsed.problems));
    }
    let unset = expand(&mut parsed.body, environment);
    let (value, found) = read_body(&parsed.body, read);
    let problems = merge(unset, found);
    if problems.is_empty() { Ok(value) } else { Err(source.errors(problems)) }
}

fn read_body<T>(
    body: &Body,
    read: impl FnOnce(&mut Fields<'_, '_>, Evaluate<'_>) -> T,
) -> (T, Vec<Problem>) {
    let budget = Budget::default();
    let evaluate = |expr: &_| eval(expr, &Scope::new(&(), &budget));
    let mut problems = Vec::new();
    let mut fields = Fields::of_file(body, &evaluate, &mut problems);
    let value = read(&mut fields, &evaluate);
    fields.finish();
    (value, problems)
}

/// All problems in the order of the text; but not what only follows from an unset variable.
fn merge(unset: Vec<Problem>, found: Vec<Problem>) -> Vec<Problem> {
    let follows = |problem: &Problem| {
        unset.iter().any(|unset| {
            problem.span.start <= unset.span.start && unset.span.end <= problem.span.end
        })
    };
    let mut all: Vec<Problem> = found.into_iter().filter(|problem| !follows(problem)).collect();
    all.extend(unset);
    all.sort_by_key(|problem| problem.span);
    all
}

/// The largest config that is read.
const MOST: u64 = 1024 * 1024;

/// The text of a config file.
pub fn load(path: &Path) -> Result<Vec<u8>, Failure> {
    read_bounded(path).map_err(|error| {
        Failure::new(format!("could not read the config {}", path.display())).because(&error)
    })
}

/// The content of a file, which may be a pipe, but not a bottomless one.
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut text)?;
    match text.len() as u64 > MOST {
        true => Err(io::Error::other("it has over 1 MiB")),
        false => Ok(text),
    }
}
