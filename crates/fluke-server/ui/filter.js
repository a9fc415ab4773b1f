// Which agents are shown, as the address says: `?status=failed&label=role=web&name=db`.

/** Reads the filters of a query string. */
export function readFilter(search) {
  const query = new URLSearchParams(search);
  return {
    status: (query.get("status") ?? "").split(",").filter(Boolean),
    labels: query.getAll("label").filter(Boolean),
    name: query.get("name") ?? "",
    view: query.get("view") === "tiles" ? "tiles" : "rows",
  };
}

/** Writes them as a query string; what is usual is left out. */
export function writeFilter(filter) {
  const query = new URLSearchParams();
  if (filter.status.length) query.set("status", filter.status.join(","));
  for (const label of filter.labels) query.append("label", label);
  if (filter.name) query.set("name", filter.name);
  if (filter.view !== "rows") query.set("view", filter.view);
  const text = query.toString().replaceAll("%3D", "=").replaceAll("%2C", ",");
  return text ? `?${text}` : "";
}

/** The filter with `value` added to or taken out of one of its lists. */
export function toggled(filter, list, value) {
  const has = filter[list].includes(value);
  return { ...filter, [list]: has ? filter[list].filter((item) => item !== value) : [...filter[list], value] };
}

export const isFiltered = (filter) => filter.status.length + filter.labels.length + filter.name.length > 0;

/** Those agents that labels and name let through; statuses are left to the caller, who counts them. */
export function matching(agents, filter) {
  const wanted = filter.labels.map(pair);
  const isNamed = naming(filter.name.trim().toLowerCase());
  return agents.filter((agent) => isNamed(agent) && wanted.every(([key, value]) =>
    Object.hasOwn(agent.labels, key) && (value === null || agent.labels[key] === value)));
}

function pair(label) {
  const at = label.indexOf("=");
  return at < 0 ? [label, null] : [label.slice(0, at), label.slice(at + 1)];
}

/** What is typed is part of a name, or `label=` and the beginning of its value. */
function naming(text) {
  const [key, value] = pair(text);
  if (value === null) return (agent) => agent.name.toLowerCase().includes(text);
  return (agent) => Object.entries(agent.labels).some(([name, it]) =>
    name.toLowerCase() === key && it.toLowerCase().startsWith(value));
}

/** Label keys with their values and how many agents have them: the most telling keys first. */
export function facets(agents, mostKeys = 6, mostValues = 40) {
  const keys = new Map();
  for (const agent of agents) {
    for (const key in agent.labels) {
      if (!keys.has(key)) keys.set(key, new Map());
      const values = keys.get(key);
      values.set(agent.labels[key], (values.get(agent.labels[key]) ?? 0) + 1);
    }
  }
  const total = (values) => [...values.values()].reduce((sum, number) => sum + number, 0);
  return [...keys]
    .filter(([, values]) => values.size <= mostValues)
    .sort(([a, ofA], [b, ofB]) => total(ofB) - total(ofA) || (a < b ? -1 : 1))
    .slice(0, mostKeys)
    .map(([key, values]) => ({ key, values: [...values].sort(([a], [b]) => (a < b ? -1 : 1)) }));
}
