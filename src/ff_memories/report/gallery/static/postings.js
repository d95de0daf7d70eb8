"use strict";
// Search the text of triggers by its index. A trigger's number is ordinal * top + rank - 1; docs/gallery.md describes the files.

const Postings = {
  size: () => Layers.size() * manifest.top,

  // Call a function with the number of each trigger of an entry, in order.
  each([, steps], call) {
    let number = 0;
    for (const step of steps) call((number += step));
  },

  bits(set, call) {
    for (let i = 0; i < set.length; i++) {
      for (let byte = set[i], number = 8 * i; byte; byte >>= 1, number++) if (byte & 1) call(number);
    }
  },

  // Return the set of triggers that contain a word, one bit each, from the entries of all its cases.
  holding(entries) {
    const set = new Uint8Array(Math.ceil(this.size() / 8));
    for (const entry of entries) this.each(entry, (number) => (set[number >> 3] |= 1 << (number & 7)));
    return set;
  },

  // Return the set of triggers that contain every word; ``words``: for each, the entries of its cases.
  all: (words) => words.map((entries) => Postings.holding(entries)).reduce((both, set) => both.map((byte, i) => byte & set[i])),

  // Return how many triggers of each key contain all words.
  together(words) {
    const found = new Uint32Array(Layers.size());
    this.bits(this.all(words), (number) => found[Math.floor(number / manifest.top)]++);
    return this.counted(found);
  },

  // Return how many triggers of each key contain the words one behind the other; ``ends``: as their last words.
  phrase(words, ends = false) {
    const triggers = [], found = new Uint32Array(Layers.size());
    this.bits(this.all(words), (number) => triggers.push(number));
    let low = null, high = null; // bits of the places of a phrase's last word so far, 0 to 31 and 32 to 63
    for (const places of words.map((entries) => this.places(entries, triggers))) {
      for (let i = 0; low !== null && i < triggers.length; i++) {
        places.low[i] &= (low[i] >>> 1) | (high[i] << 31);
        places.high[i] &= high[i] >>> 1;
      }
      ({ low, high } = places);
    }
    triggers.forEach((number, i) => {
      if (ends ? low[i] & 1 : low[i] | high[i]) found[Math.floor(number / manifest.top)]++;
    });
    return this.counted(found);
  },

  // Return where in some triggers a word stands, counted from their last tokens, as bits.
  places(entries, triggers) {
    const low = new Uint32Array(triggers.length), high = new Uint32Array(triggers.length);
    for (const entry of entries) {
      const places = entry[2];
      let at = 0, i = 0;
      this.each(entry, (number) => {
        while (i < triggers.length && triggers[i] < number) i++;
        const here = i < triggers.length && triggers[i] === number;
        for (let last = false; !last; at++) {
          const place = places[at] & 63;
          last = places[at] > 63;
          if (here && place < 32) low[i] |= 1 << place;
          else if (here) high[i] |= 1 << (place - 32);
        }
      });
    }
    return { low, high };
  },

  counted(found) {
    const keys = new Map();
    found.forEach((n, ordinal) => n && keys.set(ordinal, n));
    return keys;
  },
};
