"use strict";
// Addresses: #/16/1935 is a key, #/16 a layer's keys, #/?layer=16&agrees=1&sort=probability a list. docs/gallery.md describes them.

// Names of memories. Where a model counts both signs of a coefficient, memory d_m + i is key i's negative coefficients,
// with the value -v: readers see "12−".
const Memory = {
  key: (memory) => (manifest.neurons ? memory % manifest.neurons : memory),
  negative: (memory) => Boolean(manifest.neurons) && memory >= manifest.neurons,
  name: (memory) => `${Memory.key(memory)}${Memory.negative(memory) ? "−" : ""}`,
  long: (memory) => `key ${Numbers.whole(Memory.key(memory))}${Memory.negative(memory) ? ", negative coefficients" : ""}`,
  // Return a memory's place in its layer; one that the model lacks is beyond the last.
  read(key, minus) {
    if (!manifest?.neurons) return minus ? Infinity : key;
    return key >= manifest.neurons ? Infinity : minus ? key + manifest.neurons : key;
  },
};

const Address = {
  // The parameters of a list. A range is 3, 3.., ..3 or 3..5.
  fields: {
    fires: { about: "fires on", kind: "words" },
    promotes: { about: "promotes", kind: "words" },
    text: { about: "contains", kind: "words" },
    layer: { about: "layer", kind: "range" },
    agrees: { about: "agreement", kind: "choice", choices: { 1: "agrees", 0: "does not agree", none: "no triggers" } },
    label: {
      about: "trigger label",
      kind: "choice",
      choices: { any: "any label", shallow: "shallow", both: "both", semantic: "semantic", none: "none" },
    },
    disagree: { about: "annotators disagree", kind: "choice", choices: { 1: "yes", 0: "no" } },
    mutated: { about: "mutated", kind: "choice", choices: { 1: "yes", 0: "no" } },
    coefficient: { about: "top coefficient", kind: "range" },
    probability: { about: "top probability", kind: "range" },
    rank: { about: "rank of the next token", kind: "range" },
    triggers: { about: "triggers", kind: "range" },
    rate: { about: "activation density in %", kind: "range" },
    dead: { about: "dead", kind: "choice", choices: { 1: "yes: never fires", 0: "no: fires" } },
  },

  // Return {page: "key", layer, key}, {page: "list", query, number, faults} or, for unknown addresses, {page: "none"}.
  parse(hash) {
    const path = hash.replace(/^#/, "") || "/";
    const key = /^\/(\d+)\/(\d+)(-|−|%E2%88%92)?$/i.exec(path);
    if (key) return { page: "key", layer: Number(key[1]), key: Memory.read(Number(key[2]), key[3]) };
    const layer = /^\/(\d+)\/?$/.exec(path);
    if (layer && !Layers.all().includes(Number(layer[1]))) return { page: "key", layer: Number(layer[1]), key: Infinity };
    if (layer) return { page: "list", query: { layer: layer[1] }, number: 1, faults: [] };
    if (path !== "/" && !path.startsWith("/?")) return { page: "none" };
    const query = {}, faults = [];
    let number = 1;
    for (const [name, value] of new URLSearchParams(path.slice(2))) {
      if (name === "page" && /^[1-9]\d{0,6}$/.test(value)) number = Number(value);
      else if (!(name in query) && this.fits(name, value)) query[name] = value;
      else faults.push(`${name}=${value}`);
    }
    return { page: "list", query, number, faults };
  },

  fits(name, value) {
    if (name === "sort") return value.replace(/^-/, "") in Sorting.orders;
    const kind = this.fields[name]?.kind;
    if (kind === "choice") return value in this.fields[name].choices;
    if (kind === "range") return this.range(value) !== null;
    return kind === "words" && value.trim() !== "";
  },

  // Return [low, high] of a range, or null.
  range(text) {
    const number = "\\d+(?:\\.\\d+)?(?:e-?\\d+)?|\\.\\d+";
    const found = new RegExp(`^(${number})?(\\.\\.)?(${number})?$`, "i").exec(text);
    if (!found || (found[1] === undefined && found[3] === undefined)) return null;
    if (!found[2]) return found[3] === undefined ? [Number(found[1]), Number(found[1])] : null;
    const low = found[1] === undefined ? -Infinity : Number(found[1]), high = found[3] === undefined ? Infinity : Number(found[3]);
    return low <= high ? [low, high] : null;
  },

  ofKey: (layer, key) => `#/${layer}/${Memory.name(key).replace("−", "-")}`,

  ofList(query, number = 1) {
    const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value != null));
    if (number > 1) parameters.set("page", number);
    const text = parameters.toString().replaceAll("%2F", "/");
    return text ? `#/?${text}` : "#/";
  },
};
