"use strict";
// Build the controls that narrow a list: the strip of layers, the filter form, the sort order and the active filters.

const Filters = {
  // One column per layer, as high as its share of agreeing values. A click shows the layer's keys.
  strip(query) {
    const most = Math.max(...manifest.summary.map((layer) => layer.agree ?? 0)) || 1;
    const chosen = query.layer ? Address.range(query.layer) : null;
    const columns = manifest.summary.map((own, i) => {
      const layer = i + 1, here = chosen !== null && between(layer, chosen);
      const only = here && chosen[0] === chosen[1];
      const text = `Layer ${layer}: ${own.agree === null ? "no triggers" : `${Numbers.percent(own.agree)} of values agree`}`;
      const link = make("a", {
        href: Address.ofList({ ...query, layer: only ? "" : String(layer) }), title: text,
        "aria-label": only ? `${text}. Show all layers` : text, "aria-current": here ? "true" : null,
      }, make("span", { class: "column", "aria-hidden": "true" }), make("span", { class: "digit", "aria-hidden": "true" }, layer));
      link.style.setProperty("--share", (own.agree ?? 0) / most);
      return make("li", {}, link);
    });
    return make("nav", { class: "strip", "aria-label": "Layers" },
      make("p", { class: "quiet" }, `Share of values that agree with their key's top trigger, by layer (up to ${Numbers.percent(most)})`),
      make("ol", {}, columns));
  },

  form(query) {
    const set = ["layer", "agrees", "label", "disagree", "mutated", "coefficient", "probability", "rank", "triggers", "rate", "dead"];
    const form = make("form", { class: "filters" }, set.map((name) => this.field(name, query[name] ?? "")),
      make("div", { class: "buttons" }, make("button", {}, "Apply")));
    form.onsubmit = (event) => {
      event.preventDefault();
      const next = { ...query };
      for (const name of set) {
        const inputs = [...form.querySelectorAll(`[data-name=${name}]`)].map((input) => input.value.trim());
        next[name] = inputs.length === 1 ? inputs[0] : this.join(inputs);
      }
      location.hash = Address.ofList(next);
    };
    const open = set.some((name) => name !== "layer" && query[name]);
    return make("details", { class: "panel", open }, make("summary", {}, "Filters"), form);
  },

  join: ([low, high]) => (low === "" && high === "" ? "" : low === high ? low : `${low}..${high}`),

  field(name, value) {
    const { about, kind, choices } = Address.fields[name], id = `filter-${name}`;
    if (kind === "choice") {
      const options = Object.entries({ "": "any", ...choices }).sort(([a]) => (a === "" ? -1 : 1));
      return make("p", {}, make("label", { for: id }, about), make("select", { id, "data-name": name },
        options.map(([key, text]) => make("option", { value: key, selected: key === value }, text))));
    }
    const [low, high] = value ? Address.range(value).map((x) => (Number.isFinite(x) ? String(x) : "")) : ["", ""];
    const input = (bound, of, text) => make("input", {
      id: `${id}-${of}`, "data-name": name, type: "number", min: 0, step: "any", value: bound, placeholder: text, "aria-label": `${about}, ${text}`,
    });
    return make("p", { role: "group", "aria-label": about }, make("span", { class: "label" }, about),
      make("span", { class: "pair" }, input(low, "low", "from"), " – ", input(high, "high", "to")));
  },

  order(query, matches) {
    const current = Sorting.wish(query), plain = current.replace(/^-/, "");
    const names = Object.keys(Sorting.orders).filter((name) => name !== "match" || matches || plain === name)
      .filter((name) => name !== "label" || query.label || plain === name);
    const choose = make("select", { id: "order" }, names.map((name) =>
      make("option", { value: name, selected: name === plain }, Sorting.orders[name].about)));
    const turn = make("button", { type: "button", title: "Reverse the order", "aria-label": "Reverse the order",
      "aria-pressed": String(current.startsWith("-")) }, "⇅");
    choose.onchange = () => (location.hash = Address.ofList({ ...query, sort: choose.value }));
    turn.onclick = () => (location.hash = Address.ofList({ ...query, sort: current.startsWith("-") ? plain : `-${plain}` }));
    return make("span", { class: "order" }, make("label", { for: "order" }, "Sorted by "), choose, " ", turn);
  },

  chips(query, faults) {
    const chips = Object.entries(query).filter(([name]) => name !== "sort").map(([name, value]) => {
      const { about, choices } = Address.fields[name], text = choices ? choices[value] : value.replace("..", " … ");
      return make("li", {}, make("a", { href: Address.ofList({ ...query, [name]: "" }), class: "chip", "aria-label": `Remove: ${about} ${text}` },
        `${about}: `, token(text), make("span", { "aria-hidden": "true" }, " ×")));
    });
    const unread = faults.map((fault) => make("li", {}, make("span", { class: "chip fault" }, "not recognised: ", token(fault))));
    return chips.length + unread.length ? make("ul", { class: "chips", "aria-label": "Active filters" }, chips, unread) : null;
  },
};
