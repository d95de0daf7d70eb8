"use strict";
// Export the current page as CSV. Cells are escaped so that spreadsheets read no formulas.

const Sheet = {
  cell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return String(value);
    const safe = /^\s*[=+\-@]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  },

  text: (rows) => rows.map((row) => row.map(Sheet.cell).join(",")).join("\n") + "\n",

  // The columns that name a key, and their cells.
  get keyed() {
    return manifest.neurons ? ["key", "sign"] : ["key"];
  },
  named: (key) => (manifest.neurons ? [Memory.key(key), Memory.negative(key) ? -1 : 1] : [key]),

  list(ordinals, matches) {
    const head = ["run", "model", "layer", ...this.keyed, "ends_in", "same_end", "triggers", "fired", "prefixes", "coefficient", "top_token", "top_probability",
      manifest.target === "next" ? "next_token" : "last_token", "rank", "agrees", "agreeing_triggers", "measured_triggers", ...manifest.labels, "annotators_differ",
      "change_first", "change_last", "change_random", ...(matches ? ["match"] : [])];
    const rows = ordinals.map((ordinal) => {
      const row = Layers.row(ordinal);
      return [manifest.run, manifest.scope, row.layer, ...this.named(row.key), row.end, row.same, row.triggers, row.fired, row.prefixes, row.coefficient, row.top, row.probability,
        row.next, row.rank, row.agrees, row.agreeing, row.measured, ...(row.labels ?? manifest.labels.map(() => null)), row.disagree,
        ...(row.changes ?? [null, null, null]), ...(matches ? [Math.abs(matches.get(ordinal))] : [])];
    });
    return this.text([head, ...rows]);
  },

  // The key's triggers, then its weaker examples.
  key({ row, record }) {
    const head = ["run", "model", "layer", ...this.keyed, "rank", "percentile", "coefficient", "file", "line", "tokens_left_out", "prefix", "next_token",
      "same_text_as", "labels", "change_first", "change_last", "change_random", "removed_random"];
    const labels = (rank) => Object.entries(record.b ?? {}).flatMap(([who, pairs]) =>
      pairs.filter(([other]) => other === rank).map(([, label]) => `${who}: ${label}`)).join("; ");
    const prefix = (of, i, rank, percentile) => [manifest.run, manifest.scope, row.layer, ...this.named(row.key), rank, percentile, of.c[i],
      manifest.files[of.f?.[i] ?? 0], of.l[i], of.x?.[i] ?? 0, of.t[i], of.n[i]];
    const rows = record.t.map((_, i) => [...prefix(record, i, i + 1, null), record.e?.[i] || null, labels(i + 1), ...(record.m?.[i + 1] ?? [null, null, null, null])]);
    const weaker = (record.s?.q ?? []).map((percentile, i) => [...prefix(record.s, i, null, percentile), ...Array(6).fill(null)]);
    return this.text([head, ...rows, ...weaker]);
  },

  button() {
    const button = make("button", { type: "button", id: "download" }, "CSV ↓");
    button.title = "Download this page's data as CSV";
    button.onclick = () => this.download();
    return button;
  },

  async download() {
    const place = Address.parse(location.hash);
    let name, text;
    if (place.page === "key") [name, text] = [`key-${place.layer}-${Memory.name(place.key).replace("−", "-negative")}`, this.key(Key.shown)];
    else {
      const { ordinals, matches } = List.last;
      await Layers.need([...new Set(ordinals.map((ordinal) => Layers.place(ordinal)[0]))]);
      [name, text] = ["keys", this.list(ordinals, matches)];
    }
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" })), download: `${manifest.run}-${name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    say("Downloaded");
  },
};
