//! Services: what should run, where it does, how it is reached, what is wrong.

use std::net::Ipv4Addr;
use std::time::Duration;

use fluke_model::api::{DeploymentView, ServiceView};
use fluke_model::event::EventKind;
use fluke_model::id::{Hash256, ServiceName};
use fluke_model::service::{DeploymentId, DeploymentReport, Health, Phase, Replica};
use fluke_model::status::Status;
use fluke_model::verdict::{Drift, Verdict};

use super::stage::{Stage, parse};
use crate::stories::support::Fleet;

/// What the company runs in containers.
const MANIFEST: &str = r#"
service "game" {
  description = "The lobby of the game."

  drift {
    policy = "alert_only"
  }

  selector {
    match_labels = { role = "app", disk = "fast" }
  }
  image = "registry.example/game/lobby:3"

  port "lobby" {
    container = 7777
    protocol  = "udp"
    external  = 11001
  }
}

service "search" {
  description = "Finds what customers look for."
  replicas    = 2

  selector {
    match_labels = { role = "search" }
  }
  image = "registry.example/shop/search:9.1.0"
}

service "status" {
  description = "Tells the world how we are."

  selector {
    match_labels = { role = "edge" }
  }
  image = "registry.example/status:2"

  port "http" {
    container = 8080
    domain    = "status.example.com"
  }
}

service "web" {
  description = "The shop that customers see."

  selector {
    match_labels = { role = "app" }
  }
  image = "registry.example/shop/web:1.4.2"

  port "http" {
    container = 3000
    domain    = "shop.example.com"
  }

  health {
    command = "wget -qO- localhost:3000/health"
  }
}
"#;

const HOSTS: [(&str, &str); 4] = [
    ("app-01", "role=app,disk=fast,env=production"),
    ("app-02", "role=app,env=production"),
    ("app-03", "role=app,env=production"),
    ("app-04", "role=app,env=production"),
];

impl Stage {
    /// A troubled fleet that also runs services, of which some are on their way and some do not
    /// get there.
    pub async fn serving() -> Self {
        let mut stage = Self::calm().await;
        stage.fleet.commit_files("Containers", &[("services.fluke.hcl", MANIFEST)]).await;
        let newest = Some(stage.fleet.repository.head());
        stage.fleet.until("it is in force", |fleet| fleet.source().commit == newest).await;
        let proxy = parse("role=edge,env=production");
        stage.swarm.join_as_proxy("edge-01", proxy).await.expect("it joins");
        for (name, labels) in HOSTS {
            stage.swarm.join_as(name, parse(labels)).await.expect("it joins");
        }
        for (name, count) in
            [("edge-01", 1), ("app-01", 2), ("app-02", 1), ("app-03", 1), ("app-04", 1)]
        {
            let what = format!("{name} knows its services");
            let knows = |fleet: &Fleet| {
                let known = fleet.server().registry.agent(name);
                known.is_some_and(|known| known.service_details.len() == count)
            };
            stage.fleet.until(&what, knows).await;
            stage.runs(name, Vec::new()).await;
        }
        stage.run().await;
        stage.gets_into_trouble().await;
        stage
    }

    /// What should run of a service on a host, once that is known to have to do with services.
    async fn wanted(&self, service: &str, host: &str) -> DeploymentView {
        let is_there = |it: &DeploymentView| it.agent.as_str() == host;
        let asking = async {
            loop {
                let told = self.fleet.fluke(&["describe", "service", service, "-o", "json"]).await;
                assert_eq!((told.code, told.stderr.as_str()), (0, ""));
                let view: ServiceView = serde_json::from_str(&told.stdout).expect("as the API");
                if let Some(wanted) = view.deployments.into_iter().find(is_there) {
                    return wanted;
                }
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(60), asking).await;
        found.unwrap_or_else(|_| panic!("{service} never should run on {host}"))
    }

    /// One of a service's replicas that serves, on a host.
    async fn well(&self, service: &str, host: &str, address: [u8; 4]) -> DeploymentReport {
        let wanted = self.wanted(service, host).await;
        DeploymentReport {
            id: wanted.deployment,
            service: ServiceName::new(service).expect("a name"),
            replica: Replica::Own,
            verdict: Verdict::Satisfied,
            phase: Phase::Running,
            health: Health::Healthy,
            digest: Some(format!("sha256:{}", Hash256::of(wanted.image.as_bytes()))),
            image: wanted.image,
            container: Some(wanted.deployment.short()),
            address: Some(Ipv4Addr::from(address)),
            serves: true,
            note: None,
        }
    }

    /// The one before it, which serves until its successor does.
    fn retiring(&self, successor: &DeploymentReport, image: &str) -> DeploymentReport {
        DeploymentReport {
            id: DeploymentId(Hash256::of(b"what a commit said before")),
            phase: Phase::Retiring,
            image: image.into(),
            digest: Some(format!("sha256:{}", Hash256::of(image.as_bytes()))),
            ..successor.clone()
        }
    }

    async fn run(&self) {
        let nothing = |it: DeploymentReport, phase, note: &str| DeploymentReport {
            verdict: Verdict::Drifted(Drift::because(match phase {
                Phase::Stopped => "its container does not run",
                _ => "its container is missing",
            })),
            phase,
            health: Health::None,
            digest: None,
            container: None,
            address: None,
            serves: false,
            note: Some(note.into()),
            ..it
        };
        let status = self.well("status", "edge-01", [10, 200, 1, 2]).await;
        self.runs("edge-01", vec![DeploymentReport { health: Health::None, ..status }]).await;

        let web = self.well("web", "app-01", [10, 200, 2, 2]).await;
        let game = self.well("game", "app-01", [10, 200, 2, 3]).await;
        let note = "its container does not run; its policy is alert_only";
        let game = nothing(game, Phase::Stopped, note);
        self.runs("app-01", vec![web, game]).await;

        let web = self.well("web", "app-02", [10, 200, 3, 2]).await;
        let old = self.retiring(&web, "registry.example/shop/web:1.4.1");
        let web = nothing(web, Phase::Pulling, "3 of 5 layers are here");
        self.runs("app-02", vec![web, old]).await;

        let web = self.well("web", "app-03", [10, 200, 4, 2]).await;
        let note = "registry.example/shop/web:1.4.2 cannot be fetched: unauthorized: \
                    authentication required";
        self.runs("app-03", vec![nothing(web, Phase::Failed, note)]).await;

        let web = self.well("web", "app-04", [10, 200, 5, 2]).await;
        let unwell = DeploymentReport {
            verdict: Verdict::Drifted(Drift::because("it is not well")),
            phase: Phase::Failed,
            health: Health::Unhealthy,
            serves: false,
            ..web
        };
        self.runs("app-04", vec![unwell]).await;
        for (host, status) in [
            ("edge-01", Status::InSync),
            ("app-01", Status::Drifted),
            ("app-02", Status::Applying),
            ("app-03", Status::Failed),
            ("app-04", Status::Failed),
        ] {
            self.has(host, status).await;
        }
    }

    async fn runs(&self, host: &str, deployments: Vec<DeploymentReport>) {
        self.swarm.runs(host, deployments).await.expect("the host is there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_tell_what_is_wrong_first_and_change_without_a_reload() {
    let stage = Stage::serving().await;
    let Some(page) = stage.operator("/services").await else { return };
    page.is_at("services").await;
    page.finds("heading", "4 services").await;
    page.says("2 of 4 replicas serving, 2 failed").await;
    page.says("replicas 0, 1 wait for a host").await;
    page.clicks("link", "web").await;
    page.is_at("service").await;
    page.finds("heading", "web").await;
    page.says("unauthorized: authentication required").await;
    page.says("3 of 5 layers are here").await;
    page.says("loaded by 1 of 1 proxy").await;
    page.says("http: 3000/http, from shop.example.com").await;
    page.says("(every 10s, timeout 5s, retries 3)").await;

    let web = stage.well("web", "app-03", [10, 200, 4, 2]).await;
    stage.runs("app-03", vec![web]).await;
    page.says("10.200.4.2:3000").await;
    page.says("3 of 4 replicas serving, 1 failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_drifted_of_services_is_shown_beside_what_drifted_of_tasks() {
    let stage = Stage::serving().await;
    let Some(page) = stage.operator("/drift").await else { return };
    page.is_at("drift").await;
    page.says("container.game").await;
    page.says("unauthorized: authentication required").await;
    page.says("its container does not run").await;
    page.is_accessible("drift of services").await;
    page.clicks("button", "Reconcile game on app-01 …").await;
    let dialog = page.finds("dialog", "Reconcile game on app-01?").await;
    let text = dialog.text().await;
    assert!(text.contains("container.game") && !text.contains("container.web"), "{text}");
    page.clicks("button", "Cancel").await;

    let web = stage.well("web", "app-03", [10, 200, 4, 2]).await;
    stage.runs("app-03", vec![web]).await;
    page.stops_saying("unauthorized: authentication required").await;
    page.clicks("link", "game").await;
    page.is_at("service").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_waits_is_put_right_on_its_page() {
    let stage = Stage::serving().await;
    let Some(page) = stage.operator("/services/game").await else { return };
    page.is_at("service").await;
    page.says("its container does not run; its policy is alert_only").await;
    page.clicks("button", "Reconcile …").await;
    let dialog = page.finds("dialog", "Reconcile game?").await;
    assert!(dialog.text().await.contains("container.game"));
    page.is_accessible("a service is asked for").await;
    page.clicks("button", "Reconcile").await;
    page.finds("dialog", "Done").await;
    page.says("put right").await;
    page.clicks("button", "Close").await;
    page.says("1 of 1 replica serving").await;
    let asked = stage.fleet.events(&[EventKind::ReconcileRequested]).await;
    assert_eq!(asked[0].service, Some(ServiceName::new("game").expect("a name")));
    assert!(asked[0].by.as_deref().is_some_and(|by| by.contains("Ada")), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_shows_the_services_that_it_runs() {
    let stage = Stage::serving().await;
    let Some(page) = stage.operator("/agents/app-03").await else { return };
    page.is_at("agent").await;
    page.says("unauthorized: authentication required").await;
    page.clicks("link", "Service web").await;
    page.is_at("service").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_nobody_gets_in_to_says_so_though_it_runs() {
    let stage = Stage::serving().await;
    let Some(page) = stage.operator("/services").await else { return };
    page.is_at("services").await;
    page.says("2 of 4 replicas serving, 2 failed").await;
    stage.swarm.leave("edge-01").await.expect("it leaves");
    page.says("No proxy is connected for shop.example.com: ").await;
    page.is_accessible("services without a proxy").await;
    page.clicks("link", "web").await;
    page.is_at("service").await;
    page.says("No proxy is connected for shop.example.com").await;
    page.is_accessible("a service without a proxy").await;
}
