use super::stage::*;

#[tokio::test]
async fn a_request_reaches_a_container_by_its_domain_until_the_route_is_gone() {
    let Some(mut stage) = Stage::new() else { return };
    let shop = Container::http(LOCAL, "shop").await;
    let blog = Container::http(REMOTE, "blog").await;
    let both = table([
        ("shop", http("shop.example.com"), &[&shop]),
        ("blog", http("blog.example.com"), &[&blog]),
        ("closed", http("closed.example.com"), &[]),
    ]);
    stage.routes(&both).await;
    assert_eq!(stage.get("shop.example.com").await, (200, "shop".into()));
    assert_eq!(stage.get("blog.example.com").await, (200, "blog".into()));
    assert_eq!(stage.get("closed.example.com").await.0, 503, "there is nobody to answer");
    assert_eq!(stage.get("other.example.com").await.0, 404);
    let log = stage.path("access.log");
    until("the log tells of it", || {
        std::fs::read_to_string(&log).is_ok_and(|it| it.contains("\"blog.main@file\""))
    })
    .await;

    let one = table([("blog", http("blog.example.com"), &[&blog])]);
    stage.routes(&one).await;
    assert_eq!(stage.get("shop.example.com").await.0, 404);
    assert_eq!(stage.get("blog.example.com").await, (200, "blog".into()));
    stage.routes(&table([])).await;
    assert_eq!(stage.get("blog.example.com").await.0, 404);
}

#[tokio::test]
async fn the_api_is_nowhere_but_on_its_own_address() {
    let Some(mut stage) = Stage::new() else { return };
    stage.routes(&table([])).await;
    let client = client();
    for path in ["api/rawdata", "api/http/routers", "dashboard/"] {
        let url = format!("http://{}/{path}", stage.at(WEB));
        let answer = client.get(url).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 404, "{path}");
    }
}

#[tokio::test]
async fn containers_of_this_host_are_asked_five_times_as_often() {
    let Some(mut stage) = Stage::new() else { return };
    let near = Container::http(LOCAL, "near").await;
    let far = Container::http(REMOTE, "far").await;
    stage.routes(&table([("web", http("a.example.com"), &[&near, &far])])).await;
    let client = client();
    for _ in 0..120 {
        ask(&client, stage.at(WEB), "a.example.com").await.expect("an answer");
    }
    let (near, far) = (near.served(), far.served());
    assert_eq!(near + far, 120);
    assert!(near >= 4 * far && far >= 10, "{near} to {far}");
}

#[tokio::test]
async fn a_container_that_died_costs_no_request_while_another_one_lives() {
    let Some(mut stage) = Stage::new() else { return };
    let near = Container::http(LOCAL, "near").await;
    let far = Container::http(REMOTE, "far").await;
    stage.routes(&table([("web", http("a.example.com"), &[&near, &far])])).await;
    near.dies().await;
    for _ in 0..30 {
        assert_eq!(stage.get("a.example.com").await, (200, "far".into()));
    }
    far.dies().await;
    assert_eq!(stage.get("a.example.com").await.0, 502, "there is an end to it");
}

#[tokio::test]
async fn no_request_fails_while_containers_are_replaced() {
    let Some(mut stage) = Stage::new() else { return };
    let mut serving = Container::http(LOCAL, "0").await;
    let routes = |container: &Container| table([("web", http("a.example.com"), &[container])]);
    stage.routes(&routes(&serving)).await;
    let crowd = Crowd::of(8, stage.at(WEB), "a.example.com");
    crowd.goes_on().await;
    for round in 1..=6 {
        let next = Container::http(LOCAL, &round.to_string()).await;
        stage.routes(&routes(&next)).await;
        // What was under way when the route changed may still be with the old one.
        crowd.goes_on().await;
        std::mem::replace(&mut serving, next).dies().await;
        crowd.goes_on().await;
    }
    let (requests, failures) = crowd.leaves().await;
    assert_eq!(failures, [""; 0], "of {requests}");
    assert!(requests > 100, "{requests}");
}
