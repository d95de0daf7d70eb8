"use strict";
// Show a key's page: its triggers and weaker examples, and beside them what its value promotes.

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
        make("section", { "aria-labelledby": "triggers" }, make("h2", { id: "triggers" }, "Key: triggers"), this.triggers(row, record), this.models(record),
          record.s ? this.weaker(row, record.s) : null, record.r ? this.without(row, record.r) : null),
        make("aside", { "aria-labelledby": "value" },
          make("section", {}, make("h2", { id: "value" }, "Value: promoted tokens"), this.value(row, record)),
          Firing.section(row, record), record.p || record.b ? this.patterns(record) : null, row.changes ? this.changes(row) : null,
          record.k || record.w ? this.similar(record) : null, this.trace(layer, key))));
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
    const more = row.measured > row.triggers, following = `${row.agreeing || "none"} of ${more ? `all ${row.measured}` : "them"}`;
    if (!row.triggers) return row.fired ? "The run lists no triggers of this key." : "No prefix of the training text makes this key fire.";
    const one = row.same === 1;
    const end = row.end === "" ? [one ? "is empty" : "are empty"] : [one ? "ends in " : "end in ", token(row.end, { class: "word last" })];
    return [`${row.same} of its ${row.triggers > 1 ? `top ${row.triggers} triggers` : "triggers"}${more ? `, of ${row.measured},` : ""} `, ...end, ". Its value promotes ", token(row.top, { class: "word" }),
      `, which ${manifest.target === "next" ? "follows" : "ends"} ${following}.`];
  },

  // Say whose coefficients and which value a memory of a model with both signs has, and link to the other sign.
  sign(layer, key) {
    const below = Memory.negative(key), other = below ? key - manifest.neurons : key + manifest.neurons;
    return make("p", { class: "quiet" }, below ? "Coefficients below zero, shown with their signs changed; the value is −v. " : "Coefficients above zero; the value is v. ",
      make("a", { href: Address.ofKey(layer, other) }, `${below ? "Positive" : "Negative"} coefficients of this key`));
  },

  triggers(row, record) {
    if (!record.t.length) return this.none(row);
    const labels = new Map();
    for (const [who, pairs] of Object.entries(record.b ?? {})) {
      for (const [rank, label] of pairs) labels.set(rank, [...(labels.get(rank) ?? []), [who, label]]);
    }
    const folded = new Map(); // by the first trigger with a text, the others with it
    (record.e ?? []).forEach((best, i) => best && folded.set(best - 1, [...(folded.get(best - 1) ?? []), i]));
    const notes = (i) => this.notes(record.m?.[i + 1], labels.get(i + 1) ?? []);
    return make("ol", { class: "triggers" }, record.t.map((_, i) => record.e?.[i] ? null
      : this.prefix(record, i, row, String(i + 1), notes(i), folded.has(i) ? this.same(record, folded.get(i), row, notes) : null)));
  },

  // Say what a key without triggers lacks, and lead to the next one of its layer that has some.
  none(row) {
    const next = Layers.of(row.layer).find((other) => other > row.ordinal && Layers.row(other).triggers);
    return make("p", { class: "empty" }, row.fired ? "None are listed. " : "None: its coefficient is above zero nowhere in the training text, so nothing agrees or disagrees with its value. What the value promotes follows from the weights alone. ",
      next === undefined ? null : make("a", { href: Address.ofKey(...Layers.place(next)) }, "Next key with triggers"));
  },

  // Return the section of prefixes on which the key fires less.
  weaker: (row, samples) => make("section", { class: "weaker", "aria-labelledby": "weaker" }, make("h2", { id: "weaker" }, "Key: weaker examples"),
    make("p", { class: "quiet" }, `At percentiles of its positive coefficients in a random sample of ${many(manifest.sampled, "training sentence")}.`),
    make("ol", { class: "triggers" }, samples.t.map((_, i) => Key.prefix(samples, i, row, `${samples.q[i]}th`)))),

  // Return the section of prefixes at which the run took the key's memory away, with what became of the predictions.
  without(row, without) {
    const own = { ...row, coefficient: Math.max(...without.c) };
    const note = (text, x) => make("span", { class: "note" }, `${text} `, make("b", {}, Numbers.signed(x)));
    return make("section", { class: "without", "aria-labelledby": "without" }, make("h2", { id: "without" }, "Without this memory"),
      make("p", { class: "quiet" }, `Validation prefixes where it is active, with its coefficient ${without.i}. The first two numbers say how the mean logit of the ten tokens that its value promotes most changes: by the value itself, and once the layers above have run. The third says how the log-probability of the model's own top token changes.`),
      make("ol", { class: "triggers" }, without.t.map((_, i) => this.prefix(without, i, own, String(i + 1),
        make("p", { class: "notes" }, note("by itself", without.u[i]), note("in the end", without.o[i]), note("top token", without.a[i]),
          without.z[i] ? make("span", { class: "note" }, make("b", { class: "no" }, "another top token")) : null)))));
  },

  // Return a prefix of a record, with its coefficient, its next token and notes.
  prefix(record, i, row, rank, ...notes) {
    const text = record.t[i], words = text === "" ? [] : text.split(" "), coefficient = record.c[i], cut = record.x?.[i] ?? 0;
    const prefix = make("p", { class: "prefix", dir: "ltr" },
      cut ? make("span", { class: "quiet", title: `${many(cut, "token")} before` }, "… ") : null,
      words.length ? this.shaded(words, record.h?.[i], coefficient, row.coefficient, cut, record.g?.[i]) : make("span", { class: "quiet" }, "(empty prefix)"));
    return make("li", {},
      make("div", { class: "measure", title: this.place(record, i) }, make("span", { class: "rank" }, rank), bar(coefficient / row.coefficient), make("span", { class: "number" }, Numbers.short(coefficient))),
      make("div", { class: "text" }, prefix, make("p", { class: "next" }, this.next(record.n[i], row))),
      ...notes);
  },

  place: (record, i) => `${manifest.files[record.f?.[i] ?? 0]}, line ${Numbers.whole(record.l[i])}`,

  next(word, row) {
    const agrees = word !== null && word === row.top && manifest.target === "next";
    return [make("span", { class: "quiet arrow", "aria-hidden": "true" }, "→"), make("span", { class: "hidden" }, "next token: "),
      word === null ? make("span", { class: "quiet" }, "the sentence ends") : token(word, { class: agrees ? "word yes" : "word" }),
      agrees ? make("span", { class: "yes" }, "✓ agrees") : null];
  },

  // Return the triggers with the same text as a better one, folded into it.
  same: (record, others, row, notes) => make("details", { class: "same" },
    make("summary", {}, `×${others.length + 1}`, make("span", { class: "quiet" }, ` same text`)),
    make("ul", {}, others.map((i) => make("li", {},
      make("p", {}, make("span", { class: "quiet" }, `${i + 1}. `), make("span", { class: "number" }, Numbers.short(record.c[i])), " ",
        Key.next(record.n[i], row), make("small", {}, ` ${Key.place(record, i)}`)), notes(i))))),

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

  // Say whose labels on a page are no person's.
  models(record) {
    const names = Object.keys(record.b ?? {}).filter((who) => manifest.language_models.includes(who));
    return names.length ? make("p", { class: "quiet" }, `${names.join(", ")}: labels by ${names.length > 1 ? "language models" : "a language model"}. No figure or claim counts them.`) : null;
  },

  value(row, record) {
    const logits = record.v[0].length > 2, down = record.d ?? [];
    const most = (logits ? Math.max(...[...record.v.map(([, , x]) => x), ...down.map(([, x]) => -x)]) : record.v[0][1]) || 1;
    return make("div", { class: "card" },
      logits ? make("p", { class: "quiet" }, "Logit (logit lens): how much the value raises a token's log-probability over a vector of zeros, less the mean over all tokens.") : null,
      make("p", { class: "quiet" }, `Probability: a uniform distribution over ${Numbers.whole(manifest.vocab)} tokens gives each ${Numbers.percent(1 / manifest.vocab)}; the first has ${Numbers.times(record.v[0][1])} that.${manifest.adaptive ? " An adaptive softmax favours frequent tokens whatever the value; the logit leaves that out." : ""}`),
      make("ol", { class: logits ? "tops logits" : "tops" }, record.v.map(([word, p, logit]) => make("li", {},
        make("a", { href: Address.ofList({ promotes: word }), class: "word", title: "values that promote this token" }, token(word)), bar((logits ? logit : p) / most),
        logits ? make("span", { class: "number", title: "logit" }, Numbers.signed(logit)) : null,
        make("span", { class: "number", title: "probability" }, Numbers.percent(p))))),
      down.length ? [make("h3", {}, "Demoted tokens"), make("ol", { class: "tops logits down" }, down.map(([word, logit]) => make("li", {},
        token(word, { class: "word" }), bar(-logit / most), make("span", { class: "number", title: "logit" }, Numbers.signed(logit)))))] : null,
      this.agreement(row));
  },

  // List the memories with the most similar keys and values; those that the gallery does not show have no link.
  similar(record) {
    const list = (about, rows) => rows ? [make("dt", {}, about), make("dd", {}, make("ul", {}, rows.map(([layer, key, cosine]) => {
      const name = `${layer} / ${Memory.name(key)}`;
      return make("li", {}, Layers.has(layer, key) ? make("a", { href: Address.ofKey(layer, key) }, name) : make("span", {}, name), " ",
        make("small", { class: "number" }, Numbers.signed(cosine)));
    })))] : [];
    return make("section", { "aria-labelledby": "similar" }, make("h2", { id: "similar" }, "Most similar memories"),
      make("p", { class: "quiet" }, "Layer and key, with the cosine."),
      make("dl", { class: "facts similar" }, list("Keys", record.k), list("Values", record.w)));
  },

  // Say how to see a text of one's own, and what the model predicts after it without the key's memory.
  trace(layer, key) {
    const shown = (more) => {
      const command = `ff-memories trace --configfile ${manifest.configfile ?? "my.yaml"} --layer ${layer}${more} --out trace.html "your text"`;
      const copy = navigator.clipboard ? make("button", { type: "button" }, "Copy") : null;
      if (copy) copy.onclick = () => navigator.clipboard.writeText(command).then(() => say("Copied"), () => say("Not copied"));
      return [make("p", {}, make("code", {}, command)), copy];
    };
    const memory = `${layer}:${Memory.key(key)}${Memory.negative(key) ? "-" : ""}`;
    return make("section", { class: "trace", "aria-labelledby": "trace" }, make("h2", { id: "trace" }, "Trace your own text"),
      ...shown(""),
      make("p", { class: "quiet" }, `${manifest.configfile ? "Run it in the folder that you started the run in." : "Replace my.yaml with this run's config file."} The page shows which memories act after each token of your text, and links to them here. See docs/gallery.md.`),
      make("h3", {}, "Your text without this memory"), ...shown(` --set ${memory}=0`),
      make("p", { class: "quiet" }, "The page then has two predictions: the model's own, and the one with this coefficient at zero."));
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
