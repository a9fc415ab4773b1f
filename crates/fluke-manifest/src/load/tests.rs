mod services;

use std::time::Duration;

use fluke_model::id::TaskName;
use fluke_model::policy::Policy;
use fluke_model::task::{ExecutorSpec, OnFailure};

use super::*;
use crate::tree::MemoryTree;

fn load(files: &[(&str, &str)]) -> Loaded {
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    loader.load(&MemoryTree::new(files.iter().copied()))
}

fn model(files: &[(&str, &str)]) -> Model {
    let loaded = load(files);
    loaded.model.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics))
}

/// What is wrong with one manifest, as `line:column message; help`.
fn wrong(text: &str) -> Vec<String> {
    let loaded = load(&[("a.fluke.hcl", text)]);
    assert!(loaded.model.is_none(), "accepted: {text}");
    let show = |diagnostic: &Diagnostic| {
        diagnostic.to_string().trim_start_matches("a.fluke.hcl:").replacen(": ", " ", 1)
    };
    loaded.diagnostics.iter().map(show).collect()
}

fn task(body: &str) -> String {
    format!("task \"t\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n{body}\n}}\n")
}

const FULL: &str = r#"
locals {
  node    = "22"
  app_dir = "${local.root}/app"
}

task "runtimes" {
  description = "Node ${local.node} for the web tier"

  drift { policy = "alert_only" }

  selector {
    match_labels      = { role = "web" }
    match_expressions = [{ key = "zone", operator = "not_in", values = ["a", "b"] }]
  }

  mise "node" {
    working_dir = local.app_dir
    check_task  = "check-node-${local.node}"
    git {
      url = "https://git.example/tools"
    }
  }

  shell "migrate" {
    check      = "test -f done"
    command    = "touch done"
    env        = { PORT = 8080, DEBUG = true }
    run_as     = "app"
    timeout    = "1m30s"
    on_failure = "continue"
  }

  systemd "app" { unit = "app.service" }
}
"#;

#[test]
fn a_whole_manifest_becomes_a_model() {
    let model = model(&[
        ("web/tasks.fluke.hcl", FULL),
        ("base.fluke.hcl", "locals {\n  root = \"/opt\"\n}\n"),
        ("notes.txt", "not a manifest {{{"),
    ]);
    let task = &model.tasks[&TaskName::new("runtimes").expect("name")];
    assert_eq!(task.description.as_deref(), Some("Node 22 for the web tier"));
    assert_eq!(task.policy, Some(Policy::AlertOnly));
    assert_eq!(task.defined.to_string(), "web/tasks.fluke.hcl:7");
    let addresses: Vec<_> = task.steps.iter().map(|step| step.address.to_string()).collect();
    assert_eq!(addresses, ["mise.node", "shell.migrate", "systemd.app"]);
    let ExecutorSpec::Mise(mise) = &task.steps[0].spec else { panic!("mise") };
    assert_eq!((&*mise.working_dir, &*mise.check_task), ("/opt/app", "check-node-22"));
    assert_eq!((&*mise.apply_task, &*mise.git.as_ref().expect("git").branch), ("apply", "main"));
    let ExecutorSpec::Shell(shell) = &task.steps[1].spec else { panic!("shell") };
    assert_eq!((&*shell.env["PORT"], &*shell.env["DEBUG"]), ("8080", "true"));
    assert_eq!(task.steps[1].timeout, Some(Duration::from_secs(90)));
    assert_eq!(task.steps[1].on_failure, OnFailure::Continue);
}

#[test]
fn the_order_of_files_never_matters() {
    let files = [
        ("a.fluke.hcl", "locals {\n  x = local.y\n}\n"),
        ("b.fluke.hcl", "locals {\n  y = 1\n}\n"),
        ("c.fluke.hcl", &task("shell \"s\" {\n check = local.x\n command = \"x\"\n}")),
    ];
    let renamed =
        [("z.fluke.hcl", files[0].1), ("y.fluke.hcl", files[1].1), ("c.fluke.hcl", files[2].1)];
    assert_eq!(model(&files), model(&renamed));
}

#[test]
fn every_mistake_says_where_it_is_and_what_to_do() {
    let shell = |body: &str| task(&format!("  shell \"s\" {{\n{body}\n  }}"));
    let good = "    check   = \"x\"\n    command = \"y\"";
    for (text, expected) in [
        (
            shell("    check  = \"x\"\n    comand = \"y\""),
            vec!["7:5 unknown attribute `comand`; did you mean `command`?"],
        ),
        (
            shell("    check  = \"x\"\n    script = \"y\""),
            vec![
                "5:3 a `shell` block needs the attribute `command`; add `command = …`: a string",
                "7:5 unknown attribute `script`; a `shell` block takes `check`, `command`, `env`, `on_failure`, `run_as`, `timeout`, `working_dir`",
            ],
        ),
        (shell(&format!("{good}\n    timeout = \"soon\"")), vec!["8:15 `timeout`: \"soon\" has an unknown unit `soon`; units are ns, us, ms, s, m and h; write it like \"500ms\", \"30s\", \"5m\" or \"1h30m\""]),
        (
            shell(&format!("{good}\n    on_failure = \"abrot\"")),
            vec!["8:18 `on_failure`: \"abrot\" is not one of \"abort\", \"continue\"; did you mean \"abort\"?"],
        ),
        (
            task("  shel \"s\" {\n  }"),
            vec!["5:3 unknown block `shel`; did you mean `shell`?"],
        ),
        (
            task("  shell {\n  }"),
            vec!["5:3 a `shell` block needs a name as its label; write `shell \"name\" {`"],
        ),
        (
            task("  systemd \"s\" {\n    unit = \"nginx\"\n  }"),
            vec!["6:12 `unit`: \"nginx\" is not a unit's full name; write it with its suffix, for example \"nginx.service\""],
        ),
        (
            "task \"t\" {\n  selector {}\n}\n".to_string(),
            vec![
                "1:1 a `task` block needs at least one block of `mise`, `systemd`, `shell`",
                "2:3 a `selector` block must say which hosts it matches; add `match_labels = { … }`; an empty map matches every host",
            ],
        ),
        (
            "task \"a b\" {\n  selector {\n    match_labels = { \"a b\" = 1 }\n  }\n  systemd \"x\" {\n    unit = \"a.service\"\n  }\n}\n".to_string(),
            vec![
                "1:6 ' ' is not allowed in a task name; use letters, digits, `.`, `_`, `-` and `/`",
                "3:22 `match_labels`: ' ' is not allowed in a label key; use letters, digits, `.`, `_`, `-` and `/`",
            ],
        ),
        (
            "servce \"x\" {\n}\nx = 1\n".to_string(),
            vec!["1:1 unknown block `servce`; did you mean `service`?", "3:1 unknown attribute `x`"],
        ),
    ] {
        assert_eq!(wrong(&text), expected, "{text}");
    }
}

#[test]
fn a_selector_that_says_nothing_never_means_every_host() {
    let step = "  systemd \"s\" {\n    unit = \"a.service\"\n  }";
    let with = |lines: &str| task(step).replace("    match_labels = {}\n", lines);
    let silent = "2:3 a `selector` block must say which hosts it matches; add `match_labels = { … }`; an empty map matches every host";
    for (lines, expected) in [
        ("", silent),
        ("    match_labels = null\n", silent),
        ("    match_expressions = null\n", silent),
        ("    match_labels = true ? null : {}\n    match_expressions = null\n", silent),
        (
            "    match_lables = {}\n",
            "3:5 unknown attribute `match_lables`; did you mean `match_labels`?",
        ),
        (
            "    match_expressions = [{ key = \"a\", operator = \"not_in\", values = [\"b\", null] }]\n",
            "3:75 `match_expressions`: a value must not be null",
        ),
        (
            "    match_labels = 5\n",
            "3:20 `match_labels` must be a map of strings, but this is a number",
        ),
    ] {
        assert_eq!(wrong(&with(lines)), [expected], "{lines}");
        let service = with(lines).replace("task", "service").replace(step, "  image = \"web:1\"");
        assert_eq!(wrong(&service), [expected], "{lines}");
    }
    let all = model(&[("a.fluke.hcl", &task(step))]);
    assert_eq!(all.tasks.len(), 1, "an empty map is said, and means every host");
}

#[test]
fn every_mistake_in_a_selector_is_told_where_it_stands() {
    let step = "  systemd \"s\" {\n    unit = \"a.service\"\n  }";
    let lines = r#"    match_labels = {
      "a b" = 1
      role  = "x y"
    }
    match_expressions = [
      { key = "a b", operator = "is", values = ["c", "d e"] },
      { key = "a", operator = "in", value = ["c"], extra = 1 },
      { key = "a", operator = "in" },
      "a in b",
    ]
"#;
    let text = task(step).replace("    match_labels = {}\n", lines);
    let told: Vec<_> = wrong(&text).iter().map(|it| it[..it.len().min(44)].to_string()).collect();
    assert_eq!(
        told,
        [
            "4:7 `match_labels`: ' ' is not allowed in a ",
            "5:15 `match_labels`: ' ' is not allowed in a",
            "8:15 `match_expressions`: ' ' is not allowed",
            "8:33 `match_expressions`: the operator \"is\" ",
            "8:54 `match_expressions`: ' ' is not allowed",
            "9:37 `match_expressions`: unknown key `value",
            "9:52 `match_expressions`: unknown key `extra",
            "10:7 `match_expressions`: `in` and `not_in` ",
            "11:7 `match_expressions`: each expression is",
        ]
    );
}

/// A value that is worked out once costs next to nothing to use; what is wrong with it must not
/// cost more.
#[test]
fn what_is_wrong_with_a_value_that_many_blocks_use_is_bounded() {
    let locals = r#"locals {
  wrong = [for n in range(1000) : { key = "a b", operator = "is", values = ["c d", "e f"] }]
}
"#;
    let selects = |n: usize| {
        let step = "systemd \"s\" {\n unit = \"a.service\"\n}";
        let all = task(step).replace("match_labels = {}", "match_expressions = local.wrong");
        all.replace("task \"t\"", &format!("task \"t{n}\""))
    };
    let text: String = (0..100).map(selects).collect();
    let loaded = load(&[("a.fluke.hcl", &text), ("b.fluke.hcl", locals)]);
    assert!(loaded.model.is_none());
    assert_eq!(loaded.diagnostics.len(), MOST_DIAGNOSTICS + 1);
    let said: Vec<_> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    // Of each use three parts with four mistakes each, and how many more there are.
    assert!(said[12].ends_with("3988 more problems in it are not shown; mend these first"));
    assert!(said[13].starts_with("a.fluke.hcl:11:"), "{}", said[13]);
    assert!(said[200].ends_with("1100 more problems are not shown; mend these first"), "{said:?}");
}

#[test]
fn problems_of_many_files_are_counted_and_the_first_of_them_shown() {
    let text: String = (0..150).map(|n| format!("nothing \"{n}\" {{}}\n")).collect();
    let loaded = load(&[("a.fluke.hcl", &text), ("b.fluke.hcl", &text), ("c.fluke.hcl", &text)]);
    let files: Vec<_> = loaded.diagnostics.iter().map(|it| &*it.file).collect();
    assert_eq!(files[..150], ["a.fluke.hcl"; 150]);
    assert_eq!(files[150..], ["b.fluke.hcl"; 51]);
    let last = loaded.diagnostics.last().map(ToString::to_string).unwrap_or_default();
    assert!(last.ends_with("250 more problems are not shown; mend these first"), "{last}");
}

#[test]
fn a_missing_check_is_always_an_error() {
    let text = task("  shell \"s\" {\n    command = \"reboot\"\n  }");
    let problems = wrong(&text);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("check"), "{problems:?}");
}

#[test]
fn names_are_unique_across_all_files() {
    let one = task("shell \"s\" {\n check = \"x\"\n command = \"y\"\n}");
    let loaded = load(&[("a.fluke.hcl", &one), ("b/c.fluke.hcl", &one)]);
    let told: Vec<_> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "b/c.fluke.hcl:1:1: task `t` is defined twice; the other one is at a.fluke.hcl:1; rename one of them"
        ]
    );
    let twice = task(
        "shell \"s\" {\n check = \"x\"\n command = \"y\"\n}\nshell \"s\" {\n check = \"x\"\n command = \"y\"\n}",
    );
    assert_eq!(wrong(&twice).len(), 1);
}

#[test]
fn a_cycle_of_locals_is_named() {
    let text = "locals {\n  a = local.b\n  b = \"${local.c}\"\n  c = [local.a]\n  d = local.a\n  e = 1\n}\n";
    let problems = wrong(text);
    assert_eq!(
        problems,
        [
            "2:3 cycle: local.a → local.b → local.c → local.a; a local value cannot be made from itself; take one of these references out"
        ]
    );
    assert_eq!(
        wrong("locals {\n  a = local\n}\n").len(),
        1,
        "the whole of `local` includes itself"
    );
}

#[test]
fn a_broken_local_is_told_once_however_often_it_is_used() {
    let text = format!(
        "locals {{\n  a = 1 + \"x\"\n  b = local.a\n}}\n{}",
        task("shell \"s\" {\n check = local.b\n command = local.a\n}")
    );
    assert_eq!(wrong(&text).len(), 1);
}

#[test]
fn all_problems_of_all_files_come_at_once() {
    let loaded = load(&[
        ("a.fluke.hcl", "locals {\n  x = \n}\n"),
        ("b.fluke.hcl", "locals {\n  y = nope(1)\n  z = local.missing\n}\n"),
        ("c.fluke.hcl", "task \"t\" {\n}\n"),
    ]);
    let files: std::collections::BTreeSet<_> =
        loaded.diagnostics.iter().map(|diagnostic| diagnostic.file.as_str()).collect();
    assert_eq!(files.len(), 3, "{:#?}", loaded.diagnostics);
}

#[test]
fn a_file_that_is_no_hcl_is_told_of_once_and_spares_the_others() {
    let loaded = load(&[
        ("a.fluke.hcl", "locals {\n  x = 1 +\n  y = 2\n}\n"),
        ("b.fluke.hcl", &task("shell \"s\" {\n check = local.y\n command = local.x\n}")),
    ]);
    let files: Vec<_> = loaded.diagnostics.iter().map(|diagnostic| &*diagnostic.file).collect();
    assert_eq!(files, ["a.fluke.hcl"], "{:#?}", loaded.diagnostics);
}

#[test]
fn an_expression_fails_only_with_what_it_needs() {
    let tree = MemoryTree::new([
        ("a.fluke.hcl", "locals {\n  bad = nope()\n  good = 1\n}\n"),
        ("b.fluke.hcl", "locals {{{"),
    ]);
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    assert_eq!(loader.evaluate(&tree, "local.good + 1").as_deref(), Ok("2"));
    let problems = loader.evaluate(&tree, "local.bad").expect_err("it needs what is bad");
    assert!(problems.iter().any(|problem| problem.message.contains("nope")), "{problems:#?}");
}

#[test]
fn many_files_are_read_on_all_cores_in_order() {
    let files: Vec<_> = (0..1000)
        .map(|n| (format!("{n:04}.fluke.hcl"), format!("locals {{\n  v{n} = {n}\n}}\n")))
        .collect();
    let tree = MemoryTree::new(files);
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    assert_eq!(loader.evaluate(&tree, "local.v999 + local.v1").as_deref(), Ok("1000"));
    assert_eq!(loader.load(&tree).files, 1000);
}

#[test]
fn what_is_no_plain_file_is_refused() {
    for kind in [EntryKind::Symlink, EntryKind::Submodule] {
        let tree = MemoryTree::new([("b.txt", "")]).with_special("a.fluke.hcl", kind);
        let loaded = Loader::new(DEFAULT_GLOB).expect("a glob").load(&tree);
        assert!(loaded.model.is_none());
        assert_eq!(loaded.diagnostics.len(), 1);
    }
    let large = vec![b'#'; 1024 * 1024 + 1];
    let tree = MemoryTree::new([("a.fluke.hcl", &large[..])]);
    let loaded = Loader::new(DEFAULT_GLOB).expect("a glob").load(&tree);
    assert!(loaded.diagnostics[0].message.contains("1 MiB"), "{:?}", loaded.diagnostics);
}

#[test]
fn a_long_chain_of_locals_is_no_problem() {
    let chain: String = (0..5000).map(|n| format!("  l{n} = local.l{}\n", n + 1)).collect();
    let text = format!("locals {{\n{chain}  l5000 = \"end\"\n}}\n");
    let tree = MemoryTree::new([("a.fluke.hcl", text)]);
    let value = Loader::new(DEFAULT_GLOB).expect("a glob").evaluate(&tree, "local.l0");
    assert_eq!(value.as_deref(), Ok("\"end\""));
}

#[test]
fn files_are_read_from_the_same_tree() {
    let tree = MemoryTree::new([
        (
            "a.fluke.hcl",
            "locals {\n  motd = templatefile(\"files/motd.tpl\", { who = \"web\" })\n}\n",
        ),
        ("files/motd.tpl", "hello ${who}"),
    ]);
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    assert_eq!(loader.evaluate(&tree, "local.motd").as_deref(), Ok("\"hello web\""));
    assert_eq!(
        loader.evaluate(&tree, "fileset(\"files\", \"*\")").as_deref(),
        Ok("[\"motd.tpl\"]")
    );
    assert!(loader.evaluate(&tree, "file(\"../x\")").is_err());
    assert!(loader.evaluate(&tree, "file(\"/etc/passwd\")").is_err());
}

/// A tree that notes what is read of it.
struct Noting(MemoryTree, std::sync::Mutex<Vec<String>>);

impl Tree for Noting {
    fn entries(&self) -> &[TreeEntry] {
        self.0.entries()
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, crate::tree::TreeError> {
        self.1.lock().expect("unpoisoned").push(path.to_string());
        self.0.read(path)
    }
}

/// Which files a loader reads that has loaded `before`; it comes to the same as a new one.
fn read_after(before: &[(&str, &str)], after: &[(&str, &str)]) -> Vec<String> {
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    loader.load(&MemoryTree::new(before.iter().copied()));
    let tree = Noting(MemoryTree::new(after.iter().copied()), Default::default());
    let known = loader.load(&tree);
    let fresh = Loader::new(DEFAULT_GLOB).expect("a glob").load(&tree.0);
    assert_eq!((known.model, known.diagnostics), (fresh.model, fresh.diagnostics));
    let mut read = tree.1.into_inner().expect("unpoisoned");
    read.sort();
    read
}

#[test]
fn only_files_that_changed_are_read_again() {
    let same = ("a.fluke.hcl", "locals {}");
    assert_eq!(
        read_after(&[same, ("b.fluke.hcl", "")], &[same, ("b.fluke.hcl", "# new")]),
        ["b.fluke.hcl"]
    );
    assert_eq!(read_after(&[same, ("b.fluke.hcl", "")], &[same]), [""; 0]);
}

#[test]
fn files_are_read_again_when_a_local_value_changed_that_they_use() {
    let uses = |name: &str, check: &str| {
        task(&format!("shell \"s\" {{\n check = {check}\n command = \"x\"\n}}"))
            .replace("\"t\"", &format!("\"{name}\""))
    };
    let texts = [uses("x", "local.x"), uses("y", "local.y"), uses("all", "jsonencode(local)")];
    let tree = |locals: &'static str| {
        let mut files = vec![("locals.fluke.hcl", locals)];
        files.extend(
            ["x.fluke.hcl", "y.fluke.hcl", "z.fluke.hcl"]
                .into_iter()
                .zip(texts.iter().map(|text| &**text)),
        );
        files
    };
    let before = tree("locals {\n  x = 1\n  y = 2\n}\n");
    let after = tree("locals {\n  x = 1\n  y = 3\n}\n");
    assert_eq!(read_after(&before, &after), ["locals.fluke.hcl", "y.fluke.hcl", "z.fluke.hcl"]);
}

#[test]
fn files_are_read_again_when_a_file_changed_that_they_read() {
    let reads = task("shell \"s\" {\n check = file(\"data\")\n command = \"x\"\n}");
    let lists =
        task("shell \"s\" {\n check = jsonencode(fileset(\"\", \"*.x\"))\n command = \"x\"\n}")
            .replace("\"t\"", "\"u\"");
    let tree = |data: &'static str, other: &'static str| {
        [("a.fluke.hcl", &*reads), ("b.fluke.hcl", &*lists), ("data", data), (other, "")]
    };
    // Whoever lists files is read with every tree.
    assert_eq!(read_after(&tree("1", "o.x"), &tree("1", "o.x")), ["b.fluke.hcl"]);
    assert_eq!(read_after(&tree("1", "o.x"), &tree("1", "p.x")), ["b.fluke.hcl"]);
    assert_eq!(
        read_after(&tree("1", "o.x"), &tree("2", "o.x")),
        ["a.fluke.hcl", "b.fluke.hcl", "data"]
    );
}

#[test]
fn a_budget_runs_out_at_the_same_place_however_many_cores_there_are() {
    let sums = task("shell \"s\" {\n check = \"${1 + 1}${2 + 2}\"\n command = \"x\"\n}");
    let text = |n: usize| sums.replace("\"t\"", &format!("\"t{n}\""));
    let tree = MemoryTree::new((0..200).map(|n| (format!("{n:03}.fluke.hcl"), text(n))));
    let (locals, mut loader) = (Locals::default(), Loader::new(DEFAULT_GLOB).expect("a glob"));
    let budget = || Budget::new(300, 1 << 20);

    let mut at_once = loader.open(&tree).files;
    read_tasks(&mut at_once, &locals, &tree, &budget());
    let mut in_order = loader.open(&tree).files;
    let one = budget();
    in_order.iter_mut().for_each(|file| file.take(file.read(&locals, &tree, &one)));

    let told = |files: &[File<'_>]| -> Vec<_> {
        files.iter().map(|file| file.task_problems.clone()).collect()
    };
    assert_eq!(told(&at_once), told(&in_order));
    assert!(at_once[0].task_problems.is_empty() && !at_once[199].task_problems.is_empty());
}

/// A small repository, chosen by numbers.
fn repository(choice: &[(u8, u8)]) -> Vec<(String, String)> {
    let file = |(number, (local, step)): (usize, &(u8, u8))| {
        let text = match local % 4 {
            0 => format!("locals {{\n  shared = {}\n}}\n", step % 3),
            1 => task(&format!("shell \"s\" {{\n check = local.shared\n command = \"{step}\"\n}}"))
                .replace("\"t\"", &format!("\"t{}\"", number % 5)),
            2 => task("shell \"s\" {\n check = file(\"data\")\n command = \"x\"\n}")
                .replace("\"t\"", &format!("\"f{number}\"")),
            _ => "locals {".to_string(),
        };
        (format!("{number}.fluke.hcl"), text)
    };
    let mut files: Vec<_> = choice.iter().enumerate().map(file).collect();
    files.push(("data".into(), format!("{:?}", choice.first())));
    files
}

proptest::proptest! {
    /// What was known before never changes what a tree means.
    #[test]
    fn a_loader_with_a_past_judges_as_a_new_one(
        history in proptest::collection::vec(
            proptest::collection::vec((proptest::prelude::any::<u8>(), 0..4u8), 0..5), 1..5)
    ) {
        let mut old = Loader::new(DEFAULT_GLOB).expect("a glob");
        for choice in &history {
            let tree = MemoryTree::new(repository(choice));
            let fresh = Loader::new(DEFAULT_GLOB).expect("a glob").load(&tree);
            let known = old.load(&tree);
            proptest::prop_assert_eq!(known.model, fresh.model);
            proptest::prop_assert_eq!(known.diagnostics, fresh.diagnostics);
        }
    }
}
