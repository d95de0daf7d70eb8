"use strict";
// Show a key's page: its triggers, and beside them the tokens that its value promotes.

const Key = {
  async show({ layer, key }) {
    const ordinal = Layers.ordinal(layer, key), size = manifest.keys_of_a_part;
    const run = ++List.run;
    const [records] = await Promise.all([Parts.load(`keys-${Math.floor(ordinal / size)}`), Layers.need([layer])]);
    if (run !== List.run) return;
    const record = records[ordinal % size], row = Layers.row(ordinal);
    this.shown = { row, record };
    document.getElementById("main").replaceChildren(
      this.paths(row),
      make("div", { class: "head" }, make("h1", { tabindex: "-1" }, `Layer ${layer}, ${Memory.long(key)}`), Sheet.button()),
      make("p", { class: "gist" }, this.gist(row)),
      ...(manifest.neurons ? [this.sign(layer, key)] : []),
      make("div", { class: "sides" },
        make("section", { "aria-labelledby": "triggers" }, make("h2", { id: "triggers" }, "Key: triggers"), this.triggers(row, record)),
        make("aside", { "aria-labelledby": "value" },
          make("section", {}, make("h2", { id: "value" }, "Value: promoted tokens"), this.value(row, record)),
          record.p || record.b ? this.patterns(record) : null, row.changes ? this.changes(row) : null)));
    document.title = `Layer ${layer}, ${Memory.long(key)} · ${document.body.dataset.title}`;
    say(document.title);
  },

  paths({ ordinal, layer }) {
    const [before, after] = this.neighbours(ordinal);
    const link = (other, text) => other === undefined ? make("span", { class: "quiet" }, text)
      : make("a", { href: Address.ofKey(...Layers.place(other)) }, text);
    const up = List.last ? Address.ofList(List.last.query, List.last.number) : Address.ofList({ layer });
    return make("nav", { class: "paths", "aria-label": "Keys" }, make("a", { href: up, id: "up" }, "↑ Back to the list"),
      make("span", {}, link(before, "← Previous"), " ", link(after, "Next →")));
  },

  // Return the previous and next key, in the list it was found in or else by address.
  neighbours(ordinal) {
    const list = List.last?.ordinals ?? [], place = list.indexOf(ordinal), all = Layers.size();
    if (place >= 0) return [list[place - 1], list[place + 1]];
    return [ordinal > 0 ? ordinal - 1 : undefined, ordinal + 1 < all ? ordinal + 1 : undefined];
  },

  gist(row) {
    const following = `${row.agreeing || "none"} of ${row.measured > row.triggers ? `its ${row.measured} triggers` : "them"}`;
    if (!row.triggers) return "No prefix of the training text makes this key fire.";
    const one = row.same === 1;
    const end = row.end === "" ? [one ? "is empty" : "are empty"] : [one ? "ends in " : "end in ", token(row.end, { class: "word last" })];
    return [`${row.same} of its ${row.triggers > 1 ? `top ${row.triggers} triggers` : "triggers"} `, ...end, ". Its value promotes ", token(row.top, { class: "word" }),
      `, which ${manifest.target === "next" ? "follows" : "ends"} ${following}.`];
  },

  // Say whose coefficients and which value a memory of a model with both signs has, and link to the other sign.
  sign(layer, key) {
    const below = Memory.negative(key), other = below ? key - manifest.neurons : key + manifest.neurons;
    return make("p", { class: "quiet" }, below ? "Coefficients below zero, shown with their signs changed; the value is −v. " : "Coefficients above zero; the value is v. ",
      make("a", { href: Address.ofKey(layer, other) }, `${below ? "Positive" : "Negative"} coefficients of this key`));
  },

  triggers(row, record) {
    if (!record.t.length) return make("p", { class: "empty" }, "None.");
    const labels = new Map();
    for (const [who, pairs] of Object.entries(record.b ?? {})) {
      for (const [rank, label] of pairs) labels.set(rank, [...(labels.get(rank) ?? []), [who, label]]);
    }
    return make("ol", { class: "triggers" }, record.t.map((text, i) => this.trigger(record, i, text, labels.get(i + 1) ?? [], row)));
  },

  trigger(record, i, text, labels, row) {
    const words = text === "" ? [] : text.split(" "), coefficient = record.c[i], cut = record.x?.[i] ?? 0;
    const agrees = record.n[i] !== null && record.n[i] === row.top && manifest.target === "next";
    const next = record.n[i] === null ? make("span", { class: "quiet" }, "the sentence ends") : token(record.n[i], { class: agrees ? "word yes" : "word" });
    const prefix = make("p", { class: "prefix", dir: "ltr" },
      cut ? make("span", { class: "quiet", title: `${many(cut, "token")} before` }, "… ") : null,
      words.length ? this.shaded(words, record.h?.[i], coefficient, record.c[0], cut, record.g?.[i]) : make("span", { class: "quiet" }, "(empty prefix)"));
    const place = `${manifest.files[record.f?.[i] ?? 0]}, line ${Numbers.whole(record.l[i])}`;
    return make("li", {},
      make("div", { class: "measure", title: place }, make("span", { class: "rank" }, i + 1), bar(coefficient / record.c[0]), make("span", { class: "number" }, Numbers.short(coefficient))),
      make("div", { class: "text" }, prefix, make("p", { class: "next" }, make("span", { class: "quiet arrow", "aria-hidden": "true" }, "→"),
        make("span", { class: "hidden" }, "next token: "), next, agrees ? make("span", { class: "yes" }, "✓ agrees") : null)),
      this.notes(record.m?.[i + 1], labels));
  },

  // Return a prefix's words, each shaded by the key's coefficient after it, with the last one framed. ``begins`` has a 1
  // for each token that begins a word; without it every token is one.
  shaded(words, levels, coefficient, highest, cut, begins) {
    const top = manifest.levels.length - 1;
    return words.flatMap((word, i) => {
      const last = i === words.length - 1, element = token(word, { class: last ? "word last" : "word" });
      if (levels) {
        const level = last ? coefficient / highest : manifest.levels.indexOf(levels[i]) / top;
        element.style.setProperty("--level", level.toFixed(3));
        element.classList.add("tint");
        element.title = `${last ? "" : "about "}${last ? Numbers.short(coefficient) : (level * highest).toPrecision(2)} after token ${cut + i + 1}`;
      }
      return [i && begins?.[i] !== "0" ? " " : null, element];
    });
  },

  notes(changes, labels) {
    if (!changes && !labels.length) return null;
    const names = ["first", "last", "random"];
    return make("p", { class: "notes" },
      changes ? names.map((name, j) => changes[j] === null ? null : make("span", { class: "note", title: j === 2 ? `token ${changes[3]} removed` : null },
        `without ${name} `, make("b", { class: changes[j] < -0.5 ? "no" : null }, Numbers.change(changes[j])))) : null,
      labels.map(([who, label]) => make("span", { class: `note label ${label}` }, `${label}`, make("span", { class: "quiet" }, ` ${who}`))));
  },

  value(row, record) {
    const most = record.v[0][1] || 1;
    return make("div", { class: "card" },
      make("ol", { class: "tops" }, record.v.map(([word, p]) => make("li", {},
        make("a", { href: Address.ofList({ promotes: word }), class: "word", title: "values that promote this token" }, token(word)), bar(p / most),
        make("span", { class: "number" }, Numbers.percent(p))))),
      this.agreement(row));
  },

  agreement(row) {
    if (row.agrees === null) return make("p", { class: "quiet" }, "No token to compare with.");
    return make("dl", { class: "facts" },
      make("dt", {}, "Agreement"), make("dd", {}, row.agrees ? make("span", { class: "yes" }, "✓ agrees") : make("span", { class: "no" }, "✗ does not agree")),
      make("dt", {}, manifest.target === "next" ? "Next token" : "Last token"), make("dd", {}, token(row.next, { class: "word" }), `, rank ${Numbers.whole(row.rank)}`, make("small", {}, " (0 = top)")),
      make("dt", {}, "Triggers that agree"), make("dd", {}, `${Numbers.whole(row.agreeing)} of ${Numbers.whole(row.measured)}`));
  },

  patterns(record) {
    const found = (record.p ?? []).map(([who, type, description, ranks]) => make("li", {},
      make("span", { class: `note label ${type}` }, type), " ", token(description), make("small", {}, ` ${many(ranks.length, "trigger")}, ${who}`)));
    return make("section", { "aria-labelledby": "patterns" }, make("h2", { id: "patterns" }, "Patterns"),
      found.length ? make("ul", { class: "patterns" }, found) : make("p", { class: "quiet" }, "No patterns found."),
      Object.keys(record.b ?? {}).includes("proxy") ? make("p", { class: "quiet" }, "proxy: found by an algorithm, not by people.") : null);
  },

  changes(row) {
    return make("section", { "aria-labelledby": "changes" }, make("h2", { id: "changes" }, "Change after removing a token"),
      make("dl", { class: "facts" }, ["first", "last", "random"].flatMap((name, i) => row.changes[i] === null ? []
        : [make("dt", {}, `${name} token`), make("dd", {}, Numbers.change(row.changes[i]), make("small", {}, " on average"))])));
  },
};
