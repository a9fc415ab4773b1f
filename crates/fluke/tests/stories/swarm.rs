//! A swarm that keeps services, or drifts: what is measured with it is what hosts do.

use std::fmt::Display;
use std::time::Duration;

use fluke_bed::swarm::{Shares, Swarm, SwarmOptions, Weather};
use fluke_model::secret::Secret;
use fluke_model::service::Phase;
use fluke_model::status::Status;
use fluke_wire::client::{ClientTls, Target};

use super::support::{Fleet, TOKEN};

const HOSTS: u32 = 200;
/// Every fifth is one, the first among them.
const WEB: usize = 40;
/// So many of them are slow where fifty of a thousand are.
const SLOW: u64 = 9;
const FIRST: &str = "web-eu-00000";

fn services(release: u32) -> String {
    format!(
        r#"
service "everywhere" {{
  selector {{
    match_labels = {{}}
  }}
  image = "images.example/everywhere:1"
}}

service "web" {{
  selector {{
    match_labels = {{ role = "web" }}
  }}
  image = "images.example/web:{release}"
  port "http" {{
    container = 8080
    domain    = "www.example.com"
  }}
  health {{
    command = "true"
  }}
}}

service "store" {{
  replicas = 3
  selector {{
    match_labels = {{ role = "db" }}
  }}
  image = "images.example/store:1"
  volume "data" {{
    path = "/var/lib/store"
  }}
}}
"#
    )
}

/// So many hosts that keep services, all of which run.
async fn serving() -> (Fleet, Swarm) {
    let fleet = Fleet::start().await;
    let mut swarm = Swarm::new(SwarmOptions {
        shares: Shares { proxies: 20, ..Shares::NONE },
        services: true,
        start_takes: Duration::from_millis(20),
        ..SwarmOptions::to(target(fleet.server().grpc))
    })
    .expect("the server is trusted");
    swarm.join(HOSTS).await.expect("they join");
    fleet.commit("services", &services(1)).await;
    fleet.until("it is in force", |fleet| fleet.source().commit.is_some()).await;
    finds(&swarm, "everywhere", HOSTS as usize).await;
    finds(&swarm, "web", WEB).await;
    finds(&swarm, "store", 3).await;
    fleet.settles().await;
    (fleet, swarm)
}

fn target(grpc: impl Display) -> Target {
    Target {
        url: format!("grpc://{grpc}").parse().expect("a url"),
        token: Secret::new(TOKEN),
        tls: ClientTls::default(),
    }
}

/// Waits until every host finds so many containers by a name.
async fn finds(swarm: &Swarm, service: &str, containers: usize) {
    let found = swarm.find(HOSTS.into(), service, containers).await;
    found.unwrap_or_else(|error| panic!("{containers} of {service}: {error}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_leaves_the_names_of_every_host_and_comes_back() {
    let (fleet, swarm) = serving().await;
    fleet
        .until("all are in one mesh", |_| swarm.know_peers(HOSTS as usize) == u64::from(HOSTS))
        .await;
    swarm.loses(FIRST, "web").await.expect("the host is there");
    let timing = swarm.names_are_without(HOSTS.into()).await.expect("all hear of it");
    assert_eq!(timing.count, u64::from(HOSTS));
    finds(&swarm, "web", WEB - 1).await;
    fleet.until("it is known", |fleet| fleet.agent(FIRST).status() != Status::InSync).await;
    swarm.regains(FIRST, "web").await.expect("the host is there");
    finds(&swarm, "web", WEB).await;
    fleet.settles().await;
    assert_eq!(swarm.statistics().resends, 0, "every edit fits");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_commit_replaces_goes_when_nothing_leads_to_it_any_more() {
    let (fleet, swarm) = serving().await;
    fleet.commit("another release", &services(2)).await;
    fleet
        .until("nothing but the new release runs", |fleet| {
            let known = fleet.server().registry.agent(FIRST);
            let known = known.into_iter().flat_map(|known| known.service_details);
            let of_web = known.filter(|service| service.name.as_str() == "web");
            let running: Vec<_> = of_web.flat_map(|service| service.deployments).collect();
            let is_new = running.iter().all(|it| it.image == "images.example/web:2");
            is_new && running.len() == 1 && running[0].phase == Phase::Running
        })
        .await;
    finds(&swarm, "web", WEB).await;
    fleet.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_day_of_deaths_all_is_as_it_was() {
    let (fleet, swarm) = serving().await;
    let before = swarm.statistics().edits;
    let weather = Weather { deaths: 100.0, flaps: 100.0, drops: 20.0, ..Weather::default() };
    tokio::select! {
        () = swarm.weather(weather) => {}
        () = fleet.until("it was heard of", |_| {
            swarm.statistics().edits > before + 10 * u64::from(HOSTS)
        }) => {}
    }
    swarm.all_are_in().await.expect("all come back");
    finds(&swarm, "everywhere", HOSTS as usize).await;
    finds(&swarm, "web", WEB).await;
    finds(&swarm, "store", 3).await;
    fleet.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_host_that_drifts_is_repaired_and_those_that_are_slow_are_told_apart() {
    let fleet = Fleet::start().await;
    let mut swarm = Swarm::new(SwarmOptions {
        shares: Shares { slow: 50, ..Shares::NONE },
        slow_takes: Duration::ZERO,
        ..SwarmOptions::to(target(fleet.server().grpc))
    })
    .expect("the server is trusted");
    swarm.join(HOSTS).await.expect("they join");
    let step = "shell \"it\" {\n    check   = \"false\"\n    command = \"true\"\n  }";
    let task =
        format!("task \"t\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  {step}\n}}\n");
    fleet.commit("a step for all", &task).await;
    fleet.until("it is in force", |fleet| fleet.source().commit.is_some()).await;
    fleet.settles().await;
    swarm.slow_ones_take(Duration::from_millis(10));
    let heard = swarm.traffic();
    let timing = swarm.drifts_everywhere().await.expect("all are repaired");
    assert_eq!(swarm.statistics().applies, u64::from(HOSTS));
    assert_eq!(timing.count, u64::from(HOSTS) - SLOW, "of those that are not slow");
    assert!(swarm.traffic().since(heard).sent > 100 * u64::from(HOSTS), "each told its story");
    fleet.settles().await;
}
