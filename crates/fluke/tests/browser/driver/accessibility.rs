//! Things on a page by role and name, from the tree that a screen reader gets.

use serde_json::{Value, json};

use super::page::Page;

/// Something on a page.
pub struct Element<'a> {
    page: &'a Page,
    /// The browser's number for it.
    node: u64,
    pub(super) name: String,
}

/// Where to click on an element, or why that is not possible.
const POINT: &str = "function () {
    this.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
    if (this.disabled || this.getAttribute('aria-disabled') === 'true') return 'it is disabled';
    const box = [...this.getClientRects()].find((it) => it.width > 0 && it.height > 0);
    if (!box) return 'it is not visible';
    const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    const there = document.elementFromPoint(at.x, at.y);
    if (!there) return 'it is outside of the window';
    const label = this.labels && [...this.labels].some((it) => it.contains(there));
    if (!this.contains(there) && !label) return `${there.outerHTML.slice(0, 80)} covers it`;
    return at;
}";

impl Page {
    /// Everything of this role, in order.
    pub(super) async fn of_role(&self, role: &str) -> Vec<Element<'_>> {
        // Fails while a document replaces another: nothing is there yet.
        let Ok(document) = self.try_call("DOM.getDocument", json!({ "depth": 0 })).await else {
            return Vec::new();
        };
        let params = json!({ "nodeId": document["root"]["nodeId"], "role": role });
        let Ok(found) = self.try_call("Accessibility.queryAXTree", params).await else {
            return Vec::new();
        };
        let nodes = found["nodes"].as_array().into_iter().flatten();
        nodes.filter(|node| node["ignored"] != true).filter_map(|node| self.element(node)).collect()
    }

    fn element(&self, node: &Value) -> Option<Element<'_>> {
        let number = node["backendDOMNodeId"].as_u64()?;
        Some(Element { page: self, node: number, name: name(node) })
    }

    /// Role and name of what has the focus.
    pub async fn focused(&self) -> (String, String) {
        let params = json!({ "expression": "document.activeElement" });
        let active = self.call("Runtime.evaluate", params).await;
        let params = json!({ "objectId": active["result"]["objectId"], "fetchRelatives": false });
        let tree = self.call("Accessibility.getPartialAXTree", params).await;
        let node = &tree["nodes"][0];
        (node["role"]["value"].as_str().unwrap_or_default().to_owned(), name(node))
    }
}

fn name(node: &Value) -> String {
    node["name"]["value"].as_str().unwrap_or_default().to_owned()
}

impl Element<'_> {
    /// Calls a function with the element as `this`.
    pub async fn call(&self, function: &str) -> Result<Value, String> {
        let params = json!({ "backendNodeId": self.node });
        let resolved = self.page.try_call("DOM.resolveNode", params).await?;
        let params = json!({
            "objectId": resolved["object"]["objectId"],
            "functionDeclaration": function,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let mut answer = self.page.try_call("Runtime.callFunctionOn", params).await?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(details.to_string()),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// With the mouse, in its middle, if nothing is in front of it.
    pub async fn click(&self) -> Result<(), String> {
        let at = self.call(POINT).await?;
        if let Some(why) = at.as_str() {
            return Err(why.to_owned());
        }
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let params = json!({
                "type": kind, "x": at["x"], "y": at["y"], "button": button, "buttons": buttons,
                "clickCount": 1,
            });
            self.page.try_call("Input.dispatchMouseEvent", params).await?;
        }
        Ok(())
    }

    pub async fn focus(&self) {
        let params = json!({ "backendNodeId": self.node });
        self.page.call("DOM.focus", params).await;
    }

    pub async fn select_all(&self) {
        self.call("function () { this.select?.() }").await.expect("a field");
    }

    /// The text that a person sees in it.
    pub async fn text(&self) -> String {
        let text = self.call("function () { return this.innerText ?? this.textContent }").await;
        text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }
}
