"use strict";
// Search words: the index lists the keys that fire on a word, the values that promote it, and where its postings are.

const Words = {
  split: (text) => text.trim().split(/\s+/).filter(Boolean),

  // Return whether a token matches the typed word: ignore case unless a capital was typed.
  same: (typed, word) => (typed === typed.toLowerCase() ? word.toLowerCase() === typed : word === typed),

  // Return the part of an index, "words" or "terms", that covers a word; null if none does.
  async near(index, typed) {
    const folded = typed.toLowerCase(), starts = manifest[index];
    let low = 0, high = starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= folded) low = middle + 1;
      else high = middle;
    }
    return low ? Parts.load(`${index}-${low - 1}`) : null;
  },

  // Return the words with which keys fire or that values promote: [word, fires, promotes].
  async entries(typed) {
    return ((await this.near("words", typed)) ?? []).filter(([word]) => this.same(typed, word));
  },

  // Return the postings of a word in all its cases.
  async postings(typed) {
    const part = await this.near("terms", typed), found = [];
    if (!part) return found;
    let [at, placesAt] = part.at;
    for (const [word, n, bytes, places] of part.terms) {
      if (this.same(typed, word)) found.push({ n, at, bytes, placesAt, places });
      at += bytes;
      placesAt += places;
    }
    return found;
  },

  // Return up to n searchable words that start with the typed text, most frequent first.
  async suggest(typed, kind, n = 12) {
    const folded = typed.toLowerCase(), part = await this.near(kind === "text" ? "terms" : "words", typed);
    const size = { fires: (entry) => Object.values(entry[1]).reduce((sum, pairs) => sum + pairs.length, 0), promotes: (entry) => entry[2].length,
      text: (entry) => entry[1] }[kind];
    const found = (part?.terms ?? part ?? []).filter(([word]) => word.toLowerCase().startsWith(folded));
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
  async fires(text) {
    const typed = this.split(text.replace(/^\s*"(\S|\S.*\S)"\s*$/, "$1")), last = typed.at(-1), before = typed.at(-2), found = new Map();
    if (typed.length > 2) return this.search(typed, (words) => Postings.phrase(words, true));
    for (const [, fires] of await this.entries(last)) {
      for (const [word, pairs] of Object.entries(fires)) {
        if (before === undefined || this.same(before, word)) this.add(found, pairs, (a, b) => (a ?? 0) + b);
      }
    }
    return found;
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
  text(text) {
    const phrase = /^\s*"(.*)"\s*$/.exec(text), typed = this.split(phrase ? phrase[1] : text);
    return this.search(typed, (words) => (phrase && typed.length > 1 ? Postings.phrase(words) : Postings.together(words)));
  },

  // Search the postings of typed words; if one has none, no trigger matches.
  async search(typed, find) {
    const words = await Promise.all(typed.map((one) => this.postings(one)));
    return words.length && words.every((cases) => cases.length) ? find(words) : new Map();
  },
};
