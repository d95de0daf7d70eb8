"use strict";
// Load the layers' indices: one row per key, used to filter and sort lists.

const Layers = {
  loaded: new Map(),

  // Load the indices of some layers.
  async need(layers) {
    await Promise.all(
      layers.filter((layer) => !this.loaded.has(layer)).map(async (layer) =>
        this.loaded.set(layer, await Parts.load(`layer-${layer}`)))
    );
  },

  // An ordinal is a key's place among the gallery's keys. manifest.shown has these by layer, if they are not all.
  size: () => (manifest.shown ? Layers.first(manifest.layers + 1) : manifest.layers * manifest.keys),
  first: (layer) => manifest.shown ? Layers.starts()[layer - 1] : (layer - 1) * manifest.keys,
  starts() {
    this.sums ??= manifest.shown.reduce((sums, keys) => [...sums, sums.at(-1) + keys.length], [0]);
    return this.sums;
  },
  place(ordinal) {
    if (!manifest.shown) return [1 + Math.floor(ordinal / manifest.keys), ordinal % manifest.keys];
    const layer = this.starts().findLastIndex((start) => start <= ordinal) + 1;
    return [layer, manifest.shown[layer - 1][ordinal - this.first(layer)]];
  },
  ordinal: (layer, key) => Layers.first(layer) + (manifest.shown ? manifest.shown[layer - 1].indexOf(key) : key),
  of: (layer) => Array.from({ length: Layers.first(layer + 1) - Layers.first(layer) }, (_, i) => Layers.first(layer) + i),
  has: (layer, key) => layer >= 1 && layer <= manifest.layers && key < manifest.keys && (!manifest.shown || manifest.shown[layer - 1].includes(key)),
  all: () => Array.from({ length: manifest.layers }, (_, i) => i + 1),

  // Return the row of a key whose layer is loaded.
  row(ordinal) {
    const [layer, key] = this.place(ordinal), index = this.loaded.get(layer), at = ordinal - this.first(layer);
    const text = (column) => (index[column][at] === null ? null : index.words[index[column][at]]);
    const known = index.next[at] !== null, fired = index.fired?.[at] ?? null, prefixes = index.prefixes?.[at] ?? null;
    return {
      ordinal, layer, key,
      top: text("top"), more: index.more[at].map((place) => index.words[place]), probability: index.probability[at],
      next: text("next"), rank: index.rank[at], agrees: known ? index.next[at] === index.top[at] : null,
      end: text("end"), same: index.same[at],
      coefficient: index.coefficient[at], triggers: index.triggers[at], agreeing: index.agreeing[at], measured: index.measured[at],
      fired, prefixes, rate: prefixes ? (100 * fired) / prefixes : null, // in percent
      labels: index.labels[at] ?? null, disagree: index.disagree[at] ?? null, changes: index.changes[at] ?? null,
    };
  },
};

const between = (value, range) => value !== null && value >= range[0] && value <= range[1];

// Return a query's test of rows, without its words.
function test(query) {
  const tests = [];
  for (const name of ["layer", "coefficient", "probability", "rank", "triggers", "rate"]) {
    if (!query[name]) continue;
    const range = Address.range(query[name]);
    tests.push((row) => between(row[name], range));
  }
  if (query.agrees) {
    const wanted = { 1: true, 0: false, none: null }[query.agrees];
    tests.push((row) => row.agrees === wanted);
  }
  if (query.label === "any") tests.push((row) => row.labels !== null);
  else if (query.label) {
    const place = manifest.labels.indexOf(query.label);
    tests.push((row) => row.labels !== null && row.labels[place] > 0);
  }
  if (query.disagree) tests.push((row) => row.disagree !== null && row.disagree > 0 === (query.disagree === "1"));
  if (query.dead) tests.push((row) => (row.fired ?? row.triggers) > 0 === (query.dead === "0"));
  if (query.mutated) tests.push((row) => (row.changes !== null) === (query.mutated === "1"));
  return (row) => tests.every((one) => one(row));
}

const Sorting = {
  // sort orders; null always comes last
  orders: {
    agreement: { about: "agreement", of: (row) => row.agrees === null ? null : row.agreeing + (row.agrees ? 1e6 : 0) + row.probability, high: true },
    address: { about: "address", of: (row) => row.ordinal },
    match: { about: "match", of: (row, matches) => -(matches?.get(row.ordinal) ?? 0) },
    coefficient: { about: "top coefficient", of: (row) => row.coefficient, high: true },
    probability: { about: "top probability", of: (row) => row.probability, high: true },
    agreeing: { about: "triggers that agree", of: (row) => row.agreeing, high: true },
    rank: { about: "rank of the next token", of: (row) => row.rank },
    rate: { about: "activation density", of: (row) => row.rate, high: true },
    same: { about: "triggers with the same last token", of: (row) => row.same, high: true },
    label: { about: "triggers with the chosen label", of: (row, _, query) => share(row, query.label), high: true },
    disagree: { about: "disagreement", of: (row) => row.disagree, high: true },
    first: { about: "change without the first token", of: (row) => row.changes?.[0] ?? null },
    last: { about: "change without the last token", of: (row) => row.changes?.[1] ?? null },
    random: { about: "change without a random token", of: (row) => row.changes?.[2] ?? null },
  },

  // Return whether a query needs no layer's index: it neither filters nor sorts by what a row says.
  bare: (query) => Object.keys(query).every((name) => ["fires", "promotes", "text", "layer", "sort"].includes(name))
    && ["match", "address"].includes(Sorting.wish(query).replace(/^-/, "")),

  // Return the order that a query asks for: of a search by match, else by agreement.
  wish: (query) => query.sort ?? (["fires", "promotes", "text"].some((name) => query[name]) ? "match" : "agreement"),

  // Sort rows by a query; a minus reverses the order.
  sort(rows, query, matches) {
    const wish = this.wish(query);
    const order = this.orders[wish.replace(/^-/, "")];
    const sign = (order.high ? -1 : 1) * (wish.startsWith("-") ? -1 : 1);
    const keyed = rows.map((row) => [order.of(row, matches, query), row]);
    keyed.sort(([a, x], [b, y]) => {
      if (a === b) return x.ordinal - y.ordinal;
      if (a === null || b === null) return a === null ? 1 : -1;
      return sign * (a - b);
    });
    return keyed.map(([, row]) => row);
  },
};

function share(row, label) {
  if (row.labels === null) return null;
  const place = manifest.labels.indexOf(label), all = row.labels.reduce((a, b) => a + b, 0);
  return (place < 0 ? all - row.labels[manifest.labels.indexOf("none")] : row.labels[place]) / all;
}
