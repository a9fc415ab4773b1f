//! One manifest: from its text to its tasks and services, with what else they were made from.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use fluke_model::service::Service;
use fluke_model::task::{Location, Task};

use super::MOST_DIAGNOSTICS;
use crate::hcl::ast::{Block, Body, Expr, Span};
use crate::hcl::budget::{Budget, Cost};
use crate::hcl::decode::{Evaluate, Fields};
use crate::hcl::problem::Problem;
use crate::hcl::scope::{Lookup, Scope, Variables};
use crate::hcl::source::Source;
use crate::hcl::{Parsed, eval, parse};
use crate::locals::{Changed, Definition, Locals};
use crate::schema::{ClaimedAt, ReadService, ReadTask, read_service, read_task};
use crate::tree::{EntryKind, Tree, TreeEntry, TreeError};

/// One manifest of the tree at hand.
pub(super) struct File<'t> {
    pub(super) entry: &'t TreeEntry,
    /// None as long as what is known is enough.
    pub(super) text: Option<Arc<[u8]>>,
    /// Only of a file that may define local values.
    pub(super) parsed: Option<Arc<Parsed>>,
    pub(super) known: Option<Known>,
    /// Whether that was read from the tree at hand.
    pub(super) is_fresh: bool,
    /// Of the file as a whole and of its local values.
    pub(super) problems: Vec<Problem>,
    /// Of its tasks; of a file that cannot define local values, all.
    pub(super) task_problems: Vec<Problem>,
    /// How many more of those there are.
    pub(super) untold: usize,
}

/// Tasks, each with where it is declared.
type Declared = Box<[(Arc<Task>, Span)]>;

/// A service, where it is declared, and where each of its ports claims something.
pub(super) struct DeclaredService {
    pub(super) service: Arc<Service>,
    pub(super) header: Span,
    pub(super) ports: Vec<ClaimedAt>,
}

/// What a file means, and what that depends on besides the file itself.
pub(super) struct Known {
    pub(super) tasks: Declared,
    pub(super) services: Box<[DeclaredService]>,
    /// What reading them took; charged again when they are reused, so that a commit is judged the
    /// same whether or not anything is known before.
    pub(super) cost: Cost,
    pub(super) uses: Uses,
    /// The tree of a file that defines local values: they are evaluated with every load.
    defining: Option<Arc<Parsed>>,
}

/// What came of reading a file.
pub(super) struct Reading {
    known: Known,
    /// The first ones.
    problems: Vec<Problem>,
    /// How many more there are.
    untold: usize,
}

impl<'t> File<'t> {
    pub(super) fn new(entry: &'t TreeEntry, known: Option<Known>) -> Self {
        let parsed = known.as_ref().and_then(|known| known.defining.clone());
        let (problems, task_problems) = (Vec::new(), Vec::new());
        Self {
            entry,
            text: None,
            parsed,
            known,
            is_fresh: false,
            problems,
            task_problems,
            untold: 0,
        }
    }

    pub(super) fn needs_text(&self) -> bool {
        self.known.is_none() && self.text.is_none()
    }

    /// Its text, which may have to be read only now; nothing if it cannot.
    pub(super) fn text_from(&self, tree: &dyn Tree) -> Arc<[u8]> {
        let read = || tree.read(&self.entry.path).unwrap_or_default();
        self.text.clone().unwrap_or_else(read)
    }

    /// Whether it has to be parsed to know the local values of all files.
    pub(super) fn may_define_locals(&self) -> bool {
        let may = |text: &[u8]| str::from_utf8(text).map_or(true, |text| text.contains("locals"));
        self.parsed.is_none() && self.text.as_deref().is_some_and(may)
    }

    /// The tree in which local values are defined.
    pub(super) fn defining(&self) -> Option<Arc<Parsed>> {
        self.parsed.clone().filter(|parsed| parsed.problems.is_empty())
    }

    /// Whether the text could be read as HCL, as far as that had to be tried.
    pub(super) fn is_sound(&self) -> bool {
        self.parsed.as_ref().is_none_or(|parsed| parsed.problems.is_empty())
    }

    /// Its tree, and what is wrong with it apart from its tasks.
    pub(super) fn parse(&self) -> (Parsed, Vec<Problem>) {
        let parsed = parse(self.text.as_deref().unwrap_or_default());
        let problems = match parsed.problems.is_empty() {
            true => misplaced(&parsed.body),
            false => parsed.problems.clone(),
        };
        (parsed, problems)
    }

    /// Gives up what is known of the file if it is outdated.
    pub(super) fn forget_if(&mut self, is_outdated: impl Fn(&Known) -> bool) -> Option<Known> {
        self.known.take_if(|known| is_outdated(known))
    }

    /// Reads the tasks of the file; if it could not be read as HCL, nothing more can be made of it.
    pub(super) fn read(&self, locals: &Locals, tree: &dyn Tree, budget: &Budget) -> Reading {
        let text = self.text.as_deref().unwrap_or_default();
        let before = budget.left();
        let watch = Watch { locals, used: RefCell::default() };
        let watched = WatchedTree { tree, used: Mutex::default() };
        let scope = Scope::new(&watch, budget).with_files(&watched);
        let evaluate = |expr: &Expr| eval(expr, &scope);
        let source = Source::new(&self.entry.path, text);
        let read = |parsed: &Parsed, mut problems: Vec<Problem>| {
            let tasks = tasks_of(parsed, &source, &evaluate, &mut problems);
            let services = services_of(parsed, &source, &evaluate, &mut problems);
            (tasks, services, problems)
        };
        let (tasks, services, mut problems) = match &self.parsed {
            Some(parsed) => read(parsed, Vec::new()),
            None => {
                let (parsed, problems) = self.parse();
                read(&parsed, problems)
            }
        };
        let uses = Uses { locals: watch.used.into_inner(), files: watched.into_used() };
        let cost = before - budget.left();
        let defining = self.defining().filter(|parsed| definitions(parsed, 0).next().is_some());
        let untold = keep_first(&mut problems);
        Reading { known: Known { tasks, services, cost, uses, defining }, problems, untold }
    }

    /// Reads it once more, against a budget that what is known of it does not fit in.
    pub(super) fn read_again(&mut self, locals: &Locals, tree: &dyn Tree, budget: &Budget) {
        self.text = Some(self.text_from(tree));
        self.take(self.read(locals, tree, budget));
    }

    pub(super) fn take(&mut self, reading: Reading) {
        self.is_fresh = true;
        self.task_problems = reading.problems;
        self.untold = reading.untold;
        self.known = Some(reading.known);
    }

    /// What can be reused as long as the file and what it uses stay the same.
    pub(super) fn into_known(self) -> Option<Known> {
        let is_faultless = self.problems.is_empty() && self.task_problems.is_empty();
        self.known.filter(|known| is_faultless && !known.uses.files.all)
    }
}

/// Keeps as many problems as are ever shown, and says how many others there are: what a file is
/// read into waits for all the others.
fn keep_first(problems: &mut Vec<Problem>) -> usize {
    let untold = problems.len().saturating_sub(MOST_DIAGNOSTICS);
    if untold > 0 {
        problems.sort_by_key(|problem| problem.span.start);
        problems.truncate(MOST_DIAGNOSTICS);
        problems.shrink_to_fit();
    }
    untold
}

/// What is neither `locals` nor `task` nor `service`, and what does not belong in `locals`.
fn misplaced(body: &Body) -> Vec<Problem> {
    let mut problems = Vec::new();
    let evaluate = |_: &Expr| Err(Vec::new());
    let mut fields = Fields::of_file(body, &evaluate, &mut problems);
    for block in fields.blocks("locals", &[]) {
        for inner in &block.body.blocks {
            let message =
                format!("`locals` takes values, not blocks such as `{}`", inner.kind.text);
            fields.report(inner.header(), message, "write it as `name = value`");
        }
    }
    fields.blocks("task", &["name"]);
    fields.blocks("service", &["name"]);
    fields.finish();
    problems
}

/// The local values that the `file`th file defines.
pub(super) fn definitions(parsed: &Parsed, file: usize) -> impl Iterator<Item = Definition<'_>> {
    let is_locals = |block: &&Block| &*block.kind.text == "locals" && block.labels.is_empty();
    let blocks = parsed.body.blocks.iter().filter(is_locals);
    blocks.flat_map(|block| &block.body.attributes).map(move |attribute| Definition {
        name: &attribute.name.text,
        span: attribute.name.span,
        value: &attribute.value,
        file,
    })
}

/// The blocks of a kind that have a name, of a sound file.
fn named_blocks<'p>(parsed: &'p Parsed, kind: &'static str) -> impl Iterator<Item = &'p Block> {
    let blocks = parsed.problems.is_empty().then_some(&parsed.body.blocks);
    let blocks = blocks.into_iter().flatten();
    blocks.filter(move |block| &*block.kind.text == kind && block.labels.len() == 1)
}

fn tasks_of(
    parsed: &Parsed,
    source: &Source<'_>,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Declared {
    let mut tasks = Vec::new();
    for block in named_blocks(parsed, "task") {
        let fields = Fields::of_block(block, evaluate, problems);
        if let Ok(read) = read_task(block, fields) {
            tasks.push((Arc::new(place(read, location(source, block))), block.header()));
        }
    }
    tasks.into()
}

fn services_of(
    parsed: &Parsed,
    source: &Source<'_>,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Box<[DeclaredService]> {
    let mut services = Vec::new();
    for block in named_blocks(parsed, "service") {
        let fields = Fields::of_block(block, evaluate, problems);
        if let Ok(read) = read_service(block, fields) {
            let (service, ports) = place_service(read, location(source, block));
            let service = Arc::new(service);
            services.push(DeclaredService { service, header: block.header(), ports });
        }
    }
    services.into()
}

fn location(source: &Source<'_>, block: &Block) -> Location {
    let line = source.position(block.kind.span.start).0;
    Location { file: source.file().to_string(), line }
}

fn place_service(read: ReadService, defined: Location) -> (Service, Vec<ClaimedAt>) {
    let (ports, claimed_at) = read.ports.into_iter().unzip();
    let service = Service {
        name: read.name,
        description: read.description,
        policy: read.policy,
        selector: read.selector,
        replicas: read.replicas,
        reschedule_after: read.reschedule_after,
        container: read.container,
        ports,
        defined,
    };
    (service, claimed_at)
}

fn place(read: ReadTask, defined: Location) -> Task {
    let ReadTask { name, description, policy, selector, steps } = read;
    Task { name, description, policy, selector, steps: steps.into(), defined }
}

/// What tasks were made from besides their own file.
#[derive(Default)]
pub(super) struct Uses {
    locals: UsedLocals,
    files: UsedFiles,
}

#[derive(Default)]
struct UsedLocals {
    names: Vec<Arc<str>>,
    /// The value of `local` as a whole.
    all: bool,
}

#[derive(Default)]
struct UsedFiles {
    /// Paths and ids of regular files.
    files: Vec<(Arc<str>, Arc<str>)>,
    /// The list of files, or something that is not there.
    all: bool,
}

impl Uses {
    /// Whether all of it is still the same.
    pub(super) fn are_same(&self, changed: &Changed, tree: &dyn Tree) -> bool {
        let is_same = |(path, id): &(Arc<str>, Arc<str>)| {
            tree.entry(path).is_some_and(|entry| entry.id == *id && entry.kind == EntryKind::File)
        };
        let changed_locals = match self.locals.all {
            true => !changed.is_empty(),
            false => self.locals.names.iter().any(|name| changed.concerns(name)),
        };
        !changed_locals && !self.files.all && self.files.files.iter().all(is_same)
    }
}

/// Local values, watched for which of them are used.
struct Watch<'a> {
    locals: &'a Locals,
    used: RefCell<UsedLocals>,
}

impl Variables for Watch<'_> {
    fn root(&self, name: &str) -> Lookup {
        self.used.borrow_mut().all = true;
        self.locals.root(name)
    }

    fn attribute(&self, root: &str, name: &str) -> Option<Lookup> {
        let found = self.locals.attribute(root, name)?;
        let names = &mut self.used.borrow_mut().names;
        if !names.iter().any(|used| **used == *name) {
            names.push(self.locals.name(name));
        }
        Some(found)
    }
}

/// A tree, watched for which of its files are used.
struct WatchedTree<'a> {
    tree: &'a dyn Tree,
    used: Mutex<UsedFiles>,
}

impl WatchedTree<'_> {
    fn note(&self, note: impl FnOnce(&mut UsedFiles)) {
        note(&mut self.used.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn into_used(self) -> UsedFiles {
        self.used.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree for WatchedTree<'_> {
    fn entries(&self) -> &[TreeEntry] {
        self.note(|used| used.all = true);
        self.tree.entries()
    }

    fn entry(&self, path: &str) -> Option<&TreeEntry> {
        let entry = self.tree.entry(path);
        self.note(|used| match entry {
            Some(entry) if entry.kind == EntryKind::File => {
                used.files.push((entry.path.clone(), entry.id.clone()));
            }
            _ => used.all = true,
        });
        entry
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, TreeError> {
        self.tree.read(path)
    }
}
