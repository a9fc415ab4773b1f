//! A host whose own config refuses containers: nothing is touched, and it is said why.

use super::*;

const WHY: &str = "refused by this host's own config: `container` is not among `allow.executors`";

/// Everything that would be done without a refusal, on hosts of every sort.
fn hosts() -> Vec<(&'static str, Host)> {
    let (one, two) = (deployment("web", spec("web:1")), deployment("web", spec("web:2")));
    let wants = || Host::wanting(two.clone());
    let mut without_image = wants();
    without_image.images.clear();
    let mut without_network = wants();
    without_network.network = Network::Missing;
    let mut moved = wants().having(container("c", &two, State::Running));
    moved.network = Network::Other("it has another subnet".into());
    let mut ours_alone = Host::new().having(somebody_elses("theirs"));
    ours_alone.exclusive = true;
    let mut asked = Host::wanting(Deployment { policy: Policy::AlertOnly, ..two.clone() });
    asked.asked = Asked::ForAll;
    let broken =
        Container { tampered: Some("its image".into()), ..container("c", &two, State::Running) };
    vec![
        ("missing", wants()),
        ("its image is elsewhere", without_image),
        ("no network", without_network),
        ("another network", moved),
        ("an earlier version runs", wants().having(container("c", &one, State::Running))),
        ("it stands still", wants().having(container("c", &two, State::Exited))),
        ("somebody changed it", wants().having(broken)),
        ("not wanted", Host::new().having(container("c", &one, State::Exited))),
        ("somebody else's", ours_alone),
        ("somebody asks", asked),
    ]
}

#[test]
fn nothing_is_touched_and_it_is_said_why() {
    for (case, mut host) in hosts() {
        let would = host.plan();
        assert!(!would.changes.is_empty() || !would.fetch.is_empty(), "{case}: a case of nothing");
        host.refused = Some(WHY);
        let plan = host.plan();
        assert!(plan.changes.is_empty() && plan.fetch.is_empty(), "{case}: {plan:?}");
        assert_eq!(plan.reports.len(), would.reports.len(), "{case}: all of it is told");
        for it in &plan.reports {
            assert_eq!(it.verdict, Verdict::Error { reason: WHY.into() }, "{case}");
            let note = it.note.as_deref().unwrap_or_default();
            assert!(note.starts_with(WHY), "{case}: {note}");
            let is_left_alone = note.ends_with("is left alone");
            assert_eq!(is_left_alone, it.container.is_some(), "{case}: {note}");
        }
    }
}

#[test]
fn what_runs_goes_on_serving_until_others_do() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::wanting(web.clone()).having(container("c", &web, State::Running));
    host.refused = Some(WHY);
    assert_eq!(host.phases(), [(Phase::Running, true)]);
}
