use super::*;

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

#[test]
fn wrong_tokens_wait_longer_each_time_and_are_forgiven() {
    let strikes = Strikes::default();
    let start = Instant::now();
    let wait = |from, at| strikes.add(Some(from), at).wait.as_millis();
    let waits: Vec<_> = (0..9).map(|_| wait(A, start)).collect();
    assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    assert_eq!(wait(B, start), 100, "another address");
    let later = start + Duration::from_secs(600);
    assert_eq!(wait(A, later), 100, "ten quiet minutes later");
}

#[test]
fn a_flood_of_wrong_tokens_is_no_flood_of_history() {
    let strikes = Strikes::default();
    let now = Instant::now();
    let all = (0..1000).map(|_| strikes.add(Some(A), now));
    assert_eq!(all.filter(|strike| strike.is_notable()).count(), 10);
}

#[test]
fn more_addresses_than_are_remembered_wait_as_long_as_any() {
    let strikes = Strikes::default();
    let now = Instant::now();
    for number in 0..Table::REMEMBERED as u32 {
        strikes.add(Some(IpAddr::V4(number.into())), now);
    }
    let strike = strikes.add(Some([255, 0, 0, 1].into()), now);
    assert_eq!((strike.wait, strike.is_notable()), (Duration::from_secs(10), false));
    assert_eq!(strikes.table.lock().expect("unpoisoned").by_address.len(), Table::REMEMBERED);
    let later = now + Table::FORGIVEN_AFTER;
    assert_eq!(strikes.add(Some([255, 0, 0, 1].into()), later).count, 1, "room again");
}
