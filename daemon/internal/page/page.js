"use strict";

// Every value from swpd becomes a text node: nothing is parsed as HTML.

const kept = 120; // snapshots for curves: two minutes
const views = [...document.querySelectorAll("main > section")];
const history = []; // snapshots, the oldest first
const $ = (id) => document.getElementById(id);

// visible shows characters that have no shape, or change the direction of others, by their numbers, and
// spaces at an end or after another one, which HTML leaves out.
const visible = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{DI}\p{Zl}\p{Zp}]|^ | $|(?<= ) /gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");

// element makes an element with attributes and children. A child that is no node becomes text.
function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children.map((c) => (c instanceof Node ? c : document.createTextNode(visible(c)))));
  return e;
}

const status = (text, kind) => element("span", { class: kind }, text);
const time = (t) => (t ? element("time", { datetime: t, title: t }, t.slice(0, 19).replace("T", " ") + "Z") : "");

const most = 500; // rows of a table

// fill replaces the rows of a table. A column is a title; one that begins with #
// has numbers. There are over more rows than are shown.
function fill(table, columns, rows, nothing, over = rows.length - most) {
  rows = rows.slice(0, most);
  if (!table.parentElement.classList.contains("scroll")) {
    let title = table;
    while (!/^H[23]$/.test(title.tagName)) title = title.previousElementSibling;
    const box = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table: " + title.textContent });
    table.replaceWith(box);
    box.append(table);
  }
  if (rows.length === 0) {
    table.replaceChildren(element("caption", {}, nothing));
    return;
  }
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const kind = columns.map((c) => (c.startsWith("#") ? { class: "number" } : {}));
  const head = element("tr", {}, ...columns.map((c, i) => element("th", { scope: "col", ...kind[i] }, c.replace(/^#/, ""))));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => element("td", kind[i], cell ?? "")))); 
  table.replaceChildren(...(over > 0 ? [element("caption", {}, count(over) + " more are not shown")] : []), element("thead", {}, head), element("tbody", {}, ...body));
  if (focused) [...table.querySelectorAll("button")].find((b) => b.dataset.key === focused)?.focus();
}

// Operators act with a token, which is in this variable and nowhere else.
let token = "";
let actions = [];
let pressed = false; // a button must stay until it is released

window.addEventListener("pointerdown", () => (pressed = true));
window.addEventListener("pointerup", () => (pressed = false));
window.addEventListener("pointercancel", () => (pressed = false));

// buttons are the actions on a row of a kind; those on swpd itself have no kind.
function buttons(kind, row = {}) {
  if (!token || (kind && !(row.owner && row.id))) return [];
  return actions.filter((a) => (a.kind ?? "") === kind && (!a.states || a.states.includes(row.state))).map((a) => {
    const verb = a.name.split(".").pop();
    const b = element("button", { type: "button", class: a.final ? "final" : "", title: a.does, "data-key": [a.name, row.owner, row.id].join("\n") }, verb);
    if (row.id) b.setAttribute("aria-label", verb + " " + row.id);
    b.addEventListener("click", () => act(a, kind ? { owner: row.owner, id: row.id } : {}));
    return b;
  });
}

// confirmed asks before an action that cannot be undone.
function confirmed(a, target) {
  $("confirm-title").textContent = a.name;
  $("confirm-does").textContent = a.does + ".";
  $("confirm-target").textContent = target.id ? visible(target.id + " of " + target.owner) : "";
  const dialog = $("confirm");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

// act does an action and shows its result.
async function act(a, target) {
  if (a.final && !(await confirmed(a, target))) return;
  const what = a.name + (target.id ? " " + visible(target.id) : "") + ": ";
  $("acted").className = "";
  $("acted").textContent = what + "…";
  try {
    const answer = await fetch("/actions/" + a.name, { method: "POST", headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" }, body: JSON.stringify(target), credentials: "omit" });
    if (answer.status === 401) operate("");
    if (!answer.ok) throw new Error((await answer.text()).trim());
    $("acted").textContent = what + (await answer.json()).said;
  } catch (error) {
    $("acted").className = "bad";
    $("acted").textContent = what + error.message;
  }
  if (shown().id === "stored") stored();
}

// operate begins to act with a token, or with "" to read only.
function operate(t) {
  token = t;
  $("token").value = "";
  $("operator-form").querySelector("button").textContent = token ? "Stop acting" : "Act";
  $("operator").textContent = token ? "acting" : "read-only";
  $("token").hidden = $("operator-form").querySelector("label").hidden = token !== "";
  $("whole").replaceChildren(...buttons(""));
  redraw();
  if (shown().id === "stored") stored();
}

// ready learns the actions. Without operators in the configuration there is no form for a token.
async function ready() {
  const answer = await fetch("/actions");
  if (!answer.ok) return;
  const list = await answer.json();
  actions = list.actions;
  $("operator-form").hidden = !list.operators;
  $("operator").textContent = list.operators ? "read-only" : "read-only: admin.actions names no operator";
  kinds = list.kinds;
  $("kind").replaceChildren(...kinds.map((k) => element("option", { value: k.name }, k.name)));
  if (shown().id === "stored") stored();
}

// The fields of a row of stored data, in the order of the columns.
const fields = { owner: String, id: String, name: String, state: String, count: (n) => count(n), octets: (n) => octets(n), begun: time, ended: time, note: String };
let kinds = [];
let asked = 0; // the last request for rows

// stored shows a page of stored data, from a place on.
async function stored(after = "") {
  const kind = kinds.find((k) => k.name === $("kind").value);
  if (!kind) return;
  const mine = ++asked;
  const form = new FormData($("stored-form"));
  for (const name of ["owner", "id", "name", "state"]) {
    const input = $("stored-form").elements[name];
    input.disabled = input.closest("label").hidden = !kind.titles[name];
    if (input.disabled) form.delete(name);
  }
  form.delete("kind");
  $("kind-does").textContent = kind.does + ".";
  const query = new URLSearchParams([...form].filter(([, v]) => v !== ""));
  if (after) query.set("after", after);
  try {
    const answer = await fetch("/store/" + kind.name + "?" + query);
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const page = await answer.json();
    if (mine !== asked) return; // another one was asked for since
    const names = Object.keys(fields).filter((f) => kind.titles[f]);
    const titles = names.map((f) => (f === "count" || f === "octets" ? "#" : "") + kind.titles[f]);
    const rows = page.rows.map((row) => [...names.map((f) => (row[f] === undefined ? (f === "count" ? "0" : "") : fields[f](row[f]))), element("span", { class: "actions" }, ...buttons(kind.name, row))]);
    fill($("kept"), token ? [...titles, "actions"] : titles, token ? rows : rows.map((r) => r.slice(0, -1)), "there are none");
    $("stored-said").textContent = number(page.rows.length, "row") + (page.next ? ", and there may be more" : "");
    const next = element("button", { type: "button" }, "next page");
    next.addEventListener("click", () => stored(page.next));
    $("more").replaceChildren(...(page.next ? [next] : []));
  } catch (error) {
    if (mine === asked) $("stored-said").textContent = error.message;
  }
}

const samples = (s, name) => s.metrics[name] ?? [];
const value = (s, name) => samples(s, name).reduce((sum, one) => sum + one.value, 0);
const labels = (one) => Object.entries(one.labels ?? {}).filter(([, v]) => v).map(([k, v]) => k + "=" + v).join(" ");
const count = (n) => Math.round(n).toLocaleString("en");
const number = (n, what) => (n === 0 ? "no" : count(n)) + " " + what + (n === 1 ? "" : "s");

function octets(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return n.toFixed(1).replace(".0", "") + " " + unit;
    n /= 1024;
  }
}

function seconds(t) {
  if (t >= 1) return t.toFixed(2) + " s";
  return t >= 0.001 ? (t * 1000).toFixed(1) + " ms" : Math.round(t * 1e6) + " µs";
}

function span(from, to) {
  const s = Math.max(0, Math.round((to - from) / 1000));
  if (s >= 86400) return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  return s >= 3600 ? Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min" : s >= 60 ? Math.floor(s / 60) + " min" : s + " s";
}

// quantile is the upper bound of the bucket in which a part of the observations ends.
function quantile(one, part) {
  const at = (one.buckets ?? []).find(([, n]) => n >= part * one.value);
  return at ? "≤ " + seconds(at[0]) : "more";
}

// rates are the differences a second between snapshots of the sum of some samples.
function rates(of) {
  const list = [];
  for (let i = 1; i < history.length; i++) {
    const passed = (history[i].time - history[i - 1].time) / 1000;
    list.push(passed > 0 ? Math.max(0, of(history[i]) - of(history[i - 1])) / passed : 0);
  }
  return list;
}

function curve(list, title) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const most = Math.max(1, ...list);
  const points = list.map((y, i) => `${((i + kept - list.length) / kept) * 160},${23 - (y / most) * 22}`).join(" ");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points);
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 160 24");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  svg.append(line);
  return svg;
}

const last = (list) => list[list.length - 1] ?? 0;

// Each view is drawn only while it is shown.
const draw = {
  overview(s) {
    const st = s.status;
    const problems = [...(st.reasons ?? []).map((r) => status(r, "bad")), ...(st.warnings ?? []).map((w) => status(w, "warn"))].slice(0, most);
    $("problems").replaceChildren(...(problems.length ? [element("ul", { class: "problems" }, ...problems.map((p) => element("li", {}, p)))] : []));
    const tiles = [
      [count(last(rates((x) => value(x, "swpd_messages_total")))), "messages a second"],
      [count(st.sessions), "sessions"],
      [(st.partners ?? []).filter((p) => p.up).length + " of " + (st.partners ?? []).length, "partners connected"],
      [count(value(s, "swpd_a2a_tasks")), "unfinished tasks"],
      [count(value(s, "swpd_relay_waiting")), "deliveries waiting"],
      [count(value(s, "swpd_denials_total")), "denials"],
      [octets(st.in_flight_bytes.used), "in flight, of " + octets(st.in_flight_bytes.limit)],
      [octets(value(s, "swpd_store_used_bytes")), "stored, of " + octets(value(s, "swpd_store_quota_bytes"))],
    ];
    $("tiles").replaceChildren(...tiles.map(([v, name]) => element("div", { class: "tile" }, element("b", {}, v), element("span", {}, name))));
    fill($("endpoint"), ["what", "value"], [
      ["identity", st.identity], ["version", st.version], ["configuration", st.config || "built in"],
      ["running for", span(Date.parse(st.started), s.time)], ["listeners", (st.addresses ?? []).join(", ")],
      ["HTTP front", st.http || "off"], ["store", st.store], ["certificate until", time(st.certificate_not_after)],
    ], "");
  },
  exchanges(s) {
    const rows = [];
    for (const one of samples(s, "swpd_messages_total")) {
      const list = rates((x) => samples(x, "swpd_messages_total").find((o) => o.labels.profile === one.labels.profile)?.value ?? 0);
      if (one.value > 0) rows.push([one.labels.profile, count(last(list)), curve(list, one.labels.profile + ", messages a second"), count(one.value)]);
    }
    fill($("rates"), ["profile", "#messages a second", "two minutes", "#since the start"], rows, "no message has arrived yet");
    const ended = samples(s, "swpd_exchange_seconds").filter((o) => o.value > 0).sort((a, b) => b.value - a.value);
    fill($("latency"), ["profile", "operation", "outcome", "#exchanges", "#mean", "#half", "#99 of 100"],
      ended.map((o) => [o.labels.profile, o.labels.operation, o.labels.outcome, count(o.value), seconds(o.sum / o.value), quantile(o, 0.5), quantile(o, 0.99)]),
      "no exchange has ended yet");
  },
  refusals(s) {
    const names = { swpd_denials_total: "denied", swpd_rejects_total: "rejected", swpd_security_events_total: "security event", swpd_connections_refused_total: "connection refused", swpd_partner_refusals_total: "refused by a partner", swpd_store_refused_total: "refused by the store" };
    const rows = Object.entries(names).flatMap(([name, what]) => samples(s, name).filter((o) => o.value > 0).map((o) => {
      const list = rates((x) => samples(x, name).find((y) => labels(y) === labels(o))?.value ?? 0);
      return { n: o.value, row: [what, labels(o), count(o.value), last(list).toFixed(1), curve(list, what + ", a second")] };
    }));
    fill($("denials"), ["what", "reason", "#since the start", "#a second", "two minutes"], rows.sort((a, b) => b.n - a.n).map((r) => r.row), "nothing was denied or rejected");
  },
  partners(s) {
    fill($("links"), ["partner", "identity", "state", "pinned tools", "transport", "address", "for", "#queued", "#connects", "#failures"],
      (s.status.partners ?? []).map((p) => [p.name, p.identity, p.up ? status("connected", "good") : status(p.barred || p.failure || "not connected", "bad"),
        p.drifted?.length ? status(p.drifted.join(", ") + ": changed or gone, calls are refused", "bad") : "", p.transport ?? "", p.addr ?? "", p.up ? span(Date.parse(p.since), s.time) : "", count(p.queue?.messages ?? 0), count(p.connects), count(p.failures)]),
      "no partner is configured");
  },
  sessions(s) {
    fill($("connections"), ["#number", "identity", "transport", "address", "certificate until", ...(token ? ["actions"] : [])],
      s.sessions.map((c) => [c.number, c.identity, c.transport, c.addr, c.not_after ? time(new Date(c.not_after * 1000).toISOString()) : "",
        ...(token ? [element("span", { class: "actions" }, ...buttons("sessions", { owner: c.identity, id: c.id }))] : [])]), "no peer is connected", s.status.sessions - s.sessions.length);
  },
  queues(s) {
    const gauges = [["swpd_a2a_tasks", "unfinished tasks"], ["swpd_a2a_waiting", "tasks that wait for an agent"], ["swpd_relay_waiting", "deliveries waiting"],
      ["swpd_relay_in_flight", "deliveries in flight"], ["swpd_relay_queues", "topics with deliveries"], ["swpd_relay_consumers", "consumers"],
      ["swpd_store_write_queue", "writes waiting for the store"], ["swpd_partner_queue_messages", "messages waiting for partners"], ["swpd_handlers", "handlers running"]];
    const rows = gauges.map(([name, what]) => [what, count(value(s, name)), curve(history.map((x) => value(x, name)), what)]);
    for (const o of samples(s, "swpd_relay_dead_total")) if (o.value > 0) rows.push(["dead deliveries: " + o.labels.reason, count(o.value), ""]);
    fill($("waiting"), ["what", "#now", "two minutes"], rows, "");
    fill($("shares"), ["pool", "#used", "#capacity", "part", "most"], (s.status.shares ?? []).filter((p) => p.capacity > 0).map((p) => {
      const part = element("meter", { min: 0, max: p.capacity, high: p.capacity * 0.8, "aria-label": p.name + " in use" });
      part.value = p.used;
      return [p.name, count(p.used), count(p.capacity), part, (p.most ?? []).map((m) => (m.identity || "shared") + " " + count(m.used)).join(", ")];
    }), "");
  },
  servers(s) {
    const of = (name, server) => samples(s, name).filter((o) => o.labels?.server === server).reduce((n, o) => n + o.value, 0);
    fill($("mcp"), ["server", "#children", "#in flight", "#waiting", "#starts", "#exits", "#failures"],
      [...(s.status.mcp_servers ?? []), ...(s.status.mcp_servers_departing ?? [])].map((name) => [name, ...["swpd_mcp_children", "swpd_mcp_in_flight", "swpd_mcp_waiting", "swpd_mcp_child_starts_total", "swpd_mcp_child_exits_total"].map((m) => count(of(m, name))), count(of("swpd_mcp_child_failures_total", name) + of("swpd_mcp_url_failures_total", name))]),
      "no MCP server is configured");
  },
  behind(s) {
    const worst = ["failing", "away", "expiring", "suspended", "starting", "untried", "ok"];
    const kinds = { ok: "good", failing: "bad", away: "bad", expiring: "warn", suspended: "warn" };
    const things = [...(s.status.behind ?? [])].sort((a, b) => worst.indexOf(a.state) - worst.indexOf(b.state));
    fill($("things"), ["kind", "name", "state", "since", "last success", "last error", "it said", "#failures in 24 h", "what to do"], things.map((b) =>
      [b.kind, b.name, status(b.state, kinds[b.state] ?? ""), time(b.since), time(b.last_success), b.last_error ? element("span", {}, time(b.last_error.at), " ", b.last_error.text) : "",
        b.last_error?.output ? element("span", {}, ...b.last_error.output.flatMap((line) => [line, element("br")])) : "", count(b.failures_24h), b.remedy ?? ""]), "nothing is configured");
  },
  certificates(s) {
    fill($("certs"), ["file", "who", "issuer", "until", "left"], (s.status.certificates ?? []).map((c) => {
      const days = (Date.parse(c.not_after) - s.time) / 86400e3;
      return [c.file || "shown by " + (c.partner ?? "a partner"), c.identity || c.subject, c.issuer, time(c.not_after), status(Math.floor(days) + " days", days < 7 ? "bad" : days < 30 ? "warn" : "good")];
    }), "");
  },
};

let current = views[0];

function shown() {
  const id = location.hash.slice(1);
  return (current = views.find((v) => v.id === id) ?? current); // #main is the content of any
}

function show() {
  const view = shown();
  for (const v of views) v.hidden = v !== view;
  for (const a of document.querySelectorAll("nav a")) a.hash === "#" + view.id ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current");
  redraw();
  if (view.id === "stored") stored();
}

function redraw() {
  if (pressed) return;
  const s = history[history.length - 1];
  const { id } = shown();
  if (s && draw[id]) draw[id](s);
}

function health(text, kind) {
  if ($("health").textContent !== text) $("health").textContent = text; // a screen reader says only changes
  $("health").className = kind;
}

function listen() {
  const source = new EventSource("/live");
  source.onmessage = (event) => {
    const s = JSON.parse(event.data);
    const before = history[history.length - 1];
    if (before && before.status.started !== s.status.started) {
      history.length = 0; // another process
      ready();
    }
    history.push(s);
    if (history.length > kept) history.shift();
    $("identity").textContent = s.status.identity;
    document.title = "swpd " + s.status.identity;
    health(s.status.ready ? ((s.status.warnings ?? []).length ? "ready, with warnings" : "ready") : "not ready", s.status.ready ? ((s.status.warnings ?? []).length ? "warn" : "good") : "bad");
    redraw();
  };
  source.onerror = () => {
    health("swpd does not answer", "bad");
    void fetch("/actions").then((answer) => answer.status === 401 && health("the session has ended: open what swpd page prints", "bad"), () => {});
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
}

// ask sends the fields of a form and shows the answer or its refusal.
function ask(form, path, said, answered) {
  $(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams([...new FormData(event.target)].filter(([, v]) => v !== ""));
    $(said).textContent = "searching…";
    try {
      const answer = await fetch(path + "?" + query);
      if (!answer.ok) throw new Error(await answer.text());
      $(said).textContent = answered(await answer.json());
    } catch (error) {
      $(said).textContent = error.message;
    }
  });
}

ask("audit-form", "/audit", "audit-said", (found) => {
  fill($("records"), ["time", "identity", "profile", "operation", "name", "outcome", "rule or reason", "#took"], found.records.map((r) =>
    [time(r["@timestamp"]), (r["user.id"] ?? "") + (r["swp.for"] ? " for " + r["swp.for"] : ""), r["swp.profile"], r["swp.operation"], r["swp.name"], r["swp.outcome"], r["rule.id"] ?? r["event.reason"], seconds((r["event.duration"] ?? 0) / 1e9)]), "no record matches");
  return number(found.records.length, found.more ? "latest record" : "record") + (found.more ? "; older ones match, too" : "");
});

ask("rights-form", "/permissions", "rights-said", (p) => {
  const rows = (p.rules ?? []).map((r) => ["rule", [r.profile, r.operation, r.name].map((l) => (l ?? []).join(" ")).join(" · ") + (r.for ? " for " + r.for.join(" ") : "")]);
  for (const [key, what] of Object.entries({ agent_ids: "agent_id", mcp_servers: "MCP server", mcp_tools: "MCP tool", rpc_methods: "RPC method", a2a_kinds: "kind of task", agent_cards: "agent card", tools: "tool" })) {
    if (p[key]?.length) rows.push([what, p[key].join(", ")]);
  }
  for (const one of p.partners ?? []) rows.push(["partner", one.name + " (" + one.identity + "): " + one.profiles.join(", ")]);
  fill($("may"), ["kind", "what it may use"], rows, "");
  return p.denied ? p.identity + " is denied everything" : p.identity + (rows.length ? " may:" : " may do nothing");
});

$("operator-form").addEventListener("submit", (event) => {
  event.preventDefault();
  operate(token ? "" : $("token").value);
});
$("stored-form").addEventListener("submit", (event) => {
  event.preventDefault();
  stored();
});
$("kind").addEventListener("change", () => stored());

$("views").append(...views.map((v) => element("li", {}, element("a", { href: "#" + v.id }, v.querySelector("h2").textContent))));
window.addEventListener("hashchange", show);
show();
ready();
listen();
