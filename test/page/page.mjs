// Tests of the admin page in Chromium: node page.mjs URL DIRECTORY STATE, or node page.mjs URL DIRECTORY act
//
// The first opens every view, light and dark, narrow and wide, and every kind of stored data, and writes a screenshot
// of each into the directory, whose names begin with STATE. The second acts as the operator with $TOKEN: each
// action of swpd is reached by keyboard, refused in its confirmation, clicked, and has an effect; the last
// stops swpd. Both fail if a value runs as a script, an element is outside the window, the page has too many
// elements or falls behind, it logs an error or loads something from elsewhere, or axe finds a serious fault.

import { mkdirSync, readFileSync } from "node:fs";
import puppeteer from "puppeteer-core";

const [address, directory, state] = process.argv.slice(2);
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const faults = [];
const figures = { looks: 0, elements: 0, longestTaskMs: 0, moderate: new Set() };
mkdirSync(directory, { recursive: true });

const maxElements = 20_000;
const maxTask = 5000; // ms that the page may be busy at once
const maxHeight = 2400; // of a screenshot
const crops = { "busy-overview-light-1200": 330, "busy-exchanges-dark-1200": 640, "confirm-dead.drop": 560, "abuse-stored-dead-light-1200": 520 }; // height of those for documents
const soon = { timeout: 60_000 };

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  protocolTimeout: 600_000,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// The session, for all pages of this browser.
const first = await browser.newPage();
await first.goto(process.env.ONCE);
await first.close();

async function open(scheme, width) {
  const page = await browser.newPage();
  await page.setBypassCSP(false);
  await page.setViewport({ width, height: 800 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.evaluateOnNewDocument(() => {
    globalThis.longest = 0;
    new PerformanceObserver((list) => (globalThis.longest = Math.max(globalThis.longest, ...list.getEntries().map((e) => e.duration)))).observe({ type: "longtask" });
  });
  page.on("console", (m) => m.type() === "error" && !m.location().url?.endsWith("/favicon.ico") && !stopping && faults.push("console: " + m.text()));
  page.on("pageerror", (e) => faults.push("error: " + e.message));
  page.on("request", (r) => new URL(r.url()).origin !== new URL(address).origin && faults.push("loads " + r.url()));
  page.on("dialog", (d) => (faults.push("a script ran: " + d.message()), d.dismiss()));
  await page.goto(address, { waitUntil: "domcontentloaded" });
  await page.waitForFunction(() => document.getElementById("health").textContent.startsWith("ready"), soon);
  return page;
}

let stopping = false; // swpd ends, and the page cannot connect

// look checks what is shown, and makes a screenshot.
async function look(page, name) {
  figures.looks++;
  const found = await page.evaluate(async () => {
    const longest = globalThis.longest;
    globalThis.longest = 0;
    const outside = [...document.body.querySelectorAll("*")].filter((e) => {
      const { left, right, width } = e.getBoundingClientRect();
      return width > 0 && (right > document.documentElement.clientWidth + 1 || left < -1) && !e.closest(".scroll *, .skip");
    });
    return {
      longest,
      elements: document.querySelectorAll("*").length,
      made: [...document.querySelectorAll("main :is(img, script, iframe, object, embed, style, link, a[href^=javascript])")].map((e) => e.outerHTML.slice(0, 80)),
      outside: outside.slice(0, 3).map((e) => e.tagName + "#" + e.id + " " + e.textContent.slice(0, 40)),
      wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
      old: Date.now() - history[history.length - 1].time,
    };
  });
  figures.elements = Math.max(figures.elements, found.elements);
  figures.longestTaskMs = Math.max(figures.longestTaskMs, Math.round(found.longest));
  if (found.made.length) faults.push(`${name}: a value became ${found.made}`);
  if (found.wide || found.outside.length) faults.push(`${name}: wider than the window: ${found.outside}`);
  if (found.elements > maxElements) faults.push(`${name}: ${found.elements} elements`);
  if (found.longest > maxTask) faults.push(`${name}: busy for ${found.longest} ms`);
  if (found.old > 30_000) faults.push(`${name}: shows a snapshot of ${found.old} ms ago`);
  const { width, height } = await page.evaluate(() => ({ width: document.documentElement.clientWidth, height: document.documentElement.scrollHeight }));
  await page.screenshot({ path: `${directory}/${name}.png`, clip: { x: 0, y: 0, width, height: Math.min(height, maxHeight) }, captureBeyondViewport: true });
  if (process.env.SWP_DOCS && crops[name]) {
    const part = name.replace(/-(light|dark)-1200$/, "").replace(".", "-");
    await page.screenshot({ path: `${process.env.SWP_DOCS}/page-${part}.png`, clip: { x: 0, y: 0, width, height: crops[name] } });
  }
  await page.evaluate(axe); // the debugger's context, which the policy of the page does not bind
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  for (const v of violations) {
    if (["serious", "critical"].includes(v.impact)) faults.push(`${name}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target).join(" ")}`);
    else figures.moderate.add(v.id);
  }
  await page.evaluate(() => (globalThis.longest = 0)); // axe is no part of the page
}

const go = (page, view) => page.click(`nav a[href="#${view}"]`);

// press clicks an element. One of a table is replaced each second, so it may be gone before the click.
async function press(page, select) {
  for (let left = 20; ; left--) {
    await page.waitForSelector(select, soon);
    try {
      return await page.click(select);
    } catch (error) {
      if (left === 0 || !/detached|not clickable/.test(error.message)) throw error;
    }
  }
}

// choose shows a kind of stored data, with filters.
async function choose(page, kind, filters = {}) {
  for (const [name, value] of Object.entries(filters)) await page.$eval(`#stored-form [name=${name}]`, (e, v) => (e.value = v), value);
  await page.$eval("#stored-said", (e) => (e.textContent = ""));
  await page.select("#kind", kind);
  await page.waitForFunction(() => document.getElementById("stored-said").textContent !== "", soon);
}

const trouble = [
  ["partners", "modern/look: changed or gone, calls are refused"], ["overview", "pinned tools of partner beta have changed or are gone"],
  ["partners", "has suspended"], ["partners", "swpd partner resume"], ["partners", "suspended"], ["overview", "partner delta is suspended"], ["audit", "pin:changed"],
]; // views and what they say of partners in trouble

async function views(scheme, width) {
  const page = await open(scheme, width);
  const curves = process.env.SWP_DOCS && state === "busy" && scheme === "dark" ? 45 : 3; // snapshots
  await page.waitForFunction((n) => history.length > n, soon, curves);
  const list = await page.$$eval("nav a", (list) => list.map((a) => a.hash.slice(1)));
  if (list.length < 10) faults.push(`only ${list.length} views`);
  for (const view of list) {
    await go(page, view);
    const shown = await page.$$eval("main > section", (list) => list.filter((s) => !s.hidden).map((s) => s.id));
    if (shown.join() !== view) faults.push(`${view}: shows ${shown}`);
    if (view === "audit" || view === "rights") {
      await page.type(`#${view} input[name=identity]`, view === "audit" ? "**" : "spiffe://acme.example/agent");
      await page.focus(`#${view} button`);
      await page.keyboard.press("Enter");
      await page.waitForFunction((id) => /record|may|denied/.test(document.getElementById(id + "-said").textContent), soon, view);
    }
    const text = await page.$eval(`#${view}`, (s) => s.innerText);
    if (state === "abuse" && view === "partners" && !text.includes("connection refused")) faults.push("the partner that is away has no reason");
    if (state === "troubled") for (const [at, said] of trouble) if (view === at && !text.includes(said)) faults.push(`${view} does not say ${said}: ${text}`);
    if (state === "abuse" && view === "sessions" && !text.includes("more are not shown")) faults.push("the sessions above the bound are not counted");
    if (text.length < 25) faults.push(`${view}: is empty: ${text}`);
    const kinds = view !== "stored" ? [""] : width > 1000 && scheme === "light" ? await page.$$eval("#kind option", (list) => list.map((o) => o.value)) : ["dead"];
    for (const kind of kinds) {
      if (kind) await choose(page, kind);
      const rows = kind ? await page.$eval("#kept", (e) => e.innerText) : "";
      for (const name of ["\\u{20}", "a\\u{3164}b"]) if (state === "abuse" && kind === "dead" && !rows.includes(name)) faults.push(`a name without a shape is not shown as ${name}`);
      if (state === "abuse" && kind === "artifacts" && !rows.includes("<script>alert(1)</script>")) faults.push("a hostile name is not shown as text");
      await look(page, [state, view, kind, scheme, width].filter(Boolean).join("-"));
    }
  }
  await page.close();
}

// The rest is what an operator does.

const posts = {}; // requests by action
const clicks = {}; // confirmed clicks by action

async function operator() {
  const page = await open("light", 1200);
  page.on("request", (r) => {
    const action = new URL(r.url()).pathname.split("/actions/")[1];
    if (r.method() === "POST" && action) posts[action] = (posts[action] ?? 0) + 1;
  });
  const text = (id) => page.$eval("#" + id, (e) => e.textContent);
  const rows = (kind) => page.evaluate(async (kind) => (await (await fetch("/store/" + kind)).json()).rows, kind);
  const { actions } = await page.evaluate(async () => (await fetch("/actions")).json());

  // The keyboard alone: the first stop leads past the navigation, and each view is a stop.
  const tab = () => page.keyboard.press("Tab");
  const focused = (f, ...args) => page.evaluate(f, ...args);
  const reached = new Set();
  for (let i = 0; i < 20; i++) {
    await tab();
    reached.add(await focused(() => document.activeElement?.hash ?? ""));
  }
  for (const view of await page.$$eval("nav a", (list) => list.map((a) => a.hash))) {
    if (!reached.has(view)) faults.push(`Tab does not reach ${view}`);
  }
  await go(page, "stored");
  await page.focus(".skip");
  await page.keyboard.press("Enter");
  if (await page.$eval("#stored", (s) => s.hidden)) faults.push("the link to the content leaves the view");

  await choose(page, "artifacts");
  if ((await page.$$("#kept button")).length) faults.push("there are actions without a token");
  await page.type("#token", process.env.TOKEN);
  await page.click("#operator-form button");

  // does an action: select is that of its button, effect whether it had one.
  async function act(name, select, effect) {
    const { final } = actions.find((a) => a.name === name);
    await page.waitForSelector(select, soon);
    await page.focus("#main");
    let at = false;
    for (let i = 0; i < 60 && !at; i++) {
      await tab();
      at = await focused((select) => document.activeElement.matches(select), select);
    }
    if (!at) faults.push(`${name}: Tab does not reach it`);
    if (final) {
      await page.keyboard.press("Enter");
      await page.waitForSelector("#confirm[open]", soon);
      if ((await focused(() => document.activeElement.value)) !== "no") faults.push(`${name}: its confirmation does not begin with Cancel`);
      await look(page, `confirm-${name}`);
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => !document.getElementById("confirm").open, soon);
      await press(page, select);
      await page.click("#confirm button[value=no]");
      await page.waitForFunction(() => !document.getElementById("confirm").open, soon);
    }
    for (;;) {
      await press(page, select);
      clicks[name] = (clicks[name] ?? 0) + 1;
      if (final) await page.click("#confirm-yes");
      await page.waitForFunction((name) => document.getElementById("acted").textContent.startsWith(name) && !document.getElementById("acted").textContent.endsWith("…"), soon, name);
      if (!(await text("acted")).includes("try again later")) break; // a notice to the publisher has the delivery
      await page.$eval("#acted", (e) => (e.textContent = ""));
    }
    if (await page.$eval("#acted", (p) => p.className)) faults.push(await text("acted"));
    await page.waitForFunction(effect, soon).catch(() => faults.push(`${name}: has no effect`));
  }
  const row = (verb) => `#kept button[aria-label^="${verb} "]`;
  const empty = () => document.getElementById("stored-said").textContent === "no rows";
  const done = () => true;

  await choose(page, "deliveries", { state: "in flight" });
  await act("deliveries.release", row("release"), empty);
  await choose(page, "deliveries", { state: "", name: "orders/*" });
  await act("deliveries.retry", row("retry"), done);
  await act("deliveries.refuse", row("refuse"), empty);
  await choose(page, "dead");
  await act("dead.retry", row("retry"), empty);
  await choose(page, "deliveries");
  await act("deliveries.refuse", row("refuse"), empty);
  await choose(page, "dead");
  await look(page, "acting");
  await act("dead.drop", row("drop"), empty);
  await choose(page, "artifacts", { name: "" });
  await act("artifacts.delete", row("delete"), empty);
  await choose(page, "state");
  await act("state.delete", row("delete"), empty);
  await choose(page, "streams");
  await act("streams.forget", row("forget"), empty);
  await choose(page, "tasks", { state: "running" });
  await act("tasks.cancel", row("cancel"), empty);
  if (!(await rows("tasks")).some((t) => t.note.includes("cancelled by the operator"))) faults.push("tasks.cancel: the task does not say so");

  const whole = (verb) => `#whole button[data-key^="${verb}"]`;
  await go(page, "overview");
  await act("reload", whole("reload"), done);

  await go(page, "sessions");
  const key = await (await page.waitForSelector("#connections button", soon)).evaluate((b) => b.getAttribute("aria-label"));
  const ended = `#connections button[aria-label="${key}"]`;
  await act("sessions.end", ended, done);
  await page.waitForSelector(ended, { hidden: true, ...soon });

  await page.click("#operator-form button"); // stops acting
  if (await page.$("#connections button, #whole button")) faults.push("there are actions after the end");
  await page.type("#token", process.env.TOKEN);
  await page.keyboard.press("Enter");

  await go(page, "overview");
  stopping = true;
  await act("drain", whole("drain"), () => document.getElementById("health").textContent === "swpd does not answer");

  for (const { name } of actions) if (!clicks[name]) faults.push(`${name}: was not clicked`);
  for (const name of new Set([...Object.keys(posts), ...Object.keys(clicks)])) {
    if (posts[name] !== clicks[name]) faults.push(`${name}: ${posts[name]} requests for ${clicks[name]} confirmed clicks`);
  }
  figures.clicked = Object.keys(clicks).length + " of " + actions.length + " actions";
}

if (state === "act") await operator();
else for (const [scheme, width] of [["light", 1200], ["dark", 1200], ["light", 400]]) await views(scheme, width);

await browser.close();
for (const fault of faults) console.error("page: " + fault);
console.log(`page: ${state}: ${faults.length} faults; ${JSON.stringify(figures, (_, v) => (v instanceof Set ? [...v] : v))}`);
process.exit(faults.length ? 1 : 0);
