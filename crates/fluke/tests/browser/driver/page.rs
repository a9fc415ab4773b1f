//! One tab, and what a person does in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::PATIENCE;
use super::accessibility::Element;
use super::chromium::Visitor;
use super::conduct::{Conduct, Requested};
use super::connection::Connection;
use super::keys::Key;

/// How often to look again.
const LOOK: Duration = Duration::from_millis(20);
/// A desk's window, and a phone's.
const DESK: (u32, u32) = (1280, 800);
const PHONE: (u32, u32) = (375, 812);

/// Which of the two looks a person prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// A tab at a server's pages. When it is closed, it must have behaved: no request to anybody else,
/// no word of complaint in the console.
pub struct Page {
    pub(super) connection: Arc<Connection>,
    pub(super) session: String,
    origin: String,
    conduct: Arc<Conduct>,
    _visitor: Visitor,
}

impl Page {
    pub(super) async fn open(visitor: Visitor, origin: String) -> Self {
        let (connection, session) = visitor.tab().await;
        let conduct = Arc::<Conduct>::default();
        connection.listen(&session, conduct.clone());
        let page = Self { connection, session, origin, conduct, _visitor: visitor };
        for domain in ["Page", "Runtime", "Network", "Log", "DOM", "Accessibility"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        page.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })).await;
        page.at_a_desk().await;
        page.prefers(Scheme::Light).await;
        page
    }

    pub(super) async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.try_call(method, params).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub(super) async fn try_call(&self, method: &str, params: Value) -> Result<Value, String> {
        self.connection.call(Some(&self.session), method, params).await
    }

    // --- Where ---------------------------------------------------------------------------------

    /// Goes there as if the address had been typed, and waits until the page shows its data.
    pub async fn goes_to(&self, path: &str) {
        self.load(path).await;
        self.is_ready().await;
    }

    /// Goes there, and waits for nothing but the document.
    pub async fn load(&self, path: &str) {
        let url = format!("{}{path}", self.origin);
        let went = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(went["errorText"].is_null(), "{url}: {}", went["errorText"]);
        self.until("the document is there", "document.readyState === 'complete'").await;
    }

    /// Waits until the page shows its data.
    pub async fn is_ready(&self) {
        self.until("the page is ready", "!!document.querySelector('main[data-ready=true]')").await;
    }

    /// Waits until it is this page that shows its data.
    pub async fn is_at(&self, page: &str) {
        let selector = format!("main[data-page={page:?}][data-ready=true]");
        self.until(
            &format!("the page is {page}"),
            &format!("!!document.querySelector({selector:?})"),
        )
        .await;
    }

    /// Path and query, as in the address bar.
    pub async fn address(&self) -> String {
        self.evaluate("location.pathname + location.search").await
    }

    /// Waits until the address is this.
    pub async fn address_becomes(&self, address: &str) {
        let expression = format!("location.pathname + location.search === {}", json!(address));
        self.until(&format!("the address is {address}"), &expression).await;
    }

    pub async fn goes_back(&self) {
        self.evaluate::<Value>("history.back()").await;
    }

    pub async fn reload(&self) {
        self.call("Page.reload", json!({})).await;
        self.until("the document is there", "document.readyState === 'complete'").await;
    }

    // --- How -----------------------------------------------------------------------------------

    pub async fn at_a_desk(&self) {
        self.of_size(DESK, false).await;
    }

    pub async fn on_a_phone(&self) {
        self.of_size(PHONE, true).await;
    }

    async fn of_size(&self, (width, height): (u32, u32), mobile: bool) {
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile,
        });
        self.call("Emulation.setDeviceMetricsOverride", params).await;
    }

    /// Light or dark; without animations, so that what is seen is what will stay.
    pub async fn prefers(&self, scheme: Scheme) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme.as_str() },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Runs a script before any of the page's own, from the next document on.
    pub async fn before_each_document(&self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    }

    // --- Looking -------------------------------------------------------------------------------

    /// The value of a JavaScript expression; promises are waited for.
    pub async fn evaluate<T: DeserializeOwned>(&self, expression: &str) -> T {
        let value = self.try_evaluate(expression).await.unwrap_or_else(|why| panic!("{why}"));
        let shown = value.to_string();
        serde_json::from_value(value)
            .unwrap_or_else(|error| panic!("{expression}: {error}: {shown}"))
    }

    async fn try_evaluate(&self, expression: &str) -> Result<Value, String> {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.try_call("Runtime.evaluate", params).await?;
        match answer.get("exceptionDetails") {
            Some(details) => {
                let why = details["exception"]["description"].as_str();
                let short: String = expression.chars().take(200).collect();
                Err(format!("{short}: {}", why.unwrap_or("exception")))
            }
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true.
    pub async fn until(&self, what: &str, expression: &str) {
        let began = Instant::now();
        loop {
            // While a document replaces another, neither can be asked.
            let seen = self.try_evaluate(expression).await;
            if seen == Ok(Value::Bool(true)) {
                return;
            }
            if began.elapsed() > PATIENCE {
                panic!("waited in vain until {what} ({seen:?})\n{}", self.told().await);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the page says this.
    pub async fn says(&self, words: &str) {
        let expression = format!("document.body.innerText.includes({})", json!(words));
        self.until(&format!("the page says {words:?}"), &expression).await;
    }

    /// Waits until the page does not say this any more.
    pub async fn stops_saying(&self, words: &str) {
        let expression = format!("!document.body.innerText.includes({})", json!(words));
        self.until(&format!("the page does not say {words:?}"), &expression).await;
    }

    /// Waits until the stream from the server is on, or off.
    pub async fn is_live(&self, live: bool) {
        let state = if live { "on" } else { "off" };
        let expression = format!("document.documentElement.dataset.live === {state:?}");
        self.until(&format!("the stream is {state}"), &expression).await;
    }

    /// Waits until there is exactly one thing of this role and name.
    pub async fn finds(&self, role: &str, name: &str) -> Element<'_> {
        self.finds_where(role, &format!("{name:?}"), |found| found == name).await
    }

    async fn finds_where(
        &self,
        role: &str,
        what: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> Element<'_> {
        let began = Instant::now();
        loop {
            let all = self.of_role(role).await;
            let (mut found, others): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|element| is_it(&element.name));
            if found.len() == 1 {
                return found.remove(0);
            }
            if began.elapsed() > PATIENCE {
                let (count, told) = (found.len(), self.told().await);
                let names: Vec<_> = others.iter().map(|element| &element.name).collect();
                panic!("there are {count} of {role} {what}, and {names:?}\n{told}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether there is anything of this role and name.
    pub async fn has(&self, role: &str, name: &str) -> bool {
        self.of_role(role).await.iter().any(|element| element.name == name)
    }

    // --- Doing ---------------------------------------------------------------------------------

    /// Waits for it, and clicks on it with the mouse.
    pub async fn clicks(&self, role: &str, name: &str) {
        self.clicks_where(role, &format!("{name:?}"), |found| found == name).await;
    }

    /// The same, for what has this in its name.
    pub async fn clicks_on(&self, role: &str, part: &str) {
        self.clicks_where(role, &format!("…{part}…"), |found| found.contains(part)).await;
    }

    async fn clicks_where(&self, role: &str, what: &str, is_it: impl Fn(&str) -> bool) {
        let began = Instant::now();
        loop {
            let clicked = self.finds_where(role, what, &is_it).await.click().await;
            match clicked {
                Ok(()) => return,
                // It moved, was covered or replaced in between: as for a person, once more.
                Err(_) if began.elapsed() < PATIENCE => tokio::time::sleep(LOOK).await,
                Err(why) => panic!("{role} {what} cannot be clicked: {why}"),
            }
        }
    }

    /// Focuses a field and writes into it, in place of what was there.
    pub async fn writes(&self, role: &str, name: &str, text: &str) {
        let field = self.finds(role, name).await;
        field.focus().await;
        field.select_all().await;
        match text {
            "" => self.presses("Delete").await,
            text => drop(self.call("Input.insertText", json!({ "text": text })).await),
        }
    }

    /// Presses a key, with modifiers: `Tab`, `Shift+Tab`, `Enter`, `/`.
    pub async fn presses(&self, key: &str) {
        for event in Key::parse(key).events() {
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Goes on with Tab until this has the focus, as somebody without a mouse does.
    pub async fn tabs_to(&self, role: &str, name: &str) {
        const FAR: usize = 100;
        let mut met = Vec::new();
        for _ in 0..FAR {
            self.presses("Tab").await;
            let (found_role, found_name) = self.focused().await;
            if found_role == role && found_name == name {
                return;
            }
            met.push(format!("{found_role} {found_name:?}"));
        }
        panic!("Tab does not lead to {role} {name:?}, but to:\n{}", met.join("\n"));
    }

    // --- What it did ---------------------------------------------------------------------------

    pub fn requests(&self) -> Vec<Requested> {
        self.conduct.requests()
    }

    /// What a page must not do and did: requests to others, complaints in the console.
    pub fn misconduct(&self) -> Vec<String> {
        self.answers();
        let strangers = self.strangers().into_iter().map(|url| format!("it asked for {url}"));
        let complaints = self.conduct.complaints();
        strangers
            .chain(complaints.into_iter().map(|said| format!("it complained: {said}")))
            .collect()
    }

    /// The story provoked misconduct: this, and nothing else.
    pub fn forgives(&self, words: &[&str]) {
        let mut others = self.misconduct();
        others.retain(|found| !words.iter().any(|it| found.contains(it)));
        assert!(others.is_empty(), "the page does not behave: {others:#?}");
        self.conduct.forget();
    }

    /// For the one who reads why a story failed.
    async fn told(&self) -> String {
        let address = self.try_evaluate("location.href").await.unwrap_or_default();
        let text = self.try_evaluate("document.body.innerText").await.unwrap_or_default();
        let complaints = self.conduct.complaints().join("\n");
        format!("at {address}:\n{}\n{complaints}", text.as_str().unwrap_or_default())
    }

    /// Events come before the answer to what is asked after them: behind this, all are known.
    fn answers(&self) {
        let params = json!({ "expression": "1" });
        let _ = self.connection.call_blocking(Some(&self.session), "Runtime.evaluate", params);
    }

    fn strangers(&self) -> Vec<String> {
        let urls = self.requests().into_iter().map(|request| request.url);
        let within = format!("{}/", self.origin);
        urls.filter(|url| !url.starts_with(&within) && !url.starts_with("data:")).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let misconduct = if std::thread::panicking() { Vec::new() } else { self.misconduct() };
        self.connection.forget(&self.session);
        assert!(misconduct.is_empty(), "the page does not behave: {misconduct:#?}");
    }
}
