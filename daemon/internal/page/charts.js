"use strict";

// The view of the last 24 hours: a chart for each of /history, drawn as SVG. Uses element, visible, count, octets
// and seconds of page.js.

const spans = { 1: "1 hour", 6: "6 hours", 24: "24 hours" };
const box = { width: 0, height: 180, left: 64, right: 8, top: 8, bottom: 22 };
let window24 = { hours: 24, from: 0, to: 0 }; // from and to: the part that was chosen in a chart, in seconds; 0 for all
let past; // the last answer of /history
let pastTimer;

function svg(name, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, v] of Object.entries(attributes)) e.setAttribute(key, v);
  e.append(...children);
  return e;
}

const units = { "1/s": (v) => (v >= 100 ? count(v) : Number(v.toPrecision(3))) + "/s", s: (v) => (v === 0 ? "0 s" : seconds(v)), B: octets, "": (v) => (v >= 100 ? count(v) : String(Number(v.toPrecision(3)))) };
const clock = (t, days) => new Date(t * 1000).toISOString().slice(days ? 5 : 11, 16).replace("T", " ") + "Z";

// ticks are round values from 0 to at least most.
function ticks(most, binary) {
  if (!(most > 0)) return [0, 1];
  const base = binary ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1;
  const size = 10 ** Math.floor(Math.log10(most / base / 4)) * base;
  const step = [1, 2, 5, 10].map((n) => n * size).find((n) => n * 4 >= most);
  return [0, 1, 2, 3, 4].map((n) => n * step).filter((v, i, all) => i === 0 || all[i - 1] < most);
}

// chart draws one chart of the answer.
function chart(c, view) {
  const format = units[c.unit] ?? count;
  const first = Math.max(0, Math.ceil((view.from - view.begin) / view.step));
  const some = c.series.filter((s) => s.points.some((v) => v)); // names that nobody used are left out
  const lines = (some.length ? some : c.series.slice(0, 1)).map((s, i) => ({ label: s.label || c.title, points: s.points.slice(first, first + view.length), kind: s.label === "other" ? "rest" : "c" + (i % 8) }));
  const y = ticks(Math.max(0, ...lines.flatMap((l) => l.points.map((v) => v ?? 0))), c.unit === "B");
  const top = y[y.length - 1];
  const x = (i) => box.left + (i / Math.max(1, view.length - 1)) * (box.width - box.left - box.right);
  const at = (v) => box.height - box.bottom - (v / top) * (box.height - box.top - box.bottom);
  const picture = svg("svg", { viewBox: `0 0 ${box.width} ${box.height}`, class: "chart", role: "img", tabindex: "0" });
  for (const v of y) {
    picture.append(svg("line", { x1: box.left, x2: box.width - box.right, y1: at(v), y2: at(v), class: "grid" }), svg("text", { x: box.left - 6, y: at(v) + 4, "text-anchor": "end" }, format(v)));
  }
  for (let n = 0; n <= 4; n++) {
    const i = Math.round((n / 4) * (view.length - 1));
    picture.append(svg("text", { x: x(i), y: box.height - 6, "text-anchor": n === 0 ? "start" : n === 4 ? "end" : "middle" }, clock(view.from + i * view.step)));
  }
  for (const l of lines) {
    let d = "";
    l.points.forEach((v, i) => {
      if (v !== null) d += (i > 0 && l.points[i - 1] !== null ? "L" : "M") + x(i).toFixed(1) + " " + at(v).toFixed(1) + (l.points[i + 1] == null ? "h.01" : ""); // a point alone is a dot
    });
    picture.append(svg("path", { d, class: l.kind }));
  }
  const cursor = svg("line", { y1: box.top, y2: box.height - box.bottom, class: "cursor", visibility: "hidden" });
  const chosen = svg("rect", { y: box.top, height: box.height - box.top - box.bottom, class: "chosen", visibility: "hidden" });
  picture.append(chosen, cursor);
  const values = lines.map((l) => element("b", {}));
  const when = element("span", { class: "hint" });
  const legend = element("ul", { class: "legend" }, ...lines.map((l, i) => element("li", {}, element("span", { class: "key " + l.kind }), element("span", {}, l.label), values[i])));
  let place = view.length - 1;
  const point = (i, said) => {
    place = Math.min(view.length - 1, Math.max(0, i));
    lines.forEach((l, n) => (values[n].textContent = l.points[place] == null ? "no value" : format(l.points[place])));
    when.textContent = clock(view.from + place * view.step, true);
    for (const side of ["x1", "x2"]) cursor.setAttribute(side, x(place));
    cursor.setAttribute("visibility", said ? "visible" : "hidden");
  };
  const under = (event) => {
    const r = picture.getBoundingClientRect();
    return Math.round(((((event.clientX - r.left) / r.width) * box.width - box.left) / (box.width - box.left - box.right)) * (view.length - 1));
  };
  let begun = null;
  picture.addEventListener("pointermove", (event) => {
    point(under(event), true);
    if (begun === null) return;
    chosen.setAttribute("x", x(Math.min(begun, place)));
    chosen.setAttribute("width", Math.abs(x(place) - x(begun)));
    chosen.setAttribute("visibility", "visible");
  });
  picture.addEventListener("pointerdown", (event) => {
    point(under(event), true);
    begun = place;
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointerup", () => {
    if (begun !== null && Math.abs(place - begun) >= 2) zoom(view.from + Math.min(begun, place) * view.step, view.from + Math.max(begun, place) * view.step);
    begun = null;
    chosen.setAttribute("visibility", "hidden");
  });
  picture.addEventListener("pointerleave", () => begun === null && point(view.length - 1, false));
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    point(place + by, true);
    picture.setAttribute("aria-label", summary());
  });
  picture.addEventListener("blur", () => point(view.length - 1, false));
  const summary = () => c.title + ", " + when.textContent + ": " + (lines.map((l, i) => l.label + " " + values[i].textContent).join(", ") || "no values");
  point(view.length - 1, false);
  picture.setAttribute("aria-label", summary());
  return element("figure", {}, element("figcaption", {}, element("span", {}, c.title), when), picture, lines.length ? legend : element("p", { class: "hint" }, "there was none"));
}

// drawPast draws all charts, or one line where there is nothing to draw.
function drawPast() {
  if (!past) return;
  const all = Math.max(1, ...past.charts.flatMap((c) => c.series.map((s) => s.points.length)));
  const begin = Date.parse(past.begin) / 1000;
  const end = begin + (all - 1) * past.step;
  const from = window24.from && window24.to > begin ? Math.max(begin, window24.from) : begin;
  const to = window24.from && window24.to > begin ? Math.min(end, window24.to) : end;
  const view = { begin, step: past.step, from, length: Math.max(1, Math.round((to - from) / past.step) + 1) };
  const focused = [...$("charts").querySelectorAll("svg")].indexOf(document.activeElement);
  box.width = Math.min(560, $("charts").clientWidth || 560); // one unit is a pixel or more
  $("charts").replaceChildren(...past.charts.map((c) => chart(c, view)));
  if (focused >= 0) $("charts").querySelectorAll("svg")[focused]?.focus();
  $("span-said").textContent = past.charts.some((c) => c.series.length) ? clock(from, true) + " to " + clock(to, true) : "the first point comes after a minute";
  $("zoom-out").hidden = !window24.from;
}

function zoom(from, to) {
  window24 = { ...window24, from, to };
  drawPast();
}

// lookBack reads the history while its view is shown, each minute.
async function lookBack() {
  clearTimeout(pastTimer);
  if (shown().id !== "past") return;
  pastTimer = setTimeout(lookBack, 60e3);
  try {
    const answer = await fetch("/history?since=" + Math.floor(Date.now() / 1000 - window24.hours * 3600));
    if (!answer.ok) throw new Error((await answer.text()).trim());
    past = await answer.json();
    drawPast();
  } catch (error) {
    $("span-said").textContent = error.message;
  }
}

$("span").append(...Object.entries(spans).map(([hours, name]) => element("option", { value: hours, ...(hours === "24" ? { selected: "" } : {}) }, name)));
$("span").addEventListener("change", () => {
  window24 = { hours: Number($("span").value), from: 0, to: 0 };
  lookBack();
});
$("zoom-out").addEventListener("click", () => zoom(0, 0));
window.addEventListener("hashchange", lookBack);
window.addEventListener("resize", drawPast);
lookBack();
