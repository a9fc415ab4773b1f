// Pieces that several pages are made of.

import { pathOf } from "./api.js";
import { icon, statusIcon } from "./icons.js";
import { ago, clock, eventTitle, eventTone, exactly, count, ownerName, since, took, triggerName } from "./words.js";
import { h } from "./view.js";

export const agentLink = (name, props) => h("a", { href: pathOf("agents", name), ...props }, name);
export const taskLink = (name, props) => h("a", { href: pathOf("tasks", name), ...props }, name);

export const serviceLink = (name, props) => h("a", { href: pathOf("services", name), ...props }, name);

/** Where more is told of what a drift is of. */
export const ownerLink = (entry) => (entry.task ? taskLink(entry.task) : entry.service ? serviceLink(entry.service) : ownerName(entry));

/** A moment, relative to now; the exact one on pointing. */
export function moment(time, say = ago) {
  if (!time) return h("span", { class: "quiet" }, "never");
  return h("time", { datetime: time, title: exactly(time) }, say(time, Date.now()));
}

export const standingSince = (time) => (time ? moment(time, since) : null);

/** Something that went wrong after it once went well: what is shown may be old. */
export const outOfDate = (problem) => problem && notice("drifted", "What you see may be old", h("p", null, problem.message, " It is tried again by itself."));

/** What is known of a thing, pair by pair. */
export const facts = (...pairs) => h("dl", { class: "facts" }, pairs.map(([what, value]) => h("div", { key: what }, h("dt", null, what), h("dd", null, value))));

export function labelList(labels) {
  const pairs = Object.entries(labels);
  return h("span", { class: "labels" }, pairs.map(([key, value]) =>
    h("span", { class: "label", key }, h("span", { class: "label-key" }, `${key}=`), value)));
}

/** Which hosts, label by label. */
export function selectorList({ match_labels: labels = {}, match_expressions: expressions = [] }) {
  const wanted = [
    ...Object.entries(labels).map(([key, value]) => `${key}=${value}`),
    ...expressions.map(({ key, operator, values = [] }) => [key, operator.replace("_", " "), values.join(", ")].filter(Boolean).join(" ")),
  ];
  return wanted.length === 0 ? "every host" : h("span", { class: "labels" }, wanted.map((text) => h("span", { key: text, class: "label" }, text)));
}

export const policyTag = (policy) => h("code", { class: "tag" }, policy);

/** What a command printed, or any text that keeps its lines. */
export function output(text, label = "Output") {
  return h("pre", { class: "output", tabindex: 0, role: "group", "aria-label": label }, text.trimEnd());
}

/** A unified diff, line by line. */
export function diff(text) {
  const kind = { "+": "added", "-": "removed", "@": "place" };
  const lines = text.trimEnd().split("\n");
  return h("pre", { class: "output diff", tabindex: 0, role: "group", "aria-label": "What differs" },
    lines.map((line) => h("span", { class: kind[line[0]] }, `${line}\n`)));
}

/** Something that went wrong, and what to do about it. */
export function trouble(title, detail, ...more) {
  return h("div", { class: "notice is-failed", role: "alert" },
    statusIcon("failed"), h("div", null, h("strong", null, title), h("p", null, detail), more));
}

export function notice(status, title, ...more) {
  return h("div", { class: `notice is-${status}` },
    statusIcon(status), h("div", null, h("strong", null, title), more));
}

/** A list without content says what to do next. */
export const empty = (title, ...more) => h("div", { class: "empty" }, h("h2", null, title), more);

/** A page without content. */
export const nothingHere = (title, ...more) => h("div", { class: "empty" }, h("h1", null, title), more);

export const waiting = (what) => h("p", { class: "waiting", role: "status" }, `Reading ${what} …`);

/** A command to copy. */
export const command = (text) => h("pre", { class: "command", tabindex: 0, role: "group", "aria-label": "Command" }, text);

/** One event: what, where, why, how it ended; its output unfolds. */
export function eventLine(event, { withAgent = true, withTask = true, withService = true } = {}) {
  const tone = eventTone(event);
  const where = [
    withAgent && event.agent && agentLink(event.agent),
    withTask && event.task && taskLink(event.task),
    withService && event.service && serviceLink(event.service),
    event.step && h("code", null, event.step),
  ].filter(Boolean);
  const why = [
    event.by && `by ${event.by}`,
    event.trigger && !event.by && triggerName(event.trigger),
    event.commit && `commit ${event.commit.slice(0, 9)}`,
    event.duration_ms !== null && event.duration_ms !== undefined && `took ${took(event.duration_ms)}`,
  ].filter(Boolean);
  return h("li", { key: event.id, class: `event is-${tone}` },
    h("span", { class: "event-dot" }, statusIcon(tone)),
    h("div", { class: "event-body" },
      h("p", { class: "event-head" },
        h("strong", null, eventTitle(event)),
        where.map((part) => [" ", part]),
        h("span", { class: "event-time" }, moment(event.time, (time, now) => `${clock(time, now)}, ${ago(time, now)}`))),
      why.length > 0 && h("p", { class: "quiet" }, why.join(" · ")),
      event.output && said(event.output, tone),
      event.diagnostics?.length > 0 && event.diagnostics.map(codeFrame)));
}

/** A short line as it is, more folded, with the last telling one in sight. */
function said(text, tone) {
  const lines = text.trimEnd().split("\n");
  if (lines.length === 1 && text.length < 500) return h("p", { class: "said" }, text);
  const last = lines.findLast((line) => line.trim() !== "" && !line.startsWith("[command ")) ?? "";
  return h("details", { initially: { open: tone === "failed" && lines.length < 12 } },
    h("summary", null, h("span", { class: "said" }, last.slice(0, 160)), h("span", { class: "quiet" }, ` ${count(lines.length, "line")}`)),
    output(text));
}

/** A diagnostic with the lines it is about, marked. */
export function codeFrame(diagnostic) {
  const { file, line, column, end_line: endLine, end_column: endColumn, source = [] } = diagnostic;
  return h("figure", { class: `frame is-${diagnostic.severity === "warning" ? "drifted" : "failed"}` },
    h("figcaption", null, h("strong", null, diagnostic.message),
      h("span", { class: "frame-place" }, icon("file"), ` ${file}:${line}:${column}`)),
    source.length > 0 && h("pre", { tabindex: 0, role: "group", "aria-label": `${file}, line ${line}` },
      source.map((text, index) => {
        const number = line + index;
        const from = number === line ? column : 1;
        const to = number === endLine ? endColumn : text.length + 1;
        return [
          h("span", { class: "frame-number" }, String(number).padStart(5), " │ "), `${text}\n`,
          h("span", { class: "frame-number" }, "      │ "),
          h("span", { class: "frame-marks" }, text.slice(0, Math.max(0, from - 1)).replace(/[^\t]/gu, " ") + "^".repeat(Math.max(1, to - from))), "\n",
        ];
      })),
    diagnostic.help && h("p", null, h("strong", null, "Help: "), diagnostic.help));
}
