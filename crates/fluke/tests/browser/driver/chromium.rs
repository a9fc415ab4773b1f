//! The one Chromium of this process, and the people who look at pages with it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::Connection;
use super::page::Page;

/// So many stories at a time: more only slow each other down.
const AT_ONCE: usize = 3;

/// Names under which Debian and others install it.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

const FLAGS: &[&str] = &[
    "--headless",
    "--remote-debugging-pipe",
    // As root in a container there is no sandbox to be had; it sees our own pages only.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--mute-audio",
    // Nothing but what a page asks for goes over the network.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-quic",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-pings",
    "--disable-features=Translate,OptimizationHints,MediaRouter,AutofillServerCommunication",
    // Several pages at a time, none of which is in front.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    // The same picture everywhere.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
    "--lang=en-US",
];

/// Starts it with the protocol at descriptors 3 and 4, and removes its profile once it is gone.
/// It goes when the pipe is closed; a signal from the terminal does not keep the shell from tidying.
const SCRIPT: &str = r#"
trap : INT TERM HUP
profile=$(mktemp -d -p "$1") || exit 1
shift
"$@" --user-data-dir="$profile" about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1
rm -rf "$profile"
"#;

struct Browser {
    connection: Arc<Connection>,
    seats: Arc<Semaphore>,
}

/// Somebody with a fresh browser profile: no cookies, no cache. Gone when the story is.
pub struct Visitor {
    connection: Arc<Connection>,
    context: String,
    _seat: OwnedSemaphorePermit,
}

/// Whether there is a browser to tell stories in; says why not.
pub fn can_run() -> bool {
    browser().inspect_err(|why| skip(why)).is_ok()
}

/// Somebody who looks at `http://{address}/…`; none where there is no Chromium.
pub async fn visitor(address: impl std::fmt::Display) -> Option<Page> {
    let browser = browser().inspect_err(|why| skip(why)).ok()?;
    let seat = browser.seats.clone().acquire_owned().await.expect("a seat");
    let context = browser
        .connection
        .call(None, "Target.createBrowserContext", json!({ "disposeOnDetach": true }))
        .await
        .expect("a profile");
    let visitor = Visitor {
        connection: browser.connection.clone(),
        context: text(&context, "browserContextId"),
        _seat: seat,
    };
    Some(Page::open(visitor, format!("http://{address}")).await)
}

impl Visitor {
    /// Opens a tab; its session.
    pub async fn tab(&self) -> (Arc<Connection>, String) {
        let params = json!({ "url": "about:blank", "browserContextId": self.context });
        let created = self.connection.call(None, "Target.createTarget", params).await;
        let target = text(&created.expect("a tab"), "targetId");
        let params = json!({ "targetId": target, "flatten": true });
        let attached = self.connection.call(None, "Target.attachToTarget", params).await;
        (self.connection.clone(), text(&attached.expect("a session"), "sessionId"))
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let params = json!({ "browserContextId": self.context });
        let _ = self.connection.call_blocking(None, "Target.disposeBrowserContext", params);
    }
}

fn browser() -> Result<&'static Browser, String> {
    static BROWSER: OnceLock<Result<Browser, String>> = OnceLock::new();
    BROWSER.get_or_init(start).as_ref().map_err(Clone::clone)
}

fn start() -> Result<Browser, String> {
    let program = find().ok_or("there is no Chromium: apt-get install chromium")?;
    let mut shell = Command::new("sh")
        .args(["-c", SCRIPT, "sh", env!("CARGO_TARGET_TMPDIR")])
        .arg(program)
        .args(FLAGS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("Chromium does not start: {error}"))?;
    let (to, from) = (shell.stdin.take(), shell.stdout.take());
    let (to, from) = (to.expect("a pipe"), from.expect("a pipe"));
    let connection = Connection::new(to, from);
    connection.call_blocking(None, "Browser.getVersion", json!({})).map_err(|why| {
        format!("Chromium does not run ({why}); `chromium --headless --no-sandbox` says why")
    })?;
    Ok(Browser { connection, seats: Arc::new(Semaphore::new(AT_ONCE)) })
}

fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    let mut places = PROGRAMS.iter().flat_map(|name| folders.iter().map(move |it| it.join(name)));
    places.find(|path| path.is_file())
}

/// Says why a story does not run; with `CI` set that is a failure.
#[expect(clippy::print_stdout, reason = "scripts/test lists what was skipped")]
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    println!("SKIP: {why}");
}

pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}")).to_owned()
}
