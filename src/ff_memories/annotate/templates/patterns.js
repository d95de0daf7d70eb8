// Patterns of keys: an answer is {none, patterns: [{description, type, ranks}]}.
const MOST = 8;
let row = 0; // the prefix that keys act on
let active = 0; // the selected pattern, which most keys act on
let putBack = null; // undoes the last removal on this page

const answer = () => (state.answers[data.items[state.at].item] ??= { none: false, patterns: [] });

// Return what an item still lacks, in words; nothing when it is done.
function lacking(index) {
  const given = state.answers[data.items[index].item];
  if (!given || (!given.none && !given.patterns.length)) return "Add a pattern or choose “no pattern”.";
  for (const [n, pattern] of given.patterns.entries()) {
    const which = `Pattern ${n + 1}: `;
    if (!pattern.description.trim()) return which + "describe it.";
    if (!pattern.type) return which + "choose shallow or semantic.";
    if (pattern.ranks.length < data.fewest) {
      return which + `tick at least ${data.fewest} prefixes; ${pattern.ranks.length} so far.`;
    }
  }
  return "";
}

function changed() {
  save();
  say("");
  show();
}

function add() {
  const given = answer();
  if (given.patterns.length >= MOST) return say(`At most ${MOST} patterns: merge some.`);
  given.none = false;
  active = given.patterns.push({ description: "", type: "", ranks: [] }) - 1;
  changed();
  $(`description-${active}`).focus();
}

function toggle(pattern, rank) {
  const chosen = answer().patterns[pattern];
  if (!chosen) return;
  active = pattern;
  chosen.ranks = chosen.ranks.includes(rank) ? chosen.ranks.filter((r) => r !== rank) : [...chosen.ranks, rank].sort((a, b) => a - b);
  changed();
}

function retype(pattern, type) {
  if (!answer().patterns[pattern]) return;
  active = pattern;
  answer().patterns[pattern].type = type;
  changed();
}

function remove(pattern) {
  const given = answer();
  if (!given.patterns[pattern]) return;
  const [gone] = given.patterns.splice(pattern, 1);
  putBack = () => { given.patterns.splice(pattern, 0, gone); given.none = false; active = pattern; };
  active = 0;
  changed();
  say(`Pattern ${pattern + 1} removed. Press u to undo.`);
}

function undo() {
  if (!putBack) return;
  putBack();
  putBack = null;
  changed();
}

function tickAll(pattern) {
  const chosen = answer().patterns[pattern], shown = data.items[state.at].prefixes.map((_, i) => i + 1);
  if (!chosen) return;
  chosen.ranks = chosen.ranks.length < shown.length ? shown : [];
  changed();
}

function turned() {
  row = active = 0;
  putBack = null;
}

function none() {
  const given = answer();
  if (given.patterns.length) return say("Remove the patterns first.");
  given.none = !given.none;
  changed();
}

function finish() {
  const open = data.items.length ? lacking(state.at) : "";
  if (open) return say(open);
  if (state.at < data.items.length - 1) return go(1);
  show();
  sayLast();
}

function prefixRow([before, last], index, patterns) {
  const text = element("span", { className: "text" }, before ? before + " " : "", element("mark", { textContent: last || "(empty)" }));
  const ticks = element("span", { className: "ticks" });
  patterns.forEach((pattern, n) => {
    const tick = element("button", { type: "button", textContent: n + 1, title: pattern.description || `pattern ${n + 1}` });
    tick.setAttribute("aria-pressed", pattern.ranks.includes(index + 1));
    tick.setAttribute("aria-label", `prefix ${index + 1} has pattern ${n + 1}`);
    tick.addEventListener("click", (event) => { event.stopPropagation(); row = index; toggle(n, index + 1); });
    ticks.append(tick);
  });
  const made = element("li", { className: index === row ? "here" : "" }, element("span", { className: "rank", textContent: index + 1 }), text, ticks);
  made.addEventListener("click", () => { row = index; mark(); });
  return made;
}

function patternBox(pattern, n) {
  const description = element("input", { type: "text", id: `description-${n}`, value: pattern.description, placeholder: "what the prefixes share", maxLength: 300 });
  description.setAttribute("aria-label", `description of pattern ${n + 1}`);
  description.addEventListener("input", () => { pattern.description = description.value; save(); say(""); showProgress(); });
  description.addEventListener("focus", () => { active = n; mark(); });
  const types = ["shallow", "semantic"].map((type) => {
    const button = element("button", { type: "button", textContent: type });
    button.setAttribute("aria-pressed", pattern.type === type);
    button.addEventListener("click", () => retype(n, type));
    return button;
  });
  const enough = pattern.ranks.length >= data.fewest;
  const count = element("span", { className: enough ? "count" : "count bad", textContent: `in ${pattern.ranks.length}${enough ? "" : ` of at least ${data.fewest}`}` });
  const gone = element("button", { type: "button", textContent: "remove" });
  gone.addEventListener("click", () => remove(n));
  return element("div", { className: "pattern" }, element("div", { className: "row head" }, element("h2", { className: "grow", textContent: `Pattern ${n + 1}` }), gone),
    description, element("div", { className: "row" }, ...types, count));
}

function mark() {
  document.querySelectorAll("ol.prefixes li").forEach((li, i) => li.classList.toggle("here", i === row));
  document.querySelectorAll(".pattern").forEach((box, i) => box.classList.toggle("active", i === active));
}

function show() {
  showProgress();
  if (!data.items.length) return;
  const given = answer(), item = data.items[state.at];
  const focused = document.activeElement && document.activeElement.id;
  $("prefixes").replaceChildren(...item.prefixes.map((prefix, i) => prefixRow(prefix, i, given.patterns)));
  $("patterns").replaceChildren(...given.patterns.map(patternBox));
  $("none").setAttribute("aria-pressed", given.none);
  $("none").disabled = given.patterns.length > 0;
  $("add").disabled = given.patterns.length >= MOST;
  if (focused && $(focused)) $(focused).focus();
  mark();
}

function move(step) {
  row = Math.min(Math.max(row + step, 0), data.items[state.at].prefixes.length - 1);
  mark();
  document.querySelectorAll("ol.prefixes li")[row].scrollIntoView({ block: "nearest" });
}

function keys(event, typing) {
  if (!data.items.length) return false;
  const key = event.key;
  if (typing) {
    event.target.blur();
    return true;
  }
  if (key === "ArrowDown" || key === "j") move(1);
  else if (key === "ArrowUp" || key === "k") move(-1);
  else if (/^[1-8]$/.test(key)) toggle(Number(key) - 1, row + 1);
  else if (key === " ") toggle(active, row + 1);
  else if (key === "n") add();
  else if (key === "s") retype(active, "shallow");
  else if (key === "m") retype(active, "semantic");
  else if (key === "0") none();
  else if (key === "Enter") finish();
  else if (key === "a") tickAll(active);
  else if (key === "p") { active = (active + 1) % (answer().patterns.length || 1); mark(); }
  else if (key === "e") $(`description-${active}`)?.focus();
  else if (key === "x") remove(active);
  else if (key === "u") undo();
  else if (key === "ArrowRight") go(1);
  else if (key === "ArrowLeft") go(-1);
  else return false;
  return true;
}

$("add").addEventListener("click", add);
$("none").addEventListener("click", none);
$("next").addEventListener("click", finish);
$("export").addEventListener("click", () => exportCsv(
  data.items.filter((_, i) => !lacking(i)).flatMap(({ item }) => {
    const given = state.answers[item], who = [data.run, state.annotator.trim(), item];
    return given.none ? [[...who, 0, "none", "", ""]]
      : given.patterns.map((p, n) => [...who, n + 1, p.type, p.description.trim(), p.ranks.join(" ")]);
  }), ""));
start(keys);
