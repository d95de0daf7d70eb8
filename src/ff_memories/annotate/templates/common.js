"use strict";
// Shared by both forms: persistent state, moving between items, and the export.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const state = { annotator: "", at: 0, answers: {} };

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function load() {
  try {
    Object.assign(state, JSON.parse(localStorage.getItem(data.storage) || "{}"));
  } catch (error) {
    warnOfLoss();
  }
  state.at = Math.min(Math.max(state.at, 0), data.items.length - 1);
}

function save() {
  try {
    localStorage.setItem(data.storage, JSON.stringify(state));
    $("saved").textContent = "saved in this browser";
  } catch (error) {
    warnOfLoss();
  }
}

function warnOfLoss() {
  $("saved").textContent = "this browser saves nothing: export before you close the page";
}

function go(step) {
  if (!data.items.length) return;
  state.at = Math.min(Math.max(state.at + step, 0), data.items.length - 1);
  save();
  $("guide").open = false;
  turned();
  say("");
  show();
  window.scrollTo(0, 0);
}

function goToOpen() {
  const n = data.items.length;
  for (let step = 1; step <= n; step++) {
    if (lacking((state.at + step) % n)) return go(((state.at + step) % n) - state.at);
  }
  showProgress();
  if (n) sayLast();
}

function showProgress() {
  const n = data.items.length;
  const done = data.items.filter((_, i) => !lacking(i)).length;
  $("progress").max = n || 1;
  $("progress").value = done;
  $("done").textContent = `${done} of ${n} done`;
  $("place").textContent = n ? `${state.at + 1} / ${n}` : "nothing to annotate";
}

// Return a quoted CSV cell. An apostrophe keeps spreadsheets from reading text as a formula.
function cell(value) {
  const text = String(value).replace(/[\r\n]+/g, " ");
  return `"${(/^\s*[=+\-@]/.test(text) ? "'" + text : text).replace(/"/g, '""')}"`;
}

function exportCsv(rows, suffix) {
  const name = state.annotator.trim();
  $("annotator").classList.toggle("bad", !name);
  if (!name) {
    say("Enter your name first. It distinguishes your answers from other people's.");
    return $("annotator").focus();
  }
  const open = data.items.filter((_, i) => lacking(i)).length;
  say(open ? `Exported without ${open} unfinished. You can continue and export again.` : "Exported, all done. Thank you!", true);
  const lines = [data.columns.join(",")].concat(rows.map((row) => row.map(cell).join(",")));
  const link = element("a", { download: `${name.replace(/[^\p{L}\p{N}]+/gu, "_")}${suffix}.csv` });
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  document.body.append(link);
  link.click();
  link.remove();
}

// Show the message for the end of the last page.
function sayLast() {
  const open = data.items.filter((_, i) => lacking(i)).length;
  say(open ? `This is the last page. ${open} unfinished: click "next unfinished".` : "All done. Export your answers.", !open);
}

function say(text, good = false) {
  $("message").textContent = text;
  $("message").classList.toggle("good", good);
}

function start(keys) {
  load();
  $("guide").open = data.items.every((_, i) => lacking(i));
  $("annotator").value = state.annotator;
  $("annotator").addEventListener("input", (event) => {
    state.annotator = event.target.value;
    save();
  });
  $("back").addEventListener("click", () => go(-1));
  $("skip").addEventListener("click", () => go(1));
  $("open").addEventListener("click", goToOpen);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input[type=text]");
    if (typing && event.key !== "Enter" && event.key !== "Escape") return;
    if (event.target.matches("button, summary") && (event.key === "Enter" || event.key === " ")) return;
    if (!typing && event.key === "w") $("annotator").focus();
    else if (!typing && event.key === "c") $("export").click();
    else if (!keys(event, typing)) return;
    event.preventDefault();
  });
  show();
}
