// Services: what should run, where it does, how it is reached, what is wrong or waits.

import { pathOf, resource } from "./api.js";
import { agentLink, empty, facts, notice, nothingHere, outOfDate, output, policyTag, selectorList, serviceLink, trouble, waiting } from "./parts.js";
import { count, policyMeaning, STATUSES, statusName } from "./words.js";
import { icon, statusIcon } from "./icons.js";
import { listen } from "./store.js";
import { timeline } from "./timeline.js";
import { h } from "./view.js";

const PAUSE = 1000;
const byWeight = (a, b) => STATUSES.indexOf(a.status) - STATUSES.indexOf(b.status);

export function servicesPage(go, _, redraw) {
  const services = resource("/services", redraw, PAUSE);
  const stop = listen((kind) => ["service", "source", "reloaded"].includes(kind) && services.refresh());
  return {
    name: "services",
    title: "Services",
    isReady: () => Boolean(services.data || services.problem),
    leave: () => { stop(); services.stop(); },
    render() {
      if (services.problem && !services.data) return trouble("Services cannot be read", services.problem.message, h("p", null, h("a", { href: "/source" }, "Source")));
      if (!services.data) return waiting("services");
      const list = [...services.data.services].sort(byWeight);
      return [
        outOfDate(services.problem),
        h("header", { class: "headline" }, h("h1", null, count(list.length, "service"))),
        list.length === 0 && noServices(),
        h("ul", { class: "cards", "data-list": true }, list.map(serviceRow)),
      ];
    },
  };
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
    h("p", { class: "quiet small" }, h("code", null, service.image), entrances(service).map((text) => [" · ", text])));
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

function draw(service, history) {
  const replicas = [...service.deployments].sort(byWeight);
  return [
    h("header", { class: "headline" },
      h("p", { class: "crumbs" }, h("a", { href: "/services" }, "Services")),
      h("h1", null, statusIcon(service.status), service.name),
      service.description && h("p", null, service.description),
      h("p", { class: "under" }, h("strong", null, statusName(service.status)), h("span", { class: "quiet" }, sayCounts(service)))),
    (service.waiting ?? []).map((why) => notice("drifted", "Something waits", h("p", null, why))),
    facts(
      ["Image", h("code", null, service.image)],
      ["Defined in", h("code", null, service.defined)],
      ["On drift", [policyMeaning(service.policy), " ", policyTag(service.policy)]],
      ["Replicas", service.replicas === null ? "one on each matching host" : String(service.replicas)],
      ["Selects", selectorList(service.selector)]),
    h("div", { class: "columns" },
      h("section", { "aria-label": "Replicas and ways in" },
        h("h2", null, count(replicas.length, "replica")),
        replicas.length === 0 && empty("Nothing runs", h("p", null, "No host that runs services matches its selector.")),
        h("ul", { class: "cards", "data-list": true }, replicas.map(replicaCard)),
        h("h2", null, "Reached at"),
        ways(service)),
      h("section", { "aria-label": "Timeline" }, h("h2", null, "Timeline"), history.render({ withService: false }))),
  ];
}

function replicaCard(it) {
  return h("li", { key: `${it.agent} ${it.deployment}`, class: `card is-${it.status}` },
    h("div", { class: "card-head" },
      statusIcon(it.status), h("h3", null, agentLink(it.agent)),
      h("span", { class: "quiet" }, [it.replica !== null && `replica ${it.replica}`, state(it)].filter(Boolean).join(" · "))),
    it.note && h("p", { class: "reason" }, it.note),
    h("p", { class: "quiet small" }, h("code", null, it.image), it.address && [" · ", h("code", null, it.address)], it.digest && [" · ", h("code", { title: it.digest }, it.digest.slice(0, 19))]));
}

/** How far it is, and how it feels where somebody asks it. */
function state({ phase, health, serves }) {
  const feels = health === "none" || health === "starting" ? phase : `${phase}, ${health}`;
  return serves ? `${feels}, serving` : feels;
}

function ways(service) {
  const upstreams = (list) => (list.length === 0 ? "nowhere: nothing serves" : list.join(", "));
  return facts(
    [service.hostname, upstreams(service.addresses)],
    ...service.routes.map((route) => [entrance(route), [
      upstreams(route.upstreams), " ",
      h("span", { class: "quiet" }, route.proxies === 0 ? "(no proxy is connected)" : `(loaded by ${route.loaded} of ${count(route.proxies, "proxy", "proxies")})`),
    ]]));
}

/** The services of one host, as its page shows them. */
export function servicesOf(agent) {
  const services = agent.service_details ?? [];
  const broken = (agent.network ?? []).filter((part) => part.problem);
  if (services.length === 0 && broken.length === 0) return null;
  return [
    h("h2", null, "Services"),
    broken.map((part) => trouble(`${part.part} are not as they should be`, part.problem)),
    h("ul", { class: "cards" }, [...services].sort(byWeight).map((service) => h("li", { key: service.name, class: `card is-${service.status}` },
      h("div", { class: "card-head" }, statusIcon(service.status), h("h3", null, serviceLink(service.name)), policyTag(service.policy)),
      service.deployments.length === 0 && h("p", { class: "quiet" }, "Its agent has not spoken of it yet."),
      service.deployments.map((it) => h("p", { key: it.container ?? it.replica, class: "quiet small" },
        icon("services"), " ", [it.replica !== null && `replica ${it.replica}`, state(it), it.address].filter(Boolean).join(" · "), it.note && [": ", it.note]))))),
  ];
}
