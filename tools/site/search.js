"use strict";
// find returns the sections that have all words: first those with most of them in headings,
// among these those that have them most often.
function find(sections, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return sections
    .map((s) => {
      const head = (s.head + " " + s.page).toLowerCase(), text = s.text.toLowerCase();
      if (!words.every((w) => head.includes(w) || text.includes(w))) return null;
      const at = words.map((w) => text.indexOf(w)).find((i) => i >= 0) ?? 0;
      const often = words.reduce((n, w) => n + text.split(w).length - 1, 0);
      return { ...s, score: 100 * words.filter((w) => head.includes(w)).length + Math.min(often, 99), text: s.text.slice(Math.max(0, at - 60), at + 140) };
    })
    .filter(Boolean)
    .sort((a, b) => b.score - a.score)
    .slice(0, 20);
}

let sections; // loaded at the first search
function searchIn(loaded) {
  sections = loaded;
  show();
}

function show() {
  const input = document.querySelector("input"), found = document.getElementById("found");
  found.replaceChildren();
  found.hidden = !input.value.trim();
  if (found.hidden || !sections) return;
  const hits = find(sections, input.value);
  for (const hit of hits) {
    const p = document.createElement("p"), a = document.createElement("a");
    a.href = hit.url;
    a.textContent = hit.head === hit.page ? hit.page : hit.page + ": " + hit.head;
    p.append(a, " – " + hit.text);
    found.append(p);
  }
  if (!hits.length) found.append(Object.assign(document.createElement("p"), { textContent: "Nothing has all of these words." }));
}

if (typeof document !== "undefined") {
  const form = document.querySelector("form"), input = form.querySelector("input");
  form.hidden = false;
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    document.querySelector("#found a")?.click();
  });
  input.addEventListener("input", () => {
    if (sections) return show();
    if (!document.querySelector("script[src='sections.js']")) document.head.append(Object.assign(document.createElement("script"), { src: "sections.js" }));
  });
  document.getElementById("found").addEventListener("click", () => { input.value = ""; show(); });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && document.activeElement !== input) { e.preventDefault(); input.focus(); }
    if (e.key === "Escape" && document.activeElement === input) { input.value = ""; show(); input.blur(); }
  });
}
