// Tests of the admin page in Chromium: node page.mjs URL DIRECTORY
//
// Opens every view, light and dark, narrow and wide, and writes a screenshot of each into the directory.
// Fails if a view is empty, the page logs an error, something is loaded from elsewhere, axe finds a
// serious fault, or a form does not answer.

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

await browser.close();
for (const fault of faults) console.error("page: " + fault);
console.log(`page: ${faults.length} faults, screenshots in ${directory}`);
process.exit(faults.length ? 1 : 0);
