//! Local values: one scope over all files, each usable by every other, in any order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::hcl::ast::{Expr, Span};
use crate::hcl::budget::Budget;
use crate::hcl::eval::{eval, references};
use crate::hcl::problem::Problem;
use crate::hcl::scope::{Lookup, Scope, Variables};
use crate::hcl::value::Value;
use crate::tree::Tree;

/// The name under which all local values are seen.
const ROOT: &str = "local";

/// One local value as written.
pub struct Definition<'a> {
    /// Left of the sign.
    pub name: &'a str,
    /// Where the name stands.
    pub span: Span,
    /// Right of the sign.
    pub value: &'a Expr,
    /// Which file it is in.
    pub file: usize,
}

/// Every local value that could be evaluated, and the names of those that could not.
#[derive(Debug, Default, PartialEq)]
pub struct Locals {
    values: HashMap<Arc<str>, Option<Value>>,
    whole: Option<Value>,
    /// Whether these are all there are; some may stand in files that could not be read.
    complete: bool,
}

impl Locals {
    /// Evaluates all definitions, each after those that it uses. Problems are given to `report`
    /// with the file that they are in. Unless the definitions are `complete`, one that is missing
    /// is no problem of whoever uses it.
    pub fn evaluate(
        definitions: &[Definition<'_>],
        complete: bool,
        tree: &dyn Tree,
        budget: &Budget,
        mut report: impl FnMut(usize, Problem),
    ) -> Self {
        let graph = Graph::new(definitions, &mut report);
        let mut locals = Self { complete, ..Self::default() };
        for step in graph.order() {
            match step {
                Visit::Ready(at) => locals.add(&definitions[at], tree, budget, &mut report),
                Visit::Cycle(cycle) => {
                    let first = &definitions[cycle[0]];
                    report(first.file, cycle_problem(&cycle, definitions));
                    cycle.iter().for_each(|at| locals.fail(definitions[*at].name));
                }
            }
        }
        locals.whole = locals.all();
        locals
    }

    /// Which of these are others than they were `before`, or are there no more.
    pub fn changed_since(&self, before: &Self) -> Changed {
        let differs = |name: &&Arc<str>| self.values.get(*name) != before.values.get(*name);
        let names = self.values.keys().chain(before.values.keys()).filter(differs);
        Changed { names: names.cloned().collect(), all: self.complete != before.complete }
    }

    /// A name, the same text as is kept here if there is such a local value.
    pub fn name(&self, name: &str) -> Arc<str> {
        self.values.get_key_value(name).map_or_else(|| name.into(), |(known, _)| known.clone())
    }

    fn add(
        &mut self,
        definition: &Definition<'_>,
        tree: &dyn Tree,
        budget: &Budget,
        report: &mut impl FnMut(usize, Problem),
    ) {
        if self.values.contains_key(definition.name) {
            return;
        }
        let scope = Scope::new(self, budget).with_files(tree);
        let value = match eval(definition.value, &scope) {
            Ok(value) => Some(value),
            Err(problems) => {
                problems.into_iter().for_each(|problem| report(definition.file, problem));
                None
            }
        };
        self.values.insert(definition.name.into(), value);
    }

    fn fail(&mut self, name: &str) {
        self.values.insert(name.into(), None);
    }

    fn all(&self) -> Option<Value> {
        let mut entries = BTreeMap::new();
        for (name, value) in &self.values {
            entries.insert(name.clone(), value.clone()?);
        }
        Some(Value::object(entries))
    }
}

/// Local values that changed from one tree to another.
pub struct Changed {
    names: HashSet<Arc<str>>,
    all: bool,
}

impl Changed {
    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.all
    }

    /// Whether this one did.
    pub fn concerns(&self, name: &str) -> bool {
        self.all || !self.names.is_empty() && self.names.contains(name)
    }
}

impl Variables for Locals {
    fn root(&self, name: &str) -> Lookup {
        match name {
            ROOT => self.whole.clone().or_else(|| self.all()).map_or(Lookup::Failed, Lookup::Found),
            _ => Lookup::Missing(vec![ROOT.into()]),
        }
    }

    fn attribute(&self, root: &str, name: &str) -> Option<Lookup> {
        (root == ROOT).then(|| match self.values.get(name) {
            Some(Some(value)) => Lookup::Found(value.clone()),
            Some(None) => Lookup::Failed,
            None if !self.complete => Lookup::Failed,
            None => Lookup::Missing(self.values.keys().cloned().collect()),
        })
    }
}

fn cycle_problem(cycle: &[usize], definitions: &[Definition<'_>]) -> Problem {
    let mut names: Vec<String> =
        cycle.iter().map(|at| format!("local.{}", definitions[*at].name)).collect();
    names.push(names[0].clone());
    Problem::new(definitions[cycle[0]].span, format!("cycle: {}", names.join(" → ")))
        .help("a local value cannot be made from itself; take one of these references out")
}

/// Who uses whom.
struct Graph {
    uses: Vec<Vec<usize>>,
}

/// One step of an order in which everything comes after what it uses.
enum Visit {
    Ready(usize),
    Cycle(Vec<usize>),
}

impl Graph {
    fn new(definitions: &[Definition<'_>], report: &mut impl FnMut(usize, Problem)) -> Self {
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        for (at, definition) in definitions.iter().enumerate() {
            match by_name.get(definition.name) {
                Some(_) => report(
                    definition.file,
                    Problem::new(
                        definition.span,
                        format!("local value `{}` is defined twice", definition.name),
                    )
                    .help("all files share one scope: give one of the two another name"),
                ),
                None => {
                    by_name.insert(definition.name, at);
                }
            }
        }
        let uses = definitions.iter().map(|definition| {
            let mut uses = Vec::new();
            for reference in references(definition.value) {
                match (&*reference.root, &reference.attribute) {
                    (ROOT, Some(name)) => uses.extend(by_name.get(&**name)),
                    (ROOT, None) => uses.extend(by_name.values()),
                    _ => {}
                }
            }
            uses.sort_unstable();
            uses.dedup();
            uses
        });
        Self { uses: uses.collect() }
    }

    /// Depth-first without recursion: chains of locals may be long.
    fn order(&self) -> Vec<Visit> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.uses.len()];
        let mut order = Vec::with_capacity(self.uses.len());
        for start in 0..self.uses.len() {
            if marks[start] != Mark::New {
                continue;
            }
            let mut path = vec![(start, 0)];
            marks[start] = Mark::Open;
            while let Some((at, next)) = path.last_mut() {
                let Some(used) = self.uses[*at].get(*next).copied() else {
                    marks[*at] = Mark::Done;
                    order.push(Visit::Ready(*at));
                    path.pop();
                    continue;
                };
                *next += 1;
                match marks[used] {
                    Mark::New => {
                        marks[used] = Mark::Open;
                        path.push((used, 0));
                    }
                    Mark::Open => {
                        let from = path.iter().position(|(at, _)| *at == used).unwrap_or(0);
                        order.push(Visit::Cycle(path[from..].iter().map(|(at, _)| *at).collect()));
                    }
                    Mark::Done => {}
                }
            }
        }
        order
    }
}
