//! The files of the commit at hand; nothing else can be reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::GlobBuilder;

use super::{Failure, Function, Parameter, Wanted, text};
use crate::hcl::ast::{Part, Span};
use crate::hcl::budget::Exceeded;
use crate::hcl::eval::eval_template;
use crate::hcl::parse_template;
use crate::hcl::problem::Problem;
use crate::hcl::scope::Scope;
use crate::hcl::types::Type;
use crate::hcl::value::Value;
use crate::tree::{EntryKind, Tree};

type Outcome<T = Value> = Result<T, Failure>;

const PATH: Parameter = Parameter::new("path", Wanted::String);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("file", &[PATH], file),
    Function::new("fileset", &[PATH, Parameter::new("pattern", Wanted::String)], fileset),
    Function::new("templatefile", &[PATH, Parameter::new("vars", Wanted::Any)], templatefile),
];

/// Templates may use templates, but not without end.
const MAX_TEMPLATES: u32 = 8;

fn files<'s>(scope: &Scope<'s>) -> Outcome<&'s dyn Tree> {
    scope.tree.ok_or_else(|| Failure::new("files cannot be read here"))
}

/// The path within the repository, without `./`; refuses all that could lead out of it.
fn within(path: &str) -> Outcome<String> {
    let refuse = |why: &str| {
        let message = format!("`{path}` {why}");
        Err(Failure::of(0, message).help("paths are relative to the root of the repository"))
    };
    if path.starts_with('/') || path.starts_with('~') || path.contains('\\') {
        return refuse("is not a relative path");
    }
    if path.contains('\0') {
        return refuse("has a zero byte in it");
    }
    let steps: Vec<&str> = path.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
    if steps.contains(&"..") {
        return refuse("has `..` in it");
    }
    Ok(steps.join("/"))
}

fn read(args: &[Value], scope: &Scope) -> Outcome<(String, String)> {
    let tree = files(scope)?;
    let path = within(text(args, 0))?;
    let Some(entry) = tree.entry(&path) else {
        return Err(missing(&path, tree));
    };
    match entry.kind {
        EntryKind::File => {}
        EntryKind::Symlink => {
            return Err(Failure::of(
                0,
                format!("`{path}` is a symbolic link; they are not followed"),
            )
            .help("name the file that it points to"));
        }
        EntryKind::Submodule => {
            return Err(Failure::of(0, format!("`{path}` is a submodule; they are not read")));
        }
    }
    let content = tree.read(&entry.path).map_err(|error| Failure::of(0, error.to_string()))?;
    scope.budget.work(1 + content.len() as u64 / 64)?;
    match std::str::from_utf8(&content) {
        Ok(content) => Ok((path, content.to_string())),
        Err(error) => {
            let at = error.valid_up_to();
            Err(Failure::of(0, format!("`{path}` is not text in UTF-8 (byte {at})")))
        }
    }
}

fn missing(path: &str, tree: &dyn Tree) -> Failure {
    let folder = format!("{path}/");
    let entries = tree.entries();
    let behind = entries.partition_point(|entry| *entry.path < *folder);
    if entries.get(behind).is_some_and(|entry| entry.path.starts_with(&folder)) {
        return Failure::of(0, format!("`{path}` is a folder, not a file"));
    }
    let through = entries.iter().find(|entry| {
        entry.kind != EntryKind::File
            && path.strip_prefix(&*entry.path).is_some_and(|rest| rest.starts_with('/'))
    });
    if let Some(link) = through {
        let link = &link.path;
        return Failure::of(
            0,
            format!(
                "`{path}` leads through `{link}`, which is a link or submodule; they are not \
                     followed"
            ),
        );
    }
    let failure = Failure::of(0, format!("there is no file `{path}` in the repository"));
    let names = entries.iter().take(10_000).map(|entry| &*entry.path);
    match crate::hcl::suggest::did_you_mean(path, names) {
        Some(help) => failure.help(help),
        None => failure.help("paths are relative to the root of the repository"),
    }
}

fn file(args: &[Value], scope: &Scope) -> Outcome {
    read(args, scope).map(|(_, content)| Value::string(content))
}

fn fileset(args: &[Value], scope: &Scope) -> Outcome {
    let tree = files(scope)?;
    let folder = within(text(args, 0))?;
    let pattern = text(args, 1);
    if pattern.starts_with('/') || pattern.split('/').any(|step| step == "..") {
        return Err(Failure::of(1, format!("`{pattern}` leads out of the folder")));
    }
    let pattern = pattern.trim_start_matches("./");
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    let glob = glob
        .map_err(|error| Failure::of(1, format!("it is no pattern: {}", error.kind())))?
        .compile_matcher();
    let prefix = if folder.is_empty() { folder } else { folder + "/" };
    let entries = tree.entries();
    scope.budget.work(entries.len() as u64 / 4)?;
    let inside = entries.iter().filter(|entry| entry.kind == EntryKind::File);
    let found = inside
        .filter_map(|entry| entry.path.strip_prefix(&*prefix))
        .filter(|path| glob.is_match(path))
        .map(Value::string);
    Ok(Value::set(Type::String, found.collect()))
}

fn templatefile(args: &[Value], scope: &Scope) -> Outcome {
    let variables = variables(&args[1])?;
    if scope.templates >= MAX_TEMPLATES {
        return Err(Failure::new(format!(
            "templates are nested more than {MAX_TEMPLATES} levels deep"
        )));
    }
    let (path, content) = read(args, scope)?;
    let parts: Vec<Part> = parse_template(content.as_bytes())
        .map_err(|problems| inside(&path, &content, &problems))?;
    let inner = Scope {
        variables: &variables,
        budget: scope.budget,
        tree: scope.tree,
        frame: None,
        templates: scope.templates + 1,
    };
    let level = scope.budget.enter().map_err(|limit: Exceeded| Failure::from(limit))?;
    let span = Span { start: 0, end: u32::try_from(content.len()).unwrap_or(u32::MAX) };
    let result = eval_template(&parts, span, &inner);
    drop(level);
    let value = result.map_err(|problems| inside(&path, &content, &problems))?;
    match value {
        Value::Null(_) => Err(Failure::new(format!("the result of `{path}` is null"))),
        value => Ok(value),
    }
}

fn variables(vars: &Value) -> Outcome<BTreeMap<Arc<str>, Value>> {
    let Some(entries) = vars.as_entries() else {
        let name = vars.type_name();
        return Err(Failure::of(1, format!("a map or object is required, but have {name}")));
    };
    match entries.keys().find(|name| !is_name(name)) {
        Some(name) => Err(Failure::of(1, format!("\"{name}\" cannot be the name of a variable"))),
        None => Ok(entries.clone()),
    }
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(char::is_alphabetic)
        && letters.all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
}

/// The problems of a template, with their place in it, as one failure of the call.
fn inside(path: &str, content: &str, problems: &[Problem]) -> Failure {
    let mut lines = problems.iter().map(|problem| {
        let at = usize::try_from(problem.span.start).unwrap_or(usize::MAX);
        let before = content.as_bytes().get(..at.min(content.len())).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{path}:{line}: {}", problem.message)
    });
    let first = lines.next().unwrap_or_else(|| format!("{path}: it cannot be evaluated"));
    let message = lines.take(9).fold(first, |all, line| all + "; " + &line);
    let failure = Failure::new(message);
    match problems.first().and_then(|problem| problem.help.clone()) {
        Some(help) => failure.help(help),
        None => failure,
    }
}
