"use strict";
// Route addresses to pages, and handle search and keyboard shortcuts.

let manifest = null;
const scrolled = new Map(); // scroll position of each address, for going back
let current = null;

async function route() {
  const main = document.getElementById("main"), place = Address.parse(location.hash);
  const hash = location.hash, back = scrolled.get(hash), first = current === null;
  if (current !== null) scrolled.set(current, scrollY); // the page still shows the old address
  current = hash;
  main.setAttribute("aria-busy", "true");
  try {
    if (place.page === "key" && Layers.has(place.layer, place.key)) await Key.show(place);
    else if (place.page === "list") await List.show(place);
    else missing(place);
  } catch (error) {
    main.replaceChildren(make("h1", { tabindex: "-1" }, "Something is missing"), make("p", { class: "banner" }, String(error.message ?? error)),
      make("p", {}, "Copy the whole gallery folder, or rebuild it with snakemake."));
  }
  if (location.hash !== hash) return;
  main.removeAttribute("aria-busy");
  if (place.page === "list") fill(place.query);
  if (!first) main.querySelector("h1")?.focus({ preventScroll: true }); // a reader who just came begins at the top
  scrollTo(0, back ?? 0);
  performance.mark(place.page);
  document.body.dataset.ready = hash;
}

function missing(place) {
  const inside = place.layer >= 1 && place.layer <= manifest.layers && place.key < manifest.keys;
  const signs = manifest.neurons ? "; 12- is key 12's negative coefficients" : "";
  const text = place.page === "key" && inside ? `The gallery shows ${many(manifest.shown[place.layer - 1].length, "key")} of the ${Numbers.whole(manifest.keys)} of layer ${place.layer}, and not this one.`
    : place.page === "key" ? `This model has layers 1 to ${manifest.layers} and keys 0 to ${(manifest.neurons ?? manifest.keys) - 1}${signs}.` : "This page does not exist.";
  document.getElementById("main").replaceChildren(make("h1", { tabindex: "-1" }, "Not found"), make("p", {}, text, " ", make("a", { href: "#/" }, "All keys")));
  document.title = `Not found · ${document.body.dataset.title}`;
}

// Copy the words in a list's address into the search field.
function fill(query) {
  const kind = ["fires", "promotes", "text"].find((name) => query[name]);
  if (kind) document.getElementById("kind").value = kind;
  document.getElementById("words").value = kind ? query[kind] : "";
}

function search(event) {
  event.preventDefault();
  const kind = document.getElementById("kind").value, words = document.getElementById("words").value.trim();
  const place = Address.parse(location.hash), query = place.page === "list" ? { ...place.query } : {};
  for (const name of ["fires", "promotes", "text", "sort"]) delete query[name];
  const address = /^\s*(\d+)\s*\/\s*(\d+)\s*([-−])?\s*$/.exec(words);
  location.hash = address ? `#/${Number(address[1])}/${Number(address[2])}${address[3] ? "-" : ""}` : Address.ofList({ ...query, [kind]: words });
  document.activeElement?.blur();
}

async function suggest() {
  const kind = document.getElementById("kind").value, typed = document.getElementById("words").value;
  const last = kind === "promotes" ? typed.trim() : Words.split(typed).at(-1) ?? "";
  if (!last || last.startsWith('"')) return;
  const found = await Words.suggest(last, kind).catch(() => []);
  if (document.getElementById("words").value !== typed) return;
  const before = typed.slice(0, typed.length - last.length);
  document.getElementById("suggestions").replaceChildren(...found.map((word) => make("option", { value: before + word })));
}

function random() {
  const list = List.last?.ordinals, all = Layers.size();
  const ordinal = list?.length ? list[Math.floor(Math.random() * list.length)] : Math.floor(Math.random() * all);
  location.hash = Address.ofKey(...Layers.place(ordinal));
}

// Move one key or row forward or back.
function step(by) {
  const place = Address.parse(location.hash);
  if (place.page === "key") {
    const other = Key.neighbours(Layers.ordinal(place.layer, place.key))[by > 0 ? 1 : 0];
    if (other !== undefined) location.hash = Address.ofKey(...Layers.place(other));
    return;
  }
  const links = [...document.querySelectorAll("table.list tbody th a")];
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

const shortcuts = {
  "/": () => document.getElementById("words").focus(),
  j: () => step(1),
  k: () => step(-1),
  r: random,
  u: () => document.getElementById("up")?.click(), // a list has none
  d: () => Sheet.download(),
  "?": () => document.getElementById("manual").showModal(),
};

function press(event) {
  const typing = event.target.matches("input, select, textarea, dialog *");
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in shortcuts)) return;
  if (typing || document.getElementById("manual").open) return;
  event.preventDefault();
  shortcuts[event.key]();
}

async function start() {
  document.body.dataset.title = document.title;
  if (typeof DecompressionStream === "undefined") throw new Error("This browser is too old for the gallery: it cannot decompress the data.");
  manifest = await Parts.load("manifest");
  history.scrollRestoration = "manual";
  document.getElementById("search").addEventListener("submit", search);
  let timer;
  document.getElementById("words").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, 120);
  });
  document.getElementById("random").onclick = random;
  document.getElementById("help").onclick = shortcuts["?"];
  document.getElementById("close").onclick = () => document.getElementById("manual").close();
  document.addEventListener("keydown", press);
  addEventListener("hashchange", route);
  await route();
}

start().catch((error) => document.getElementById("main").replaceChildren(make("p", { class: "banner" }, String(error.message ?? error))));
