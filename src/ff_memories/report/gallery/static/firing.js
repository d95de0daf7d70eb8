"use strict";
// Show how a key fires: how often, and how high its coefficients are in a random sample of the training text.

const Firing = {
  // Return the section, or null if the run counted nothing.
  section(row, record) {
    if (row.prefixes === null && !record.q) return null;
    return make("section", { "aria-labelledby": "firing" }, make("h2", { id: "firing" }, "How often it fires"),
      row.prefixes === null ? null : make("p", { class: "rate" }, ...this.rate(row)),
      record.q ? this.histogram(row, record)
        : row.fired && manifest.sampled ? make("p", { class: "quiet" }, `It fires on no prefix of a random sample of ${many(manifest.sampled, "training sentence")}.`) : null);
  },

  rate: (row) => row.fired === 0 ? [`It fires on none of ${many(row.prefixes, "prefix", "prefixes")}.`]
    : ["It fires on ", make("b", {}, Numbers.rate(row.rate)), ` of ${many(row.prefixes, "prefix", "prefixes")}: ${Numbers.whole(row.fired)} times.`],

  // Return a histogram with logarithmic heights: a few large coefficients matter, and most are small.
  histogram(row, record) {
    const bins = Array.from({ length: manifest.bins }, (_, i) => record.q[i] ?? 0), width = row.coefficient / manifest.bins;
    const all = bins.reduce((a, b) => a + b, 0), most = Math.max(...bins), edge = (i) => Numbers.short(i * width);
    const fullest = bins.indexOf(most), last = record.q.length - 1;
    const said = `Histogram of ${many(all, "coefficient")}. ${Numbers.whole(most)} lie from ${edge(fullest)} to ${edge(fullest + 1)}. ` +
      `The highest lie from ${edge(last)} to ${edge(last + 1)}.`;
    const columns = bins.map((n, i) => {
      const column = make("span", { class: n ? null : "bare", title: `${edge(i)} to ${edge(i + 1)}: ${many(n, "prefix", "prefixes")}` });
      column.style.setProperty("--share", Math.log1p(n) / Math.log1p(most));
      return column;
    });
    const marks = (record.s?.q ?? []).map((percentile, i) => {
      const mark = make("span", { title: `${percentile}th percentile: ${Numbers.short(record.s.c[i])}` });
      mark.style.setProperty("--at", Math.min(1, record.s.c[i] / row.coefficient));
      return mark;
    });
    return make("figure", { class: "histogram" },
      make("div", { class: "bins", role: "img", "aria-label": said }, columns),
      make("div", { class: "marks", "aria-hidden": "true" }, marks),
      make("p", { class: "ends", "aria-hidden": "true" }, make("span", {}, "0"), make("span", {}, Numbers.short(row.coefficient))),
      make("figcaption", {}, `The key's ${many(all, "positive coefficient")} in a random sample of ${many(manifest.sampled, "training sentence")}. The axis ends at the top trigger's; heights are logarithmic.`,
        marks.length ? " Marks: the weaker examples." : ""),
      make("details", {}, make("summary", {}, "Numbers"), make("table", {},
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Coefficient"), make("th", { scope: "col" }, "Prefixes"))),
        make("tbody", {}, bins.flatMap((n, i) => n ? [make("tr", {}, make("th", { scope: "row" }, `${edge(i)} – ${edge(i + 1)}`), make("td", {}, Numbers.whole(n)))] : [])))));
  },
};
