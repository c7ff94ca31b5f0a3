// Tests of the admin page in Chromium: node page.mjs URL DIRECTORY
//
// Opens every view, light and dark, narrow and wide, and writes a screenshot of each into the directory.
// Fails if a view is empty, the page logs an error, something is loaded from elsewhere, axe finds a
// serious fault, a form does not answer, or an action of the operator with $TOKEN has no effect.

import { mkdirSync, readFileSync } from "node:fs";
import puppeteer from "puppeteer-core";

const [address, directory] = process.argv.slice(2);
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const faults = [];
mkdirSync(directory, { recursive: true });

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function open(scheme, width) {
  const page = await browser.newPage();
  await page.setBypassCSP(false);
  await page.setViewport({ width, height: 800 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  page.on("console", (m) => m.type() === "error" && !m.location().url?.endsWith("/favicon.ico") && faults.push("console: " + m.text()));
  page.on("pageerror", (e) => faults.push("error: " + e.message));
  page.on("request", (r) => new URL(r.url()).origin !== new URL(address).origin && faults.push("loads " + r.url()));
  await page.goto(address, { waitUntil: "domcontentloaded" });
  await page.waitForFunction(() => document.getElementById("health").textContent.startsWith("ready"), { timeout: 10000 });
  return page;
}

async function look(page, name, scheme) {
  await page.screenshot({ path: `${directory}/${name}.png`, fullPage: true });
  await page.evaluate(axe); // the debugger's context, which the policy of the page does not bind
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  for (const v of violations.filter((v) => ["serious", "critical"].includes(v.impact))) {
    faults.push(`${name} (${scheme}): ${v.id}: ${v.help}: ${v.nodes.map((n) => n.target).join(" ")}`);
  }
}

for (const [scheme, width] of [["light", 1200], ["dark", 1200], ["light", 400]]) {
  const page = await open(scheme, width);
  await new Promise((done) => setTimeout(done, 3500)); // a few snapshots, for the curves
  const views = await page.$$eval("nav a", (list) => list.map((a) => a.hash.slice(1)));
  if (views.length < 10) faults.push(`only ${views.length} views`);
  for (const view of views) {
    await page.click(`nav a[href="#${view}"]`);
    const shown = await page.$$eval("main > section", (list) => list.filter((s) => !s.hidden).map((s) => s.id));
    if (shown.join() !== view) faults.push(`${view}: shows ${shown}`);
    if (view === "audit" || view === "rights") {
      await page.type(`#${view} input[name=identity]`, "spiffe://**");
      await page.focus(`#${view} button`);
      await page.keyboard.press("Enter");
      await page.waitForFunction((id) => /record|may|denied/.test(document.getElementById(id + "-said").textContent), { timeout: 10000 }, view);
    }
    const text = await page.$eval(`#${view}`, (s) => s.innerText);
    if (text.length < 25) faults.push(`${view}: is empty: ${text}`);
    await look(page, `${view}-${scheme}-${width}`, scheme);
  }
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  if (wide) faults.push(`${width}: the page is wider than its window`);
  await page.close();
}

// A keyboard reaches every view: Tab stops at each link of the navigation.
const page = await open("light", 1200);
const reached = new Set();
for (let i = 0; i < 20; i++) {
  await page.keyboard.press("Tab");
  reached.add(await page.evaluate(() => document.activeElement?.hash ?? ""));
}
for (const view of await page.$$eval("nav a", (list) => list.map((a) => a.hash))) {
  if (!reached.has(view)) faults.push(`Tab does not reach ${view}`);
}

// An operator clicks each kind of button and sees its effect. Without a token there are none.
const button = (verb) => `#kept button[aria-label^="${verb} "]`;
const rows = (kind) => page.evaluate(async (kind) => (await (await fetch("/store/" + kind)).json()).rows.length, kind);
const said = (text) => page.waitForFunction((text) => document.getElementById("acted").textContent.startsWith(text) && !document.getElementById("acted").textContent.endsWith("…"), { timeout: 10000 }, text);
const enter = async (token) => {
  await page.type("#token", token);
  await page.click("#operator-form button");
};

async function click(kind, verb, final, effect) {
  const name = `${kind}.${verb}`;
  await page.select("#kind", kind);
  await page.waitForSelector(button(verb), { timeout: 10000 });
  if (final) {
    const before = await rows(kind);
    await page.click(button(verb));
    await look(page, `confirm-${kind}`, "light");
    await page.click("#confirm button[value=no]");
    if ((await rows(kind)) !== before) faults.push(`${name}: acts without a confirmation`);
  }
  for (let i = 0; i < 20; i++) { // a notice to the publisher may have the delivery for a moment
    await page.click(button(verb));
    if (final) await page.click("#confirm-yes");
    await said(name);
    if (!(await page.$eval("#acted", (p) => p.textContent)).includes("try again later")) break;
    await new Promise((done) => setTimeout(done, 250));
  }
  if (await page.$eval("#acted", (p) => p.className)) faults.push(`${name}: ${await page.$eval("#acted", (p) => p.textContent)}`);
  if (!(await effect())) faults.push(`${name}: has no effect`);
}

await page.click('nav a[href="#stored"]');
await page.select("#kind", "artifacts");
await page.waitForFunction(() => document.getElementById("kept").innerText.includes("page"), { timeout: 10000 });
if (await page.$("#kept button")) faults.push("there are actions without a token");
await enter(process.env.TOKEN);
const gone = (kind) => async () => (await rows(kind)) === 0;
await click("deliveries", "retry", false, async () => (await rows("deliveries")) === 1);
await click("deliveries", "refuse", false, async () => (await rows("deliveries")) === 0 && (await rows("dead")) === 1);
await click("dead", "retry", false, async () => (await rows("deliveries")) === 1 && (await rows("dead")) === 0);
await click("deliveries", "refuse", false, async () => (await rows("dead")) === 1);
await look(page, "acting", "light");
await click("dead", "drop", true, gone("dead"));
await click("artifacts", "delete", true, gone("artifacts"));
await click("state", "delete", true, gone("state"));
await click("streams", "forget", true, gone("streams"));

await page.click('nav a[href="#overview"]');
await page.evaluate(() => [...document.querySelectorAll("#whole button")].find((b) => b.textContent === "reload").click());
await said("reload");
if (await page.$eval("#acted", (p) => p.className)) faults.push("reload: " + (await page.$eval("#acted", (p) => p.textContent)));

await page.click('nav a[href="#sessions"]');
const ends = await page.waitForSelector("#connections button", { timeout: 10000 });
const label = await ends.evaluate((b) => b.getAttribute("aria-label"));
await page.evaluate((label) => document.querySelector(`#connections button[aria-label="${label}"]`).click(), label);
await page.click("#confirm-yes");
await said("sessions.end");
await page.waitForFunction((label) => !document.querySelector(`#connections button[aria-label="${label}"]`), { timeout: 10000 }, label);

await page.click("#operator-form button"); // stops acting
if (await page.$("#connections button, #whole button")) faults.push("there are actions after the end");

await browser.close();
for (const fault of faults) console.error("page: " + fault);
console.log(`page: ${faults.length} faults, screenshots in ${directory}`);
process.exit(faults.length ? 1 : 0);
