//! From the files of a commit to its model, or to everything that is wrong with it.

mod file;
mod services;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::diagnostic::{Diagnostic, Severity};
use fluke_model::id::TaskName;
use fluke_model::parallel::in_parallel;
use fluke_model::snapshot::Model;
use fluke_model::task::Task;
use globset::{GlobBuilder, GlobMatcher};

use crate::hcl::ast::Span;
use crate::hcl::budget::Budget;
use crate::hcl::problem::Problem;
use crate::hcl::scope::Scope;
use crate::hcl::source::Source;
use crate::hcl::{eval, parse_expression};
use crate::locals::{Definition, Locals};
use crate::tree::{EntryKind, Tree, TreeEntry};
use file::{File, Known};

/// The pattern of manifests where none is given.
pub const DEFAULT_GLOB: &str = "**/*.fluke.hcl";

/// More diagnostics than this are counted, not listed; and so are more problems of one file.
const MOST_DIAGNOSTICS: usize = 200;

/// A pattern that is none.
pub type GlobError = globset::Error;

/// Reads trees, and remembers what it read from each file as long as that stays the same. Neither
/// texts nor syntax trees are kept, but of the few files that define local values.
pub struct Loader {
    manifests: GlobMatcher,
    /// What the last load read from files that have nothing wrong with them, by path.
    known: Vec<KnownFile>,
    /// What it read them with.
    locals: Locals,
    /// All tasks of it, if nothing was wrong.
    tasks: Option<Tasks>,
}

type Tasks = BTreeMap<TaskName, Arc<Task>>;

struct KnownFile {
    path: Arc<str>,
    /// Of the file's content.
    id: Arc<str>,
    known: Known,
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

impl Loader {
    /// Takes files that match `glob` for manifests; `*` stays within a folder, `**` does not.
    pub fn new(glob: &str) -> Result<Self, GlobError> {
        let manifests = GlobBuilder::new(glob).literal_separator(true).build()?.compile_matcher();
        let (known, locals) = (Vec::new(), Locals::default());
        Ok(Self { manifests, known, locals, tasks: None })
    }

    /// Reads all manifests of `tree` into one model. Order of files never matters.
    pub fn load(&mut self, tree: &dyn Tree) -> Loaded {
        let budget = Budget::default();
        let Opened { mut files, mut gone, mut diagnostics } = self.open(tree);
        let locals = read_locals(&mut files, tree, &budget);
        let changed = locals.changed_since(&self.locals);
        for file in &mut files {
            gone.extend(file.forget_if(|known| !known.uses.are_same(&changed, tree)));
        }
        read_texts(&mut files, tree, &mut diagnostics);
        read_tasks(&mut files, &locals, tree, &budget);
        let updated = self.tasks.take().and_then(|tasks| update(tasks, &gone, &files));
        let tasks = updated.unwrap_or_else(|| collect(&mut files));
        let services = services::collect(&mut files);
        let more = diagnose(&files, tree, &mut diagnostics);
        let count = files.len();
        self.known = files.into_iter().filter_map(KnownFile::of).collect();
        self.locals = locals;
        diagnostics.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        limit(&mut diagnostics, more);
        let model = (!Diagnostic::any_error(&diagnostics)).then_some(Model { tasks, services });
        self.tasks = model.as_ref().map(|model| model.tasks.clone());
        Loaded { model, diagnostics, files: count }
    }

    /// The value of an expression among the locals of `tree`, as JSON.
    pub fn evaluate(
        &mut self,
        tree: &dyn Tree,
        expression: &str,
    ) -> Result<String, Vec<Diagnostic>> {
        let Opened { mut files, mut diagnostics, .. } = self.open(tree);
        self.tasks = None;
        let budget = Budget::default();
        let locals = read_locals(&mut files, tree, &budget);
        let outcome = parse_expression(expression.as_bytes())
            .and_then(|expr| eval(&expr, &Scope::new(&locals, &budget).with_files(tree)));
        // What is wrong elsewhere matters only where the expression needs it.
        outcome.map(|value| value.to_json_string()).map_err(|problems| {
            if !problems.is_empty() {
                return Source::new("expression", expression.as_bytes()).errors(problems);
            }
            let more = diagnose(&files, tree, &mut diagnostics);
            limit(&mut diagnostics, more);
            diagnostics
        })
    }

    /// Opens every manifest: with what is known of it if it is the same as before, else with its
    /// text. What cannot be opened is a diagnostic.
    fn open<'t>(&mut self, tree: &'t dyn Tree) -> Opened<'t> {
        let mut files = Vec::with_capacity(self.known.len());
        let (mut gone, mut diagnostics) = (Vec::new(), Vec::new());
        // Both are sorted by path.
        let mut known = std::mem::take(&mut self.known).into_iter().peekable();
        for entry in tree.entries() {
            while let Some(before) = known.next_if(|known| known.path < entry.path) {
                gone.push(before.known);
            }
            let mut before = known.next_if(|known| known.path == entry.path);
            if before.is_none() && !self.manifests.is_match(&*entry.path) {
                continue;
            }
            let refused = refusal(entry);
            let changed = before.take_if(|before| refused.is_some() || before.id != entry.id);
            gone.extend(changed.map(|changed| changed.known));
            match refused {
                Some(why) => diagnostics.push(unplaced(&entry.path, why)),
                None => files.push(File::new(entry, before.map(|same| same.known))),
            }
        }
        gone.extend(known.map(|known| known.known));
        read_texts(&mut files, tree, &mut diagnostics);
        Opened { files, gone, diagnostics }
    }
}

/// The manifests of a tree.
struct Opened<'t> {
    files: Vec<File<'t>>,
    /// What was known of files that changed or are no more.
    gone: Vec<Known>,
    diagnostics: Vec<Diagnostic>,
}

impl KnownFile {
    /// What is worth remembering of a file.
    fn of(file: File<'_>) -> Option<Self> {
        let (path, id) = (file.entry.path.clone(), file.entry.id.clone());
        Some(Self { path, id, known: file.into_known()? })
    }
}

/// Why an entry cannot be a manifest.
fn refusal(entry: &TreeEntry) -> Option<String> {
    let what = match entry.kind {
        EntryKind::File => return None,
        EntryKind::Symlink => "a symbolic link, which is never followed",
        EntryKind::Submodule => "a submodule, which is never entered",
    };
    Some(format!("this manifest is {what}; commit the file itself"))
}

/// Reads the texts of all files of which nothing is known; those that cannot be read are reported
/// and left out.
fn read_texts(files: &mut Vec<File<'_>>, tree: &dyn Tree, diagnostics: &mut Vec<Diagnostic>) {
    let needed: Vec<&TreeEntry> =
        files.iter().filter(|file| file.needs_text()).map(|file| file.entry).collect();
    if needed.is_empty() {
        return;
    }
    let mut texts = tree.read_all(&needed).into_iter();
    files.retain_mut(|file| {
        if !file.needs_text() {
            return true;
        }
        match texts.next() {
            Some(Ok(text)) => file.text = Some(text),
            Some(Err(error)) => diagnostics.push(unplaced(&file.entry.path, error.to_string())),
            None => {}
        }
        file.text.is_some()
    });
}

/// Parses what may define local values, and evaluates those of all files.
fn read_locals(files: &mut [File<'_>], tree: &dyn Tree, budget: &Budget) -> Locals {
    let may_define: Vec<&mut File<'_>> =
        files.iter_mut().filter(|file| file.may_define_locals()).collect();
    let parsed = in_parallel(&may_define, |file| file.parse());
    for (file, (parsed, problems)) in may_define.into_iter().zip(parsed) {
        file.problems = problems;
        file.parsed = Some(Arc::new(parsed));
    }
    let trees: Vec<_> = files.iter().map(File::defining).collect();
    let definitions: Vec<Definition<'_>> = trees
        .iter()
        .enumerate()
        .flat_map(|(number, tree)| {
            tree.iter().flat_map(move |tree| file::definitions(tree, number))
        })
        .collect();
    // A file without `locals` defines none, whatever else is wrong with it.
    let complete = files.iter().all(File::is_sound);
    Locals::evaluate(&definitions, complete, tree, budget, |file, problem| {
        files[file].problems.push(problem);
    })
}

/// Reads the tasks of all files of which they are not known, on all cores; what that costs is
/// charged in the order of the files, as if they had been read one after the other.
fn read_tasks(files: &mut [File<'_>], locals: &Locals, tree: &dyn Tree, budget: &Budget) {
    let left = budget.left();
    let unknown: Vec<&File<'_>> = files.iter().filter(|file| file.known.is_none()).collect();
    let read = |file: &&File<'_>| file.read(locals, tree, &Budget::of(left));
    let mut readings = in_parallel(&unknown, read).into_iter();
    for file in files.iter_mut() {
        if file.known.is_none()
            && let Some(reading) = readings.next()
        {
            file.take(reading);
        }
        let cost = file.known.as_ref().map(|known| known.cost).unwrap_or_default();
        if !budget.charge(cost) {
            file.read_again(locals, tree, budget);
        }
    }
}

/// The tasks of the last load with what changed since; none if a name comes twice.
fn update(mut tasks: Tasks, gone: &[Known], files: &[File<'_>]) -> Option<Tasks> {
    for (task, _) in gone.iter().flat_map(|gone| &gone.tasks) {
        tasks.remove(&task.name);
    }
    let fresh = files.iter().filter(|file| file.is_fresh).flat_map(|file| &file.known);
    for (task, _) in fresh.flat_map(|known| &known.tasks) {
        if tasks.insert(task.name.clone(), task.clone()).is_some() {
            return None;
        }
    }
    Some(tasks)
}

/// All tasks by name; a name that comes twice is a problem of the later file.
fn collect(files: &mut [File<'_>]) -> Tasks {
    let mut tasks = Tasks::new();
    for File { known, task_problems, .. } in files {
        for (task, header) in known.iter().flat_map(|known| &known.tasks) {
            if let Some(other) = tasks.get(&task.name) {
                let message = format!("task `{}` is defined twice", task.name);
                let help = format!("the other one is at {}; rename one of them", other.defined);
                task_problems.push(Problem::new(*header, message).help(help));
                continue;
            }
            tasks.insert(task.name.clone(), task.clone());
        }
    }
    tasks
}

/// Shows the first problems of all files, and says how many more there are: each that is shown
/// comes with lines of its file.
fn diagnose(files: &[File<'_>], tree: &dyn Tree, diagnostics: &mut Vec<Diagnostic>) -> usize {
    let (mut room, mut more) = (MOST_DIAGNOSTICS, 0);
    for file in files {
        let mut problems: Vec<_> = file.problems.iter().chain(&file.task_problems).collect();
        problems.sort_by_key(|problem| problem.span.start);
        more += file.untold + problems.len().saturating_sub(room);
        problems.truncate(room);
        room -= problems.len();
        if !problems.is_empty() {
            let shown = problems.into_iter().cloned().collect();
            diagnostics.extend(Source::new(&file.entry.path, &file.text_from(tree)).errors(shown));
        }
    }
    more
}

/// A problem with a file as a whole.
fn unplaced(path: &str, message: String) -> Diagnostic {
    let problem = Problem::new(Span::default(), message);
    let mut diagnostic = Source::new(path, b"").diagnostic(Severity::Error, problem);
    diagnostic.source.clear();
    diagnostic
}

/// Keeps the first, and tells of the others: those that were counted already among them.
fn limit(diagnostics: &mut Vec<Diagnostic>, counted: usize) {
    let more = counted + diagnostics.len().saturating_sub(MOST_DIAGNOSTICS);
    diagnostics.truncate(MOST_DIAGNOSTICS);
    if let Some(last) = diagnostics.last().filter(|_| more > 0) {
        let message = format!("{more} more problems are not shown; mend these first");
        diagnostics.push(unplaced(&last.file.clone(), message));
    }
}

#[cfg(test)]
mod tests;
