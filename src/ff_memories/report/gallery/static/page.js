"use strict";
// Build page elements. All corpus text goes through here and becomes text, never markup.

// Return an element: make("a", {class: "x", href: "#/"}, "text", element, ...). Null content is skipped.
function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...content.flat().filter((part) => part !== null && part !== undefined && part !== false));
  return element;
}

// Return a token, isolated from the direction of the text around it.
function token(text, attributes = {}) {
  return make("bdi", attributes, text);
}

// Return a bar for a share in 0..1. It repeats a number shown beside it.
function bar(share, name = "") {
  const element = make("span", { class: `bar ${name}`, "aria-hidden": "true" });
  element.style.setProperty("--share", Math.max(0, Math.min(1, share)));
  return element;
}

function say(text) {
  document.getElementById("said").textContent = text;
}

const Numbers = {
  whole: (x) => (x === null || x === undefined ? "–" : x.toLocaleString("en")),
  short: (x) => (x === null || x === undefined ? "–" : x.toPrecision(3)),
  percent: (x) =>
    x === null || x === undefined ? "–" : x >= 0.0995 ? `${(100 * x).toFixed(0)} %` : `${(100 * x).toPrecision(2)} %`,
  // a probability as a multiple of a uniform one's
  times: (x) => (x === null || x === undefined ? "–" : `${(x * manifest.vocab).toLocaleString("en", { maximumSignificantDigits: 2 })} ×`),
  // of a number in percent
  rate: (x) => (x === null ? "–" : x === 0 ? "0 %" : x >= 99.5 && x < 100 ? "> 99 %" : `${x >= 9.95 ? x.toFixed(0) : x.toPrecision(2)} %`),
  signed: (x) => `${x < 0 ? "−" : ""}${Math.abs(x) < 0.0995 ? Math.abs(x).toFixed(3) : Math.abs(x).toPrecision(3)}`,
  change: (x) =>
    x === null || x === undefined ? "–" : Math.abs(x) < 0.005 ? "0 %" : `${x < 0 ? "−" : "+"}${Math.abs(100 * x).toFixed(0)} %`,
};
const many = (n, one, more = `${one}s`) => `${Numbers.whole(n)} ${n === 1 ? one : more}`;
