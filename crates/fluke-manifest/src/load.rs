//! From the files of a commit to its model, or to everything that is wrong with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use fluke_model::diagnostic::{Diagnostic, Severity};
use fluke_model::id::TaskName;
use fluke_model::snapshot::Model;
use fluke_model::task::{Location, Task};
use globset::{GlobBuilder, GlobMatcher};

use crate::hcl::ast::{Block, Expr, Span};
use crate::hcl::budget::{Budget, Cost};
use crate::hcl::decode::{Evaluate, Fields};
use crate::hcl::problem::Problem;
use crate::hcl::scope::Scope;
use crate::hcl::source::Source;
use crate::hcl::{Parsed, eval, parse, parse_expression};
use crate::locals::{Definition, Locals};
use crate::schema::{ReadTask, read_task};
use crate::tree::{EntryKind, Tree, TreeEntry};

/// The pattern of manifests where none is given.
pub const DEFAULT_GLOB: &str = "**/*.fluke.hcl";

/// More diagnostics than this are counted, not listed.
const MOST_DIAGNOSTICS: usize = 200;

/// A pattern that is none.
pub type GlobError = globset::Error;

/// Reads trees, and remembers what it parsed as long as the files stay the same.
pub struct Loader {
    manifests: GlobMatcher,
    parsed: HashMap<Arc<str>, Arc<ParsedFile>>,
    /// What the last load read from each file, and the locals that it read it with.
    read: HashMap<Arc<str>, ReadFile>,
    locals: Locals,
}

/// The tasks of a file that has nothing wrong with it.
#[derive(Clone)]
struct ReadFile {
    /// Of the file's content.
    id: Arc<str>,
    /// With where each is declared.
    tasks: Vec<(Arc<Task>, Span)>,
    /// What reading it took; charged again when it is reused, so that a commit is judged the
    /// same whether or not anything is known before.
    cost: Cost,
}

/// What came of a tree.
#[derive(Debug)]
pub struct Loaded {
    /// None if any diagnostic is an error.
    pub model: Option<Model>,
    /// Every problem, by file and place.
    pub diagnostics: Vec<Diagnostic>,
    /// How many manifests there are.
    pub files: usize,
}

#[derive(Debug)]
struct ParsedFile {
    text: Arc<[u8]>,
    parsed: Parsed,
}

/// One manifest of the tree at hand.
struct File {
    path: Arc<str>,
    id: Arc<str>,
    content: Arc<ParsedFile>,
    problems: Vec<Problem>,
}

impl Loader {
    /// Takes files that match `glob` for manifests; `*` stays within a folder, `**` does not.
    pub fn new(glob: &str) -> Result<Self, GlobError> {
        let manifests = GlobBuilder::new(glob).literal_separator(true).build()?.compile_matcher();
        let (parsed, read) = (HashMap::new(), HashMap::new());
        Ok(Self { manifests, parsed, read, locals: Locals::default() })
    }

    /// Which paths are manifests, for whoever reads ahead.
    pub fn manifests(&self) -> &GlobMatcher {
        &self.manifests
    }

    /// Reads all manifests of `tree` into one model. Order of files never matters.
    pub fn load(&mut self, tree: &dyn Tree) -> Loaded {
        let (mut files, mut diagnostics) = self.open(tree);
        let budget = Budget::default();
        let locals = read_locals(&mut files, tree, &budget);
        if locals != self.locals {
            self.read.clear();
        }
        let read = read_files(&mut files, &self.read, &locals, tree, &budget);
        let tasks = collect(&mut files, &read);
        self.keep(&files, read);
        self.locals = locals;
        let count = files.len();
        diagnostics.extend(files.into_iter().flat_map(diagnose));
        diagnostics.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        limit(&mut diagnostics);
        let model = (!Diagnostic::any_error(&diagnostics))
            .then_some(Model { tasks, services: BTreeMap::new() });
        Loaded { model, diagnostics, files: count }
    }

    /// The value of an expression among the locals of `tree`, as JSON.
    pub fn evaluate(
        &mut self,
        tree: &dyn Tree,
        expression: &str,
    ) -> Result<String, Vec<Diagnostic>> {
        let (mut files, mut diagnostics) = self.open(tree);
        let budget = Budget::default();
        let locals = read_locals(&mut files, tree, &budget);
        let outcome = parse_expression(expression.as_bytes())
            .and_then(|expr| eval(&expr, &Scope::new(&locals, &budget).with_files(tree)));
        // What is wrong elsewhere matters only where the expression needs it.
        outcome.map(|value| value.to_json_string()).map_err(|problems| {
            if !problems.is_empty() {
                return Source::new("expression", expression.as_bytes()).errors(problems);
            }
            diagnostics.extend(files.into_iter().flat_map(diagnose));
            diagnostics
        })
    }

    /// Remembers what was read from files that have nothing wrong with them and read no others.
    fn keep(&mut self, files: &[File], read: Vec<ReadFile>) {
        let sound = files
            .iter()
            .zip(read)
            .filter(|(file, _)| file.problems.is_empty() && !may_read_files(&file.content.text));
        self.read = sound.map(|(file, read)| (file.path.clone(), read)).collect();
    }

    /// Opens every manifest; what cannot be opened is a diagnostic.
    fn open(&mut self, tree: &dyn Tree) -> (Vec<File>, Vec<Diagnostic>) {
        let is_manifest = |entry: &&TreeEntry| self.manifests.is_match(&*entry.path);
        let entries: Vec<_> = tree.entries().iter().filter(is_manifest).collect();
        let opened = in_parallel(&entries, |entry| self.parse(tree, entry));
        let mut kept = HashMap::with_capacity(entries.len());
        let mut files = Vec::with_capacity(entries.len());
        let mut diagnostics = Vec::new();
        for (entry, opened) in entries.into_iter().zip(opened) {
            match opened {
                Ok(content) => {
                    kept.insert(entry.id.clone(), content.clone());
                    let problems = content.parsed.problems.clone();
                    let (path, id) = (entry.path.clone(), entry.id.clone());
                    files.push(File { path, id, content, problems });
                }
                Err(why) => diagnostics.push(unplaced(&entry.path, why)),
            }
        }
        self.parsed = kept;
        (files, diagnostics)
    }

    fn parse(&self, tree: &dyn Tree, entry: &TreeEntry) -> Result<Arc<ParsedFile>, String> {
        let refused = |what: &str| Err(format!("this manifest is {what}; commit the file itself"));
        match entry.kind {
            EntryKind::File => {}
            EntryKind::Symlink => return refused("a symbolic link, which is never followed"),
            EntryKind::Submodule => return refused("a submodule, which is never entered"),
        }
        if let Some(known) = self.parsed.get(&entry.id) {
            return Ok(known.clone());
        }
        let text = tree.read(&entry.path).map_err(|error| error.to_string())?;
        let parsed = parse(&text);
        Ok(Arc::new(ParsedFile { text, parsed }))
    }
}

impl File {
    /// Whether the text could be read as HCL; if not, nothing more can be made of it.
    fn is_sound(&self) -> bool {
        self.content.parsed.problems.is_empty()
    }
}

/// Does the same with each of many, on all cores, and keeps the order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    /// Fewer than this a thread are not worth one.
    const WORTH_A_THREAD: usize = 64;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let each = items.len().div_ceil(cores).max(WORTH_A_THREAD);
    if items.len() <= each {
        return items.iter().map(work).collect();
    }
    std::thread::scope(|scope| {
        let (work, mut threads) = (&work, Vec::new());
        for part in items.chunks(each) {
            threads.push(scope.spawn(move || part.iter().map(work).collect::<Vec<_>>()));
        }
        let joined = |thread: ScopedJoinHandle<'_, Vec<R>>| match thread.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().flat_map(joined).collect()
    })
}

/// Reads all `locals` blocks, and reports what is neither `locals` nor `task`.
fn read_locals(files: &mut [File], tree: &dyn Tree, budget: &Budget) -> Locals {
    let contents: Vec<_> = files.iter().map(|file| file.content.clone()).collect();
    let evaluate = |expr: &Expr| eval(expr, &Scope::new(&(), budget));
    let mut definitions = Vec::new();
    for (number, (file, content)) in files.iter_mut().zip(&contents).enumerate() {
        if !file.is_sound() {
            continue;
        }
        let mut fields = Fields::of_file(&content.parsed.body, &evaluate, &mut file.problems);
        for block in fields.blocks("locals", &[]) {
            for inner in &block.body.blocks {
                let message =
                    format!("`locals` takes values, not blocks such as `{}`", inner.kind.text);
                fields.report(inner.header(), message, "write it as `name = value`");
            }
            definitions.extend(block.body.attributes.iter().map(|attribute| Definition {
                name: &attribute.name.text,
                span: attribute.name.span,
                value: &attribute.value,
                file: number,
            }));
        }
        fields.blocks("task", &["name"]);
        fields.finish();
    }
    let complete = files.iter().all(File::is_sound);
    Locals::evaluate(&definitions, complete, tree, budget, |file, problem| {
        files[file].problems.push(problem);
    })
}

/// Reads the tasks of every sound file, in the order of the files, those that are known without
/// reading them again.
fn read_files(
    files: &mut [File],
    known: &HashMap<Arc<str>, ReadFile>,
    locals: &Locals,
    tree: &dyn Tree,
    budget: &Budget,
) -> Vec<ReadFile> {
    let scope = Scope::new(locals, budget).with_files(tree);
    let evaluate = |expr: &Expr| eval(expr, &scope);
    let read = |file: &mut File| {
        let known = known.get(&file.path).filter(|known| known.id == file.id);
        if let Some(known) = known.filter(|known| budget.charge(known.cost).is_ok()) {
            return known.clone();
        }
        let before = budget.left();
        let tasks = if file.is_sound() { read_tasks(file, &evaluate) } else { Vec::new() };
        ReadFile { id: file.id.clone(), tasks, cost: before - budget.left() }
    };
    files.iter_mut().map(read).collect()
}

fn read_tasks(file: &mut File, evaluate: Evaluate<'_>) -> Vec<(Arc<Task>, Span)> {
    let content = file.content.clone();
    let source = Source::new(&file.path, &content.text);
    let is_task = |block: &&Block| &*block.kind.text == "task" && block.labels.len() == 1;
    let mut tasks = Vec::new();
    for block in content.parsed.body.blocks.iter().filter(is_task) {
        let fields = Fields::of_block(block, evaluate, &mut file.problems);
        if let Some(read) = read_task(block, fields) {
            let line = source.position(block.kind.span.start).0;
            tasks.push((Arc::new(place(read, &file.path, line)), block.header()));
        }
    }
    tasks
}

/// All tasks by name; a name that comes twice is a problem of the later file.
fn collect(files: &mut [File], read: &[ReadFile]) -> BTreeMap<TaskName, Arc<Task>> {
    let mut tasks: BTreeMap<_, Arc<Task>> = BTreeMap::new();
    for (file, read) in files.iter_mut().zip(read) {
        for (task, header) in &read.tasks {
            if let Some(other) = tasks.get(&task.name) {
                let message = format!("task `{}` is defined twice", task.name);
                let help = format!("the other one is at {}; rename one of them", other.defined);
                file.problems.push(Problem::new(*header, message).help(help));
                continue;
            }
            tasks.insert(task.name.clone(), task.clone());
        }
    }
    tasks
}

/// Whether the text may call a function that reads files: what such a file means can change while
/// the file itself does not.
fn may_read_files(text: &[u8]) -> bool {
    let calls = |rest: &[u8]| {
        let rest = rest.strip_prefix(b"set").unwrap_or(rest);
        rest.trim_ascii_start().first() == Some(&b'(')
    };
    text.windows(4).enumerate().any(|(at, word)| word == b"file" && calls(&text[at + 4..]))
}

fn place(read: ReadTask, path: &str, line: u32) -> Task {
    let ReadTask { name, description, policy, selector, steps } = read;
    let defined = Location { file: path.to_string(), line };
    Task { name, description, policy, selector, steps, defined }
}

fn diagnose(file: File) -> Vec<Diagnostic> {
    if file.problems.is_empty() {
        return Vec::new();
    }
    Source::new(&file.path, &file.content.text).errors(file.problems)
}

/// A problem with a file as a whole.
fn unplaced(path: &str, message: String) -> Diagnostic {
    let problem = Problem::new(Span::default(), message);
    let mut diagnostic = Source::new(path, b"").diagnostic(Severity::Error, problem);
    diagnostic.source.clear();
    diagnostic
}

fn limit(diagnostics: &mut Vec<Diagnostic>) {
    let more = diagnostics.len().saturating_sub(MOST_DIAGNOSTICS);
    if more > 0 {
        diagnostics.truncate(MOST_DIAGNOSTICS);
        let file = diagnostics[MOST_DIAGNOSTICS - 1].file.clone();
        diagnostics
            .push(unplaced(&file, format!("{more} more problems are not shown; mend these first")));
    }
}

#[cfg(test)]
mod tests;
