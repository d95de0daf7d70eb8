"use strict";
// Search words: the index lists the keys that fire on a word, the values that promote it, and where its postings are.

const Words = {
  split: (text) => text.trim().split(/\s+/).filter(Boolean),

  // Return whether a token matches the typed word: ignore case unless a capital was typed.
  same: (typed, word) => (typed === typed.toLowerCase() ? word.toLowerCase() === typed : word === typed),

  // Return the entries of the parts of an index, "words" or "terms", that may have a word.
  async near(index, typed) {
    const folded = typed.toLowerCase(), starts = manifest[index];
    const before = starts.findLastIndex((start) => start < folded), last = starts.findLastIndex((start) => start <= folded);
    const numbers = starts.map((_, number) => number).slice(Math.max(0, before), last + 1);
    return (await Promise.all(numbers.map((number) => Parts.load(`${index}-${number}`)))).flat();
  },

  // Return the entries of a word in all its cases: of words [word, fires, promotes], of terms [word, triggers, places].
  entries: async (typed, index = "words") => (await Words.near(index, typed)).filter(([word]) => Words.same(typed, word)),

  // Return up to n searchable words that start with the typed text, most frequent first.
  async suggest(typed, kind, n = 12) {
    const folded = typed.toLowerCase(), entries = await this.near(kind === "text" ? "terms" : "words", typed);
    const size = { fires: (entry) => Object.values(entry[1]).reduce((sum, pairs) => sum + pairs.length, 0), promotes: (entry) => entry[2].length,
      text: (entry) => entry[1].length }[kind];
    const found = entries.filter(([word]) => word.toLowerCase().startsWith(folded));
    const words = found.filter((entry) => size(entry) > 0).sort((a, b) => size(b) - size(a)).map(([word]) => word);
    return [...new Set(words)].slice(0, n);
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
    const words = await Promise.all(typed.map((one) => this.entries(one, "terms")));
    return words.length && words.every((entries) => entries.length) ? find(words) : new Map();
  },
};
