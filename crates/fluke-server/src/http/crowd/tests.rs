use super::Shows::{Nothing, Session, Token, Wrong};
use super::*;

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

#[test]
fn two_hundred_dashboards_behind_one_address_start_at_once() {
    let (crowd, now) = (Crowd::default(), Instant::now());
    let streams: Vec<_> =
        (0..200).map(|_| crowd.hold(A, Holding::Stream, now).expect("a stream each")).collect();
    // The page, its assets, and what the API says.
    assert!((0..200 * 25).all(|_| crowd.admits(A, Nothing, now)));
    assert_eq!(streams.len(), 200);
}

#[test]
fn a_flood_is_slowed_down_and_harms_nobody_else() {
    let (crowd, now) = (Crowd::default(), Instant::now());
    assert_eq!((0..20_000).filter(|_| crowd.admits(A, Nothing, now)).count(), BURST as usize);
    assert!(!crowd.admits(A, Nothing, now) && crowd.admits(B, Nothing, now));
    let later = now + Duration::from_secs(2);
    assert_eq!((0..20_000).filter(|_| crowd.admits(A, Nothing, later)).count(), 2 * RATE as usize);
}

#[test]
fn strangers_behind_an_address_do_not_spend_what_is_for_those_who_are_known() {
    let (crowd, now) = (Crowd::default(), Instant::now());
    while crowd.admits(A, Nothing, now) {}
    let known = (0..20_000).filter(|_| crowd.admits(A, Token, now)).count();
    assert_eq!(known, BURST as usize, "they have bounds, too");
    let crowd = Crowd::default();
    while crowd.admits(A, Token, now) {}
    assert!(crowd.admits(A, Nothing, now), "nor the other way round");
}

#[test]
fn nobody_learns_by_the_bounds_which_guess_is_right() {
    let (crowd, now) = (Crowd::default(), Instant::now());
    let guesses = (0..20_000).filter(|_| crowd.admits(A, Wrong, now)).count();
    assert_eq!(guesses, BURST as usize);
    assert!(!crowd.admits(A, Token, now) && crowd.admits(B, Token, now));
    assert!(crowd.admits(A, Session, now), "nobody guesses a session");
    assert!(crowd.admits(A, Nothing, now), "what shows nothing is no guess");
    assert!(crowd.admits(A, Token, now + Duration::from_secs(1)));
}

#[test]
fn what_is_held_is_bounded_and_given_back() {
    let (crowd, now) = (Crowd::default(), Instant::now());
    for what in Holding::ALL {
        let mut held: Vec<_> = (0..what.most()).map(|_| crowd.hold(A, what, now)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(crowd.hold(A, what, now).is_none(), "{what:?}");
        assert!(crowd.hold(B, what, now).is_some(), "{what:?}");
        held.pop();
        assert!(crowd.hold(A, what, now).is_some(), "{what:?}");
    }
}

#[test]
fn more_addresses_than_can_be_told_apart_fill_no_memory_and_keep_nobody_out() {
    let (crowd, now) = (Crowd::default(), Instant::now());
    let address = |number: u32| IpAddr::V4(number.into());
    assert!((0..50_000).all(|number| crowd.admits(address(number), Nothing, now)));
    let count = || crowd.0.lock().expect("lock").guests.len();
    assert_eq!(count(), REMEMBERED);
    let held = crowd.hold(address(1), Holding::Connection, now).expect("known");
    let later = now + Duration::from_secs(60);
    assert!(crowd.admits(address(60_000), Nothing, later));
    assert_eq!(count(), 2, "who holds something is not forgotten");
    drop(held);
}

#[test]
fn a_network_is_one_neighbour() {
    let same = |a: &str, b: &str| {
        let address = |text: &str| neighbourhood(text.parse().expect("an address"));
        address(a) == address(b)
    };
    assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
    assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
    assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
    assert!(!same("10.0.0.1", "10.0.0.2"));
}
