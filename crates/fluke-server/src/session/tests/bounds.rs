//! What a manifest may say arrives at an agent: both are held to the same bounds.

use fluke_manifest::tree::MemoryTree;
use fluke_manifest::{DEFAULT_GLOB, Loader};
use fluke_model::snapshot::Snapshot;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

/// How much of everything a service has.
#[derive(Debug, Clone)]
struct Amounts {
    image: usize,
    words: usize,
    word: usize,
    variables: usize,
    value: usize,
    volumes: usize,
    path: usize,
    ports: usize,
    health: usize,
}

/// A few, or about as many as there may be.
fn about(most: usize) -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1..4usize, 2 => Just(most), 1 => most - 1..=most + 1]
}

fn amounts() -> impl Strategy<Value = Amounts> {
    use fluke_model::bounds::*;
    let counts = (about(MAX_WORDS), about(MAX_ENV), about(MAX_VOLUMES), about(MAX_PORTS));
    let texts = (about(MAX_IMAGE), about(MAX_TEXT), about(MAX_TEXT), about(MAX_PATH));
    (counts, texts, about(MAX_TEXT)).prop_map(
        |((words, variables, volumes, ports), (image, word, value, path), health)| Amounts {
            image,
            words,
            word,
            variables,
            value,
            volumes,
            path,
            ports,
            health,
        },
    )
}

/// A service with so much of everything: one long text of each kind, and many short ones.
fn manifest(it: &Amounts) -> String {
    let x = |count: usize| "x".repeat(count.saturating_sub(1));
    let list = |count: usize, each: &dyn Fn(usize) -> String| {
        (1..count).map(each).collect::<Vec<_>>().join("\n")
    };
    format!(
        r#"
service "web" {{
  selector {{
    match_labels = {{}}
  }}
  image = "i{image}"
  command = [
    "w{word}",
{words}
  ]
  env = {{
    LONG = "v{value}"
{variables}
  }}
  volume "long" {{
    path = "/{path}"
  }}
{volumes}
{ports}
  health {{
    command = "h{health}"
  }}
}}
"#,
        image = x(it.image),
        word = x(it.word),
        words = list(it.words, &|n| format!("    \"{n}\",")),
        value = x(it.value),
        variables = list(it.variables, &|n| format!("    A{n} = \"{n}\"")),
        path = x(it.path.max(2)),
        volumes =
            list(it.volumes, &|n| format!("  volume \"v{n}\" {{\n    path = \"/v/{n}\"\n  }}")),
        ports = list(it.ports + 1, &|n| format!("  port \"p{n}\" {{\n    container = {n}\n  }}")),
        health = x(it.health),
    )
}

fn accepted(text: &str) -> Option<Model> {
    let tree = MemoryTree::new([("web.fluke.hcl", text)]);
    Loader::new(DEFAULT_GLOB).expect("a glob").load(&tree).model
}

/// The next snapshot; an agent that refuses one has lost its stream.
async fn next_snapshot(stream: &mut Stream) -> Arc<Snapshot> {
    loop {
        let heard = stream.incoming.next().await.expect("it is taken").expect("open");
        if let ToAgent::Snapshot { snapshot, .. } = heard {
            return snapshot;
        }
    }
}

#[tokio::test]
async fn whatever_a_manifest_may_say_of_a_service_arrives() {
    let door = Door::open().await;
    let mut stream = door.join("a").await;
    let mut runner = TestRunner::deterministic();
    let (mut arrived, mut refused) = (0, 0);
    for case in 0..64 {
        let amounts = amounts().new_tree(&mut runner).expect("a value").current();
        // Never the same twice, so that it is sent each time.
        let text = manifest(&amounts).replace("LONG", &format!("LONG_{case}"));
        let Some(model) = accepted(&text) else {
            refused += 1;
            continue;
        };
        let service = model.services.values().next().expect("one").clone();
        door.put_in_force(&format!("commit-{case}"), model);
        let snapshot = next_snapshot(&mut stream).await;
        let got = snapshot.services()[0].container.as_deref();
        assert_eq!(got, Some(&service.container), "understood, and whole: {amounts:?}");
        arrived += 1;
    }
    assert!(arrived > 10 && refused > 10, "{arrived} arrived, {refused} were refused");
}
