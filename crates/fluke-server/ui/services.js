// Services: what should run, where it does, how it is reached, what is wrong or waits.

import { pathOf, resource } from "./api.js";
import { agentLink, empty, facts, notice, nothingHere, outOfDate, output, policyTag, selectorList, serviceLink, trouble, waiting } from "./parts.js";
import { asWritten, count, policyMeaning, STATUSES, statusName } from "./words.js";
import { statusIcon } from "./icons.js";
import { listen } from "./store.js";
import { reconcileButton } from "./reconcile.js";
import { timeline } from "./timeline.js";
import { h } from "./view.js";

const PAUSE = 1000;
/** What is wrong with one service, in the list of all. */
const MOST_WRONG = 3;
const byWeight = (a, b) => STATUSES.indexOf(a.status) - STATUSES.indexOf(b.status);
/** Behind what is wrong: what a host is away of, and what nobody gets in to. */
const isShort = (service) => service.counts.serving < service.counts.wanted || Boolean(lackOfWays(service)) || service.deployments.some(isWrong);
const byTrouble = (a, b) => byWeight(a, b) || isShort(b) - isShort(a);

export function servicesPage(go, _, redraw) {
  const services = resource("/services?well=false", redraw, PAUSE);
  const stop = listen((kind) => ["service", "source", "reloaded"].includes(kind) && services.refresh());
  return {
    name: "services",
    title: "Services",
    isReady: () => Boolean(services.data || services.problem),
    leave: () => { stop(); services.stop(); },
    render() {
      if (services.problem && !services.data) return trouble("Services cannot be read", services.problem.message, h("p", null, h("a", { href: "/source" }, "Source")));
      if (!services.data) return waiting("services");
      const list = [...services.data.services].sort(byTrouble);
      return [
        outOfDate(services.problem),
        h("header", { class: "headline" }, h("h1", null, count(list.length, "service")), list.length > 0 && h("p", { class: "quiet" }, sayAll(list))),
        list.length === 0 && noServices(),
        h("ul", { class: "cards", "data-list": true }, list.map(serviceRow)),
      ];
    },
  };
}

function sayAll(list) {
  const wrong = list.filter((service) => service.status !== "in_sync" || isShort(service)).length;
  if (wrong === 0) return "All are as they should be.";
  return wrong === 1 ? "1 is not as it should be." : `${wrong} are not as they should be.`;
}

function noServices() {
  return empty("The repository has no service yet",
    h("p", null, "A service puts containers on the hosts that its selector matches, and makes them reachable. Commit one:"),
    output(EXAMPLE, "A first service"));
}

const EXAMPLE = `service "web" {
  selector {
    match_labels = { role = "app" }
  }
  image = "registry.example/shop/web:1.4.2"

  port "http" {
    container = 3000
    domain    = "shop.example.com"
  }
}`;

function serviceRow(service) {
  return h("li", { key: service.name, class: `card is-${service.status}` },
    h("div", { class: "card-head" },
      statusIcon(service.status), h("h2", null, serviceLink(service.name)), policyTag(service.policy),
      h("span", { class: "quiet" }, sayCounts(service))),
    service.description && h("p", null, service.description),
    wrongs(service),
    h("p", { class: "quiet small" }, h("code", null, service.image), entrances(service).map((text) => [" · ", text])));
}

/** Also what runs as it should and has something to say, such as that nothing listens. */
const isWrong = (it) => it.phase !== "retiring" && (["failed", "drifted", "offline"].includes(it.status) || (it.status === "in_sync" && it.note));

/** What is wrong with it, in a few words: the rest is on its own page. */
function wrongs(service) {
  const wrong = service.deployments.filter(isWrong).sort(byWeight);
  const lack = lackOfWays(service);
  const lines = [
    ...(service.waiting ?? []).map((why) => ["drifted", why]),
    ...(lack ? [["drifted", `${lack.title}: ${lack.whys.join("; ")}`]] : []),
    ...wrong.map((it) => [it.status === "in_sync" ? "drifted" : it.status, `${it.agent}: ${it.note ?? state(it)}`]),
  ];
  return lines.length > 0 && h("ul", { class: "plain-list" },
    lines.slice(0, MOST_WRONG).map(([status, text]) => h("li", { key: text }, statusIcon(status), h("div", null, h("p", null, text)))),
    lines.length > MOST_WRONG && h("li", { key: "more", class: "quiet" }, `and ${lines.length - MOST_WRONG} more`));
}

/** Why nothing comes in from outside, or not everywhere. */
function lackOfWays({ routes }) {
  const route = routes.find(({ proxies, behind = [] }) => proxies === 0 || behind.length > 0);
  if (!route) return null;
  const ways = routes.map(entrance).join(", ");
  return route.proxies === 0
    ? { title: `No proxy is connected for ${ways}`, whys: ["one whose agent is away leads where it led before; without any, nothing comes in from outside"] }
    : { title: `${ways} is loaded by ${route.loaded} of ${count(route.proxies, "proxy", "proxies")}`, whys: route.behind };
}

function sayCounts({ counts }) {
  const serving = `${counts.serving} of ${count(counts.wanted, "replica")} serving`;
  return counts.failed > 0 ? `${serving}, ${counts.failed} failed` : serving;
}

const entrances = (service) => (service.routes.length > 0 ? service.routes.map(entrance) : [service.hostname]);

/** Where the world finds it. */
function entrance({ domain, external, protocol, port }) {
  if (domain && !external) return domain;
  return external ? `${domain ?? ""}:${external}/${protocol}` : port;
}

export function servicePage(go, name, redraw) {
  const service = resource(pathOf("services", name), redraw, 300);
  const history = timeline({ service: name }, redraw);
  const stop = listen((kind, data) => (["source", "reloaded"].includes(kind) || (kind === "service" && data.name === name)) && service.refresh());
  return {
    name: "service",
    title: name,
    isReady: () => Boolean(service.data || service.problem),
    leave: () => { stop(); service.stop(); history.leave(); },
    render() {
      if (service.problem && !service.data) {
        return service.problem.status === 404
          ? nothingHere(`No service is called ${name}`, h("p", null, service.problem.message), h("p", null, h("a", { href: "/services" }, "All services")))
          : trouble(`${name} cannot be read`, service.problem.message);
      }
      if (!service.data) return waiting(name);
      return [outOfDate(service.problem), draw(service.data, history)];
    },
  };
}

function containers(service) {
  const settings = settingsOf(service);
  return settings.length > 0 && [h("h2", null, "Containers"), facts(...settings)];
}

/** What Git says of its containers, besides the image; what is not set is not told. */
function settingsOf(service) {
  const { ports, command = [], env = [], volumes = {}, health, cpu_millis: cpu, memory, reschedule_after_ms: movesAfter } = service;
  const code = (text) => h("code", null, text);
  const lines = (list) => list.map((line, at) => [at > 0 && h("br"), code(line)]);
  return [
    ports.length > 0 && ["Ports", lines(ports.map(sayPort))],
    command.length > 0 && ["Command", code(command.map(quoted).join(" "))],
    env.length > 0 && ["Variables", code(env.join(", "))],
    Object.keys(volumes).length > 0 && ["Volumes", lines(Object.entries(volumes).map(([name, path]) => `${name}: ${path}`))],
    health && ["Health", [code(health.command), " ", h("span", { class: "quiet" }, sayHealth(health))]],
    (cpu || memory) && ["Resources", [cpu && `cpu ${cpu / 1000}`, memory && `memory ${amount(memory)}`].filter(Boolean).join(", ")],
    movesAfter !== undefined && ["Moves", `from a host away for ${asWritten(movesAfter)}`],
  ].filter(Boolean);
}

function sayPort({ name, container, protocol, domain, external }) {
  return `${name}: ${container}/${protocol}, from ${domain || external ? entrance({ domain, external, protocol }) : "within the mesh alone"}`;
}

/** As a shell takes it literally. */
const quoted = (word) => (/^[A-Za-z0-9\-_./:@%+=,]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function sayHealth({ interval_ms: interval, timeout_ms: timeout, retries, start_period_ms: start }) {
  return `(every ${asWritten(interval)}, timeout ${asWritten(timeout)}, retries ${retries}${start > 0 ? `, start period ${asWritten(start)}` : ""})`;
}

const AMOUNTS = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

/** In the largest unit of which it is a whole number. */
function amount(bytes) {
  const [size, unit] = AMOUNTS.find(([size]) => bytes % size === 0);
  return `${bytes / size}${unit}`;
}

function draw(service, history) {
  const replicas = [...service.deployments].sort(byWeight);
  const lack = lackOfWays(service);
  return [
    h("header", { class: "headline with-action" },
      h("div", null,
        h("p", { class: "crumbs" }, h("a", { href: "/services" }, "Services")),
        h("h1", null, statusIcon(service.status), service.name),
        service.description && h("p", null, service.description),
        h("p", { class: "under" }, h("strong", null, statusName(service.status)), h("span", { class: "quiet" }, sayCounts(service)))),
      reconcileButton({ scope: "service", name: service.name }, { "data-reconcile": true })),
    (service.waiting ?? []).map((why) => notice("drifted", why, h("p", null, h("a", { href: "/" }, "Which hosts there are"), ", with their labels"))),
    lack && notice("drifted", lack.title, lack.whys.map((why) => h("p", { key: why }, why))),
    facts(
      ["Image", h("code", null, service.image)],
      ["Defined in", h("code", null, service.defined)],
      ["On drift", [policyMeaning(service.policy), " ", policyTag(service.policy)]],
      ["Replicas", service.replicas === null ? "one on each matching host" : String(service.replicas)],
      ["Selects", selectorList(service.selector)]),
    h("div", { class: "columns" },
      h("section", { "aria-label": "Replicas and ways in" },
        h("h2", null, "Replicas"),
        replicas.length === 0 && empty("Nothing runs yet"),
        h("ul", { class: "cards", "data-list": true }, replicas.map((it) => replicaCard(service, it))),
        h("h2", null, "Reached at"),
        ways(service),
        containers(service)),
      h("section", { "aria-label": "Timeline" }, h("h2", null, "Timeline"), history.render({ withService: false }))),
  ];
}

function replicaCard(service, it) {
  const waits = service.policy === "alert_only" && it.status === "drifted" && it.connected;
  return h("li", { key: `${it.agent} ${it.deployment}`, class: `card is-${it.status}` },
    h("div", { class: "card-head" },
      statusIcon(it.status), h("h3", null, agentLink(it.agent)),
      it.replica !== null && h("span", { class: "quiet" }, `replica ${it.replica}`),
      h("span", null, stands(it)),
      waits && reconcileButton({ scope: "service", name: service.name, agent: it.agent }, { "aria-label": `Reconcile ${service.name} on ${it.agent} …` })),
    it.note && h("p", { class: "reason" }, it.note),
    h("p", { class: "quiet small" }, it.container && [h("code", null, it.container), " · "], h("code", null, it.image), it.digest && [" ", h("code", { title: it.digest }, it.digest.slice(0, 19))], it.address && [" · at ", h("code", null, it.address)]));
}

/** How far it is, and how it feels where somebody asks it. */
function state({ phase, health, serves }) {
  const feels = health === "none" || health === "starting" ? phase : `${phase}, ${health}`;
  return serves ? `${feels}, serving` : feels;
}

/** What is known of a host that is away may no longer be so. */
const stands = (it) => (it.status === "offline" ? `offline; last known: ${state(it)}` : state(it));

function ways(service) {
  const upstreams = (list) => (list.length === 0 ? "nowhere: nothing serves" : list.join(", "));
  return facts(
    [service.hostname, upstreams(service.addresses)],
    ...service.routes.map((route) => [entrance(route), [
      upstreams(route.upstreams), " ",
      h("span", { class: "quiet" }, route.proxies === 0 ? "(no proxy is connected)" : `(loaded by ${route.loaded} of ${count(route.proxies, "proxy", "proxies")})`),
      (route.behind ?? []).map((why) => h("p", { class: "reason" }, why)),
    ]]));
}

const PARTS = { names: "DNS", routes: "The proxy", mesh: "The mesh", containers: "What is left of containers" };

/** The services of one host, as its page shows them. */
export function servicesOf(agent) {
  const services = agent.service_details ?? [];
  const broken = (agent.network ?? []).filter((part) => part.problem);
  if (services.length === 0 && broken.length === 0) return null;
  return [
    h("h2", null, "Services"),
    broken.map((part) => trouble(`${PARTS[part.part] ?? part.part} is not as it should be`, part.problem)),
    h("ul", { class: "cards", "data-list": true }, [...services].sort(byWeight).map((service) => h("li", { key: service.name, class: `card is-${service.status}` },
      h("div", { class: "card-head" }, statusIcon(service.status), h("h3", null, serviceLink(service.name, { "aria-label": `Service ${service.name}` })), policyTag(service.policy),
        service.status !== "in_sync" && agent.connected && reconcileButton({ scope: "service", name: service.name, agent: agent.name }, { class: service.policy === "alert_only" ? "primary" : "", "aria-label": `Reconcile ${service.name} …` })),
      service.deployments.length === 0 && h("p", { class: "quiet" }, (agent.executors ?? []).includes("container") ? "Its agent has not spoken of it yet." : "This agent does not run containers."),
      h("ul", { class: "plain-list" }, [...service.deployments].sort(byWeight).map((it) => h("li", { key: `${it.replica} ${it.phase} ${it.image}` },
        statusIcon(it.status),
        h("div", null,
          h("p", null, [it.replica !== null && `replica ${it.replica}`, state(it)].filter(Boolean).join(" · ")),
          it.note && h("p", { class: "reason" }, it.note),
          h("p", { class: "quiet small" }, h("code", null, it.image), it.address && [" · at ", h("code", null, it.address)])))))))),
  ];
}
