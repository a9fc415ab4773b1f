use std::process::Command;

use futures_util::FutureExt;

use super::*;

#[tokio::test]
async fn the_end_of_a_process_is_heard_once_and_of_one_that_is_not_watched_never() {
    let sleep = || Command::new("sleep").arg("1000").spawn().expect("it runs");
    let [mut one, mut other, mut third] = [sleep(), sleep(), sleep()];
    let ids = |all: &[&std::process::Child]| all.iter().map(|it| it.id() as i32).collect();
    let mut lives = Lives::default();
    lives.see(&ids(&[&one, &other, &third]));
    lives.see(&ids(&[&other, &third]));
    assert!(!lives.has_one_ended() && lives.knows(third.id() as i32));
    for child in [&mut one, &mut other] {
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    assert!(lives.has_one_ended(), "before anybody is woken up");
    lives.next().await;
    assert!(!lives.has_one_ended() && !lives.knows(other.id() as i32));
    assert_eq!(lives.watched.keys().copied().collect::<Vec<_>>(), [third.id() as i32]);
    assert!(std::pin::pin!(lives.next()).as_mut().now_or_never().is_none());
    lives.see(&ids(&[&other, &third]));
    assert_eq!(lives.watched.len(), 1, "who is gone cannot be watched");
    third.kill().expect("killed");
    third.wait().expect("gone");
    lives.next().await;
}
