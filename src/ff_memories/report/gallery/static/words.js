"use strict";
// Search words: the index lists the keys that fire on a word, the values that promote it, and the parts that contain it.

const Words = {
  split: (text) => text.trim().split(/\s+/).filter(Boolean),

  // Return whether a token matches the typed word: ignore case unless a capital was typed.
  same: (typed, word) => (typed === typed.toLowerCase() ? word.toLowerCase() === typed : word === typed),

  // Return the entries of the part of the index that covers a word.
  async near(typed) {
    const folded = typed.toLowerCase(), starts = manifest.words;
    let low = 0, high = starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= folded) low = middle + 1;
      else high = middle;
    }
    return low ? Parts.load(`words-${low - 1}`) : [];
  },

  async entries(typed) {
    return (await this.near(typed)).filter(([word]) => this.same(typed, word));
  },

  // Return up to n searchable words that start with the typed text, most frequent first.
  async suggest(typed, kind, n = 12) {
    const column = { fires: 1, promotes: 2, text: 3 }[kind], folded = typed.toLowerCase();
    const found = (await this.near(typed)).filter(([word]) => word.toLowerCase().startsWith(folded));
    const size = (entry) => (column === 1 ? Object.values(entry[1]).reduce((sum, pairs) => sum + pairs.length, 0)
      : entry[column] === 0 ? Infinity : entry[column].length);
    return found.filter((entry) => size(entry) > 0).sort((a, b) => size(b) - size(a)).slice(0, n).map(([word]) => word);
  },

  // Add [step, number, ...] to a map from ordinals.
  add(into, pairs, join) {
    for (let i = 0, ordinal = 0; i < pairs.length; i += 2) {
      ordinal += pairs[i];
      into.set(ordinal, join(into.get(ordinal), pairs[i + 1]));
    }
  },

  // Return how many triggers of each key end in the typed words.
  async fires(text, progress) {
    const typed = this.split(text), last = typed.at(-1), before = typed.at(-2), found = new Map();
    for (const [, fires] of await this.entries(last)) {
      for (const [word, pairs] of Object.entries(fires)) {
        if (before === undefined || this.same(before, word)) this.add(found, pairs, (a, b) => (a ?? 0) + b);
      }
    }
    if (typed.length < 3) return found;
    const ends = (words) => typed.every((one, i) => this.same(one, words[words.length - typed.length + i] ?? ""));
    return this.scan(await this.parts(typed), ends, progress, (ordinal) => found.has(ordinal));
  },

  // Return the values with the word among their top tokens, with higher numbers for higher places.
  async promotes(text) {
    const found = new Map();
    for (const [, , promotes] of await this.entries(text.trim())) {
      this.add(found, promotes, (a, b) => Math.max(a ?? -Infinity, -b));
    }
    return found;
  },

  // Return how many triggers of each key contain all words, or the quoted phrase.
  async text(text, progress) {
    const phrase = /^\s*"(.*)"\s*$/.exec(text), typed = this.split(phrase ? phrase[1] : text);
    if (!typed.length) return new Map();
    const holds = phrase
      ? (words) => words.some((_, start) => typed.every((one, i) => this.same(one, words[start + i] ?? "")))
      : (words) => typed.every((one) => words.some((word) => this.same(one, word)));
    return this.scan(await this.parts(typed), holds, progress);
  },

  // Return the parts of keys whose triggers contain all words.
  async parts(typed) {
    const all = Array.from({ length: Math.ceil(Layers.size() / manifest.keys_of_a_part) }, (_, i) => i);
    let common = all;
    for (const one of new Set(typed)) {
      const own = new Set();
      for (const [, , , steps] of await this.entries(one)) {
        let number = 0;
        (steps === 0 ? all : steps).forEach((step) => own.add(steps === 0 ? step : (number += step)));
      }
      common = common.filter((number) => own.has(number));
    }
    return common;
  },

  // Search parts of keys; return how many triggers of each key match.
  async scan(parts, holds, progress, wanted = () => true) {
    const found = new Map(), size = manifest.keys_of_a_part, inside = progress.inside ?? (() => true);
    const due = parts.filter((number) => {
      const keys = Array.from({ length: size }, (_, i) => number * size + i).filter((ordinal) => ordinal < Layers.size());
      return keys.some((ordinal) => inside(ordinal) && wanted(ordinal));
    });
    for (let i = 0; i < due.length && !progress.stopped(); i += 8) {
      progress.at(i, due.length, found.size);
      await Promise.all(due.slice(i, i + 8).map(async (number) => {
        for (const [place, record] of (await Parts.load(`keys-${number}`)).entries()) {
          const ordinal = number * size + place;
          if (!wanted(ordinal)) continue;
          const n = record.t.filter((trigger) => holds(trigger.split(" "))).length;
          if (n) found.set(ordinal, n);
        }
      }));
    }
    return found;
  },
};
