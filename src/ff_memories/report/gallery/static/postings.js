"use strict";
// Search the text of triggers by its index. A trigger's number is ordinal * top + rank - 1; docs/gallery.md describes the files.

const Postings = {
  size: () => Layers.size() * manifest.top,

  // Return some bytes of a stream, from the files that have them.
  async bytes(stream, start, length) {
    const size = manifest.bytes_of_a_file, first = Math.floor(start / size), last = Math.floor((start + length - 1) / size);
    const files = await Promise.all(Array.from({ length: last - first + 1 }, (_, i) => Parts.bytes(`${stream}-${first + i}`)));
    if (first === last) return files[0].subarray(start - first * size, start - first * size + length);
    const whole = new Uint8Array(length);
    files.forEach((file, i) => {
      const at = (first + i) * size - start; // where the file begins in the whole
      whole.set(file.subarray(Math.max(0, -at), Math.min(file.length, length - at)), Math.max(0, at));
    });
    return whole;
  },

  dense: (postings) => 8 * postings.n > Postings.size(), // one bit per trigger, else differences

  // Call a function with the number of each trigger in some postings, in order.
  each(postings, bytes, call) {
    if (this.dense(postings)) return this.bits(bytes, call);
    for (let i = 0, number = 0; i < bytes.length; i++) {
      let step = bytes[i] & 127;
      for (let shift = 128; bytes[i] > 127; shift *= 128) step += (bytes[++i] & 127) * shift;
      call((number += step));
    }
  },

  bits(set, call) {
    for (let i = 0; i < set.length; i++) {
      for (let byte = set[i], number = 8 * i; byte; byte >>= 1, number++) if (byte & 1) call(number);
    }
  },

  // Return the set of triggers that contain a word, one bit each, from the postings of all its cases.
  async holding(cases) {
    const set = new Uint8Array(Math.ceil(this.size() / 8));
    await Promise.all(cases.map(async (postings) => {
      const bytes = await this.bytes("text", postings.at, postings.bytes);
      if (this.dense(postings)) bytes.forEach((byte, i) => (set[i] |= byte));
      else this.each(postings, bytes, (number) => (set[number >> 3] |= 1 << (number & 7)));
    }));
    return set;
  },

  // Return the set of triggers that contain every word; ``words``: for each, the postings of its cases.
  async all(words) {
    const sets = await Promise.all(words.map((cases) => this.holding(cases)));
    return sets.reduce((both, set) => both.map((byte, i) => byte & set[i]));
  },

  // Return how many triggers of each key contain all words.
  async together(words) {
    const found = new Uint32Array(Layers.size());
    this.bits(await this.all(words), (number) => found[Math.floor(number / manifest.top)]++);
    return this.counted(found);
  },

  // Return how many triggers of each key contain the words one behind the other; ``ends``: as their last words.
  async phrase(words, ends = false) {
    const triggers = [], found = new Uint32Array(Layers.size());
    words.flat().forEach((postings) => this.bytes("places", postings.placesAt, postings.places).catch(() => null)); // meanwhile
    this.bits(await this.all(words), (number) => triggers.push(number));
    let low = null, high = null; // bits of the places of a phrase's last word so far, 0 to 31 and 32 to 63
    for (const places of await Promise.all(words.map((cases) => this.places(cases, triggers)))) {
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
  async places(cases, triggers) {
    const low = new Uint32Array(triggers.length), high = new Uint32Array(triggers.length);
    for (const postings of cases) {
      const [numbers, places] = await Promise.all([this.bytes("text", postings.at, postings.bytes), this.bytes("places", postings.placesAt, postings.places)]);
      let at = 0, i = 0;
      this.each(postings, numbers, (number) => {
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
