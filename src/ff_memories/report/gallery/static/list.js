"use strict";
// Show a list of keys: its filters and its rows.

const List = {
  size: 50, // rows per page
  last: null, // the last list shown: {query, number, ordinals}
  run: 0,

  // Find a query's keys, sorted; null if another list was requested meanwhile.
  async find(query) {
    const run = ++this.run;
    const range = query.layer ? Address.range(query.layer) : [1, manifest.layers];
    const layers = Layers.all().filter((layer) => between(layer, range));
    const inside = (ordinal) => between(Layers.place(ordinal)[0], range);
    let matches = null;
    for (const name of ["fires", "promotes", "text"]) {
      if (!query[name]) continue;
      const found = await Words[name](query[name]);
      if (run !== this.run) return null;
      const both = [...found].filter(([ordinal]) => matches === null || matches.has(ordinal));
      matches = new Map(both.map(([ordinal, n]) => [ordinal, n < 0 ? n : Math.max(n, matches?.get(ordinal) ?? n)]));
    }
    const plain = query.sort === "address" && Object.keys(query).every((name) => ["layer", "sort"].includes(name));
    if (plain) {
      const ordinals = layers.flatMap((layer) => Layers.of(layer));
      return { ordinals, matches };
    }
    const candidates = matches && [...matches.keys()].filter(inside);
    const every = candidates ?? layers.flatMap((layer) => Layers.of(layer));
    if (Sorting.bare(query)) return { ordinals: Sorting.sort(every.map((ordinal) => ({ ordinal })), query, matches).map((row) => row.ordinal), matches };
    await Layers.need(candidates ? [...new Set(candidates.map((o) => Layers.place(o)[0]))] : layers);
    if (run !== this.run) return null;
    const fits = test(query);
    const rows = every.map((ordinal) => Layers.row(ordinal)).filter(fits);
    return { ordinals: Sorting.sort(rows, query, matches).map((row) => row.ordinal), matches };
  },

  async show({ query, number, faults }) {
    const main = document.getElementById("main");
    const found = await this.find(query);
    if (found === null) return;
    const pages = Math.max(1, Math.ceil(found.ordinals.length / this.size));
    number = Math.min(number, pages);
    const first = (number - 1) * this.size, shown = found.ordinals.slice(first, first + this.size);
    const run = this.run;
    await Layers.need([...new Set(shown.map((ordinal) => Layers.place(ordinal)[0]))]);
    if (run !== this.run) return;
    this.last = { query, number, ordinals: found.ordinals, matches: found.matches };
    const rows = shown.map((ordinal) => Layers.row(ordinal));
    const n = found.ordinals.length;
    const title = n === Layers.size() ? `All ${many(n, "key")}${manifest.shown ? ` of this gallery, of ${Numbers.whole(manifest.layers * manifest.keys)}` : ""}` : many(n, "key");
    main.replaceChildren(
      ...[
        Filters.strip(query),
        Filters.form(query),
        make("div", { class: "head" },
          make("h1", { tabindex: "-1" }, title),
          Filters.order(query, found.matches), Sheet.button()),
        Filters.chips(query, faults),
        n ? this.table(rows, found.matches, query) : this.nothing(query),
        n > this.size ? this.pager(query, number, pages) : null,
      ].filter(Boolean)
    );
    document.title = `${title} · ${document.body.dataset.title}`;
    say(`${title} found`);
  },

  nothing: () => make("p", { class: "empty" }, "No matching keys. ", make("a", { href: "#/" }, "All keys")),

  table(rows, matches, query) {
    const head = ["Key", matches && (query.promotes ? "Place" : "Matches"), "Fires on", manifest.counted && "Activation density", "Top coefficient", "Value promotes (× uniform)",
      manifest.target === "next" ? "Next token" : "Last token", "Patterns"].filter(Boolean);
    const most = Math.max(...rows.map((row) => row.coefficient ?? 0)) || 1;
    return make("div", { class: "scroll" },
      make("table", { class: "list" },
        make("caption", { class: "hidden" }, "Keys and their values"),
        make("thead", {}, make("tr", {}, head.map((text) => make("th", { scope: "col" }, text)))),
        make("tbody", {}, rows.map((row) => this.row(row, most, matches)))));
  },

  row(row, most, matches) {
    const address = Address.ofKey(row.layer, row.key), n = matches?.get(row.ordinal);
    const target = manifest.target === "next" ? "Next token" : "Last token";
    const cell = (label, ...content) => make("td", { "data-label": label }, ...content);
    return make("tr", {},
      make("th", { scope: "row" }, make("a", { href: address }, make("span", { class: "layer" }, row.layer), " / ", Memory.name(row.key))),
      matches && cell("Matches", n < 0 ? `${-n}.` : Numbers.whole(n)),
      row.end === null
        ? cell("Fires on", make("span", { class: "quiet" }, "nothing"))
        : cell("Fires on", row.end === "" ? "(empty prefix)" : token(row.end, { class: "word last" }),
            make("small", {}, ` ${row.same} of ${row.triggers}`)),
      manifest.counted && cell("Activation density", Numbers.rate(row.rate)),
      cell("Top coefficient", bar((row.coefficient ?? 0) / most), Numbers.short(row.coefficient)),
      cell("Value promotes", token(row.top, { class: "word" }), make("small", {}, ` ${Numbers.percent(row.probability)} (${Numbers.times(row.probability)}) `),
        make("span", { class: "quiet more" }, row.more.map((word) => [token(word, { class: "word" }), " "]).flat())),
      cell(target, this.next(row)),
      make("td", { "data-label": "Patterns", class: row.labels === null ? "bare" : null }, this.patterns(row)));
  },

  next(row) {
    if (row.agrees === null) return make("span", { class: "quiet" }, "–");
    const rank = row.agrees ? make("span", { class: "yes" }, "✓ agrees") : make("small", {}, `rank ${Numbers.whole(row.rank)}`);
    return make("span", {}, token(row.next, { class: "word" }), " ", rank);
  },

  // Return a small stacked bar of a key's trigger labels, with the counts as text.
  patterns(row) {
    if (row.labels === null) return make("span", { class: "quiet" }, "–");
    const all = row.labels.reduce((a, b) => a + b, 0);
    const words = manifest.labels.map((label, i) => (row.labels[i] ? `${row.labels[i]} ${label}` : null)).filter(Boolean);
    const pieces = manifest.labels.map((label, i) => {
      const piece = make("span", { class: label });
      piece.style.setProperty("--share", row.labels[i] / all);
      return piece;
    });
    return make("span", { title: words.join(", ") }, make("span", { class: "stack", "aria-hidden": "true" }, pieces),
      make("span", { class: "hidden" }, words.join(", ")),
      row.disagree ? make("small", {}, ` annotators differ on ${row.disagree}`) : null);
  },

  pager(query, number, pages) {
    const link = (text, to, rel) => to >= 1 && to <= pages ? make("a", { href: Address.ofList(query, to), rel }, text)
      : make("span", { class: "quiet" }, text);
    return make("nav", { class: "pager", "aria-label": "Pages" }, link("← Previous", number - 1, "prev"),
      make("span", {}, `Page ${number} of ${Numbers.whole(pages)}`), link("Next →", number + 1, "next"));
  },
};
