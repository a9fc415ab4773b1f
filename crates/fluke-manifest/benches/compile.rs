//! 10,000 tasks of ten steps: from text to model, from model to a host's snapshot, and the same
//! again with one file changed. Beside it, the floor: hashing the same bytes.

#![allow(missing_docs, clippy::print_stdout)]

use std::time::{Duration, Instant};

use fluke_manifest::tree::MemoryTree;
use fluke_manifest::{DEFAULT_GLOB, Loader};
use fluke_model::id::Hash256;
use fluke_model::label::Labels;
use fluke_model::policy::Policy;
use fluke_model::snapshot::Compiler;

const TASKS: usize = 10_000;
const STEPS: usize = 10;
const ROUNDS: usize = 5;

fn manifest(number: usize, release: usize) -> String {
    let steps: String = (0..STEPS)
        .map(|step| {
            format!(
                "  shell \"step-{step}\" {{\n    check   = \"test -f ${{local.root}}/{number}-{step}-{release}\"\n    command = \"touch ${{local.root}}/{number}-{step}-{release}\"\n  }}\n"
            )
        })
        .collect();
    format!(
        "# Task {number}\ntask \"task-{number}\" {{\n  description = \"Number {number}\"\n\n  selector {{\n    match_labels = {{ host = \"h{}\" }}\n  }}\n\n{steps}}}\n",
        number % 1000
    )
}

fn files(changed: Option<usize>) -> Vec<(String, String)> {
    let mut files: Vec<_> = (0..TASKS)
        .map(|number| {
            let release = usize::from(changed == Some(number));
            (format!("tasks/{number:05}.fluke.hcl"), manifest(number, release))
        })
        .collect();
    files.push(("base.fluke.hcl".into(), "locals {\n  root = \"/opt/app\"\n}\n".into()));
    files
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn time<T>(rounds: usize, mut work: impl FnMut() -> T) -> Duration {
    let round = |_| {
        let start = Instant::now();
        std::hint::black_box(work());
        start.elapsed()
    };
    median((0..rounds).map(round).collect())
}

fn main() {
    let (before, after) = (files(None), files(Some(1234)));
    let bytes: usize = before.iter().map(|(_, text)| text.len()).sum();
    let (before_tree, after_tree) = (MemoryTree::new(before.clone()), MemoryTree::new(after));
    let model = Loader::new(DEFAULT_GLOB).expect("a glob").load(&before_tree).model.expect("valid");
    let host = Labels([Labels::parse_pair("host=h7").expect("a label")].into());

    let floor = time(ROUNDS, || {
        before.iter().map(|(_, text)| Hash256::of(text.as_bytes())).collect::<Vec<_>>()
    });
    let cold = time(ROUNDS, || Loader::new(DEFAULT_GLOB).expect("a glob").load(&before_tree));
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    let warm: Vec<_> = (0..ROUNDS)
        .map(|_| {
            loader.load(&before_tree);
            let start = Instant::now();
            std::hint::black_box(loader.load(&after_tree));
            start.elapsed()
        })
        .collect();
    let prepare = time(ROUNDS, || Compiler::new(&model, Policy::Remediate));
    let compiler = Compiler::new(&model, Policy::Remediate);
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    let known = Compiler::new(&loader.load(&before_tree).model.expect("valid"), Policy::Remediate);
    let changed = loader.load(&after_tree).model.expect("valid");
    let follow = time(ROUNDS, || known.follow(&changed));
    let snapshot = time(1, || compiler.snapshot(&host));

    println!("{TASKS} tasks, {} steps, {:.1} MB", TASKS * STEPS, bytes as f64 / 1e6);
    let row = |what: &str, took: Duration| {
        let ratio = took.as_secs_f64() / floor.as_secs_f64();
        println!("{what:<44} {:>9.1} ms  {ratio:>6.2} × floor", took.as_secs_f64() * 1e3);
    };
    row("floor: SHA-256 of every file", floor);
    row("text to model, nothing known before", cold);
    row("text to model, one file changed", median(warm));
    row("model to compiler (all tasks hashed)", prepare);
    row("model to compiler, one task changed", follow);
    row("compiler to one host's snapshot", snapshot);
}
