//! How long a push takes to come into force: `cargo test -p fluke-server -- --ignored latency
//! --nocapture`.

use super::*;

/// One task a manifest, 100 manifests a directory.
fn fill(repository: &Repository, files: usize) {
    for file in 0..files {
        let path = format!("dir-{}/file-{file}.fluke.hcl", file / 100);
        repository.write(&path, manifest(&format!("task-{file}")));
    }
    repository.commit_all();
}

async fn measure(files: usize) {
    let repository = Repository::empty();
    fill(&repository, files);
    let source = follow(&repository, NEVER);
    let began = Instant::now();
    source.in_force(repository.head()).await;
    let first = began.elapsed();
    let mut pushes = Vec::new();
    for round in 0..20 {
        let commit =
            repository.commit("dir-0/file-0.fluke.hcl", &manifest(&format!("round-{round}")));
        let began = Instant::now();
        source.handle.poke();
        source.in_force(commit).await;
        pushes.push(began.elapsed());
    }
    pushes.sort_unstable();
    let (best, median, worst) = (pushes[0], pushes[10], pushes[19]);
    let checkout = checkout_alone(&repository).await;
    #[expect(clippy::print_stderr, reason = "a measurement is made to be read")]
    {
        eprintln!("{files} files: first {first:?}; push {best:?} / {median:?} / {worst:?}");
        eprintln!("of it to fetch, list and read: {checkout:?}");
    }
}

/// The best of some, without parsing and compiling.
async fn checkout_alone(repository: &Repository) -> Duration {
    let mut mirror = Mirror::new(repository.config());
    mirror.checkout(None).await.expect("a checkout");
    let mut best = Duration::MAX;
    for round in 0..10 {
        repository.commit("dir-0/file-0.fluke.hcl", &manifest(&format!("again-{round}")));
        let began = Instant::now();
        mirror.checkout(None).await.expect("a checkout");
        best = best.min(began.elapsed());
    }
    best
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn latency_of_a_push() {
    measure(100).await;
    measure(10_000).await;
}
