use axum::Router;
use axum::extract;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use fluke_model::id::{AgentName, TaskName};
use fluke_model::label::Labels;
use tokio::net::{TcpListener, TcpSocket};

use super::*;
use crate::alert::News;

/// What a receiver does with a request.
enum Answer {
    Status(u16),
    RetryAfter(u16, &'static str),
    Redirect(String),
    /// Nothing until told; then 503.
    Held(Arc<Notify>),
    Silence,
}

/// A receiver that answers as told, then 200 to everything, and keeps what it took.
#[derive(Clone, Default)]
struct Inbox(Arc<InboxState>);

#[derive(Default)]
struct InboxState {
    script: Mutex<VecDeque<Answer>>,
    taken: watch::Sender<Vec<String>>,
    asked: watch::Sender<usize>,
}

impl Inbox {
    fn then(self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.0.script.lock().expect("lock").extend(answers);
        self
    }

    fn serve(&self, listener: TcpListener) {
        let router = Router::new().route("/", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
    }

    async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        self.serve(listener);
        url
    }

    /// The tasks of the first `count` alerts taken.
    async fn takes(&self, count: usize) -> Vec<String> {
        let mut taken = self.0.taken.subscribe();
        taken.wait_for(|taken| taken.len() >= count).await.expect("alive").clone()
    }

    async fn is_asked(&self, times: usize) {
        self.0.asked.subscribe().wait_for(|asked| *asked >= times).await.expect("alive");
    }
}

async fn take(extract::State(inbox): extract::State<Inbox>, body: String) -> Response {
    let answer = inbox.0.script.lock().expect("lock").pop_front();
    inbox.0.asked.send_modify(|asked| *asked += 1);
    match answer.unwrap_or(Answer::Status(200)) {
        Answer::Status(200) => {
            let alert: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            let task = alert["task"].as_str().expect("a task").to_string();
            inbox.0.taken.send_modify(|taken| taken.push(task));
            "ok".into_response()
        }
        Answer::Status(status) => {
            http::StatusCode::from_u16(status).expect("a status").into_response()
        }
        Answer::RetryAfter(status, value) => {
            let status = http::StatusCode::from_u16(status).expect("a status");
            (status, [("retry-after", value)]).into_response()
        }
        Answer::Redirect(to) => {
            (http::StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response()
        }
        Answer::Held(release) => {
            release.notified().await;
            http::StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        Answer::Silence => std::future::pending().await,
    }
}

/// Keeps what was recorded, where a test can wait for it.
#[derive(Default)]
struct Recorded(watch::Sender<Vec<Event>>);

impl EventSink for Recorded {
    fn record(&self, event: Event) {
        self.0.send_modify(|events| events.push(event));
    }
}

impl Recorded {
    async fn wait(&self, count: usize) -> Vec<String> {
        let mut events = self.0.subscribe();
        let events = events.wait_for(|events| events.len() >= count).await.expect("alive");
        events.iter().map(|event| event.output.clone().unwrap_or_default()).collect()
    }
}

fn quick(url: String) -> AlertSettings {
    let millisecond = Duration::from_millis(1);
    let schedule = Schedule {
        first: millisecond,
        longest: millisecond,
        longest_asked: millisecond,
        ..Schedule::default()
    };
    AlertSettings { schedule, ..AlertSettings::new(url) }
}

fn start(settings: AlertSettings) -> (Alerter, Arc<Recorded>) {
    let recorded = Arc::new(Recorded::default());
    (Alerter::start(settings, recorded.clone()).expect("starts"), recorded)
}

fn alert(task: impl ToString) -> Alert {
    Alert {
        at: Timestamp(0),
        agent: AgentName::new("web-01").expect("name"),
        labels: Labels::default(),
        of: Owner::Task(TaskName::new(task.to_string()).expect("name")),
        commit: None,
        reason: None,
        news: News::DriftResolved,
    }
}

async fn settled(alerter: &Alerter) -> AlertCounts {
    loop {
        let counts = alerter.counts();
        if counts.waiting == 0 {
            return counts;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_receiver_that_is_down_gets_everything_in_order_when_it_is_up() {
    // Bound and not listening: connections are refused, and nobody else can take the port.
    let socket = TcpSocket::new_v4().expect("socket");
    socket.bind("127.0.0.1:0".parse().expect("address")).expect("loopback");
    let url = format!("http://{}/", socket.local_addr().expect("bound"));
    let (alerter, recorded) = start(quick(url));
    let tasks: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();

    tasks.iter().for_each(|task| alerter.send(alert(task)));
    let told = recorded.wait(1).await;
    assert!(told[0].starts_with("the alert webhook at 127.0.0.1 does not take alerts"), "{told:?}");

    let inbox = Inbox::default();
    inbox.serve(socket.listen(64).expect("listens"));
    assert_eq!(inbox.takes(50).await, tasks);
    let counts = settled(&alerter).await;
    assert_eq!(counts, AlertCounts { delivered: 50, ..AlertCounts::default() });
    assert_eq!(recorded.wait(1).await.len(), 1, "an outage is told of once");
}

#[tokio::test]
async fn an_alert_is_tried_until_the_receiver_takes_it() {
    let inbox = Inbox::default().then([
        Answer::Status(500),
        Answer::Status(503),
        Answer::RetryAfter(429, "3600"),
        Answer::Status(408),
    ]);
    let (alerter, _) = start(quick(inbox.listen().await));
    alerter.send(alert("first"));
    alerter.send(alert("second"));
    assert_eq!(inbox.takes(2).await, ["first", "second"]);
    inbox.is_asked(6).await;
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_asked_again() {
    let inbox = Inbox::default().then([Answer::Silence]);
    let timeout = Duration::from_millis(300);
    let (alerter, recorded) = start(AlertSettings { timeout, ..quick(inbox.listen().await) });
    alerter.send(alert("patient"));
    assert_eq!(inbox.takes(1).await, ["patient"]);
    assert!(recorded.wait(1).await[0].contains("timed out"), "{:?}", recorded.wait(1).await);
}

#[tokio::test]
async fn what_the_receiver_refuses_is_recorded_and_holds_up_nothing() {
    let elsewhere = Inbox::default();
    let inbox =
        Inbox::default().then([Answer::Status(404), Answer::Redirect(elsewhere.listen().await)]);
    let (alerter, recorded) = start(quick(inbox.listen().await));
    for task in ["gone", "moved", "fine"] {
        alerter.send(alert(task));
    }
    assert_eq!(inbox.takes(1).await, ["fine"]);
    let told = recorded.wait(2).await;
    assert!(told[0].contains("gone") && told[0].contains("404 Not Found"), "{told:?}");
    assert!(told[1].contains("redirects are not followed"), "{told:?}");
    assert_eq!(*elsewhere.0.asked.borrow(), 0);
    let counts = settled(&alerter).await;
    assert_eq!(counts, AlertCounts { delivered: 1, failed: 2, ..AlertCounts::default() });
}

#[tokio::test]
async fn a_full_queue_drops_its_oldest_and_says_so() {
    let release = Arc::new(Notify::new());
    let inbox = Inbox::default().then([Answer::Held(release.clone())]);
    let settings = AlertSettings { capacity: 3, ..quick(inbox.listen().await) };
    let (alerter, recorded) = start(settings);
    alerter.send(alert("under-way"));
    inbox.is_asked(1).await;
    for number in 0..5 {
        alerter.send(alert(number));
    }
    assert_eq!((alerter.counts().waiting, alerter.counts().dropped), (3, 3));

    release.notify_one();
    assert_eq!(inbox.takes(3).await, ["under-way", "3", "4"]);
    let told = recorded.wait(3).await.join("\n");
    assert!(told.contains("the oldest are dropped"), "{told}");
    assert!(told.contains("3 alerts were dropped while the receiver was away"), "{told}");
}

#[tokio::test]
async fn an_alert_that_is_too_old_is_given_up() {
    let inbox = Inbox::default().then([Answer::Status(500)]);
    let mut settings = quick(inbox.listen().await);
    settings.schedule.give_up_after = Duration::ZERO;
    let (alerter, recorded) = start(settings);
    alerter.send(alert("old"));
    assert!(recorded.wait(1).await[0].contains("given up after 0 hours"));
    assert_eq!(settled(&alerter).await.failed, 1);
}

#[tokio::test]
async fn closing_delivers_what_waits_without_the_long_pauses() {
    let inbox = Inbox::default().then([Answer::Status(500)]);
    let mut settings = quick(inbox.listen().await);
    settings.schedule.first = Duration::from_secs(3600);
    settings.schedule.longest = Duration::from_secs(3600);
    let (alerter, recorded) = start(settings);
    alerter.send(alert("last"));
    recorded.wait(1).await;
    assert_eq!(alerter.close(Duration::from_secs(30)).await, 0);
    assert_eq!(inbox.takes(1).await, ["last"]);
    assert_eq!(alerter.close(Duration::from_secs(30)).await, 0, "closing twice is closing");
}

#[tokio::test]
async fn closing_ends_though_the_receiver_is_down() {
    let inbox = Inbox::default().then([Answer::Silence]);
    let (alerter, _) = start(quick(inbox.listen().await));
    alerter.send(alert("lost"));
    inbox.is_asked(1).await;
    assert_eq!(alerter.close(Duration::from_millis(1)).await, 1);
}

#[tokio::test]
async fn the_address_is_checked_at_the_start_and_never_shown_whole() {
    for bad in ["", "hooks.example/x", "ftp://hooks.example/x", "unix:///x"] {
        let started = Alerter::start(AlertSettings::new(bad), Arc::new(Recorded::default()));
        assert!(matches!(started, Err(AlerterError::Url(_))), "{bad}");
    }
    let inbox = Inbox::default();
    let url = inbox.listen().await.replace("http://", "http://user:pass@") + "secret?key=secret";
    let (alerter, recorded) = start(quick(url));
    alerter.send(alert("certs"));
    let told = recorded.wait(1).await.join("\n");
    assert!(told.contains("127.0.0.1"), "{told}");
    assert!(!told.contains("secret") && !told.contains("pass"), "{told}");
}
