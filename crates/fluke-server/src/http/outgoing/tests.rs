use std::future::poll_fn;

use axum::body::to_bytes;

use super::*;

const STALL: Duration = Duration::from_secs(30);

fn place(places: &Arc<Semaphore>) -> UnderWay {
    UnderWay::new(places.clone().try_acquire_owned().expect("a place"), None)
}

async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    Some(frame.map(|frame| frame.into_data().expect("data")))
}

#[tokio::test(start_paused = true)]
async fn a_body_arrives_as_it_was_in_pieces_of_which_the_last_is_small() {
    for length in [1, LAST, LAST + 1, PIECE, PIECE + LAST, PIECE + LAST + 1, 100_000] {
        let whole: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let mut body = watched(whole.clone().into(), UnderWay::default(), STALL);
        assert_eq!(body.size_hint().exact(), Some(length as u64));
        let mut pieces = Vec::new();
        while !body.is_end_stream() {
            pieces.push(next(&mut body).await.expect("more").expect("a piece"));
        }
        assert_eq!(pieces.concat(), whole);
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE));
        assert!(pieces.last().is_some_and(|piece| piece.len() <= LAST));
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_is_held_until_the_body_is_through() {
    let places = Arc::new(Semaphore::new(1));
    let body = watched(vec![0; 100_000].into(), place(&places), STALL);
    assert_eq!(places.available_permits(), 0);
    to_bytes(body, usize::MAX).await.expect("all of it");
    assert_eq!(places.available_permits(), 1);
    drop(watched(vec![0; 100_000].into(), place(&places), STALL));
    assert_eq!(places.available_permits(), 1, "or is not wanted any more");
    let _empty = watched(Body::empty(), place(&places), STALL);
    assert_eq!(places.available_permits(), 1, "or there is none");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_reads_is_let_go_and_fails_when_somebody_does() {
    let places = Arc::new(Semaphore::new(1));
    let mut body = watched(vec![0; 100_000].into(), place(&places), STALL);
    next(&mut body).await.expect("more").expect("a piece");
    let begun = Instant::now();
    let _free = places.acquire().await.expect("open");
    assert!((STALL..2 * STALL).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert!(next(&mut body).await.expect("an end").is_err());
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_gets_all_of_it() {
    let mut body = watched(vec![0; 100_000].into(), UnderWay::default(), STALL);
    let mut read = 0;
    while !body.is_end_stream() {
        tokio::time::sleep(STALL - Duration::from_secs(1)).await;
        read += next(&mut body).await.expect("more").expect("a piece").len();
    }
    assert_eq!(read, 100_000);
}

#[tokio::test]
async fn large_answers_share_a_budget() {
    let budget = Arc::new(Semaphore::new(MEMORY as usize));
    let asks = |size: usize| {
        let mut under_way = UnderWay::default();
        let body = Body::from(vec![0; size]);
        under_way.takes_memory(&budget, &body).then_some(under_way)
    };
    let half = MEMORY as usize / 2 * MEMORY_UNIT as usize;
    let first = asks(half).expect("half of it");
    let _second = asks(half).expect("the other half");
    assert!(asks(100_000).is_none() && asks(1000).is_some(), "small ones are not counted");
    drop(first);
    assert!(asks(100_000).is_some());
}
