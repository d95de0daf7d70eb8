"use strict";
// Load the parts of the site. Each is a script with deflated JSON, since a page opened from disk may load only scripts.

const Parts = {
  most: 96, // parts of keys kept in memory
  waiting: new Map(),
  kept: new Map(),

  // Return a part's content. Each part is loaded once; the oldest parts of keys are dropped when there are too many.
  load(name) {
    let promise = this.kept.get(name);
    this.kept.delete(name);
    if (!promise) {
      promise = this.fetch(name).then(this.unpack);
      promise.catch(() => this.kept.delete(name));
    }
    this.kept.set(name, promise);
    const keys = [...this.kept.keys()].filter((other) => other.startsWith("keys-"));
    keys.slice(0, Math.max(0, keys.length - this.most)).forEach((other) => this.kept.delete(other));
    return promise;
  },

  fetch(name) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      this.waiting.set(name, resolve);
      script.src = `data/${name}.js`;
      script.onload = () => script.remove();
      script.onerror = () => {
        script.remove();
        reject(new Error(`data/${name}.js: this part of the gallery could not be loaded`));
      };
      document.head.append(script);
    });
  },

  unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(plain).json();
  },
};

// Called by every part's script.
function part(name, packed) {
  Parts.waiting.get(name)?.(packed);
  Parts.waiting.delete(name);
}
