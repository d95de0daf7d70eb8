"use strict";
// The grid's keys, and the details of a cell. All text goes in as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const grid = document.querySelector("[role=grid]");
  const rows = [...grid.tBodies[0].rows].map((row) => [...row.querySelectorAll("td")]);
  const details = document.getElementById("details"), where = document.getElementById("where"), what = document.getElementById("what");
  const most = data.layers.length - 1;
  let place = rows.length - 1, column = most, open = null;

  const make = (name, options = {}, ...inner) => {
    const made = document.createElement(name);
    const { share, ...others } = options;
    Object.assign(made, others);
    if (share !== undefined) made.style.setProperty("--share", share);
    made.append(...inner);
    return made;
  };
  const percent = (share) => (share >= 0.0995 ? `${Math.round(share * 100)} %` : `${(share * 100).toFixed(1)} %`);
  const probability = (p) => (p >= 0.001 ? p.toFixed(3) : p.toExponential(0));

  const tops = (pairs) =>
    make("ol", { className: "tops" }, ...pairs.map(([word, p]) =>
      make("li", { share: p }, make("bdi", { textContent: data.words[word] }), make("span", { className: "number", textContent: probability(p) }))));

  const memory = ([number, coefficient, share], largest) => {
    const [name, promotes, address] = data.memories[number];
    const called = address === null || address === undefined || !data.gallery
      ? make("span", { className: "name", textContent: name })
      : make("a", { className: "name", href: data.gallery + address, textContent: name });
    const head = make("p", { className: "head" }, called, make("span", { className: "bar", share: share / largest }),
      make("span", { className: "number", textContent: percent(share) }),
      make("span", { className: "number quiet", textContent: `coefficient ${coefficient}` }));
    const words = make("p", {}, make("span", { className: "quiet", textContent: "promotes " }));
    promotes.forEach(([word]) => words.append(make("bdi", { textContent: data.words[word] }), " "));
    return make("li", {}, head, words);
  };

  // Say what attention makes of the output of the layer before: the two differ by its part alone.
  const before = (p, l, [[now]]) => {
    const said = make("p", { className: "attention" }), layer = data.layers[l], token = (word) => make("bdi", { textContent: data.words[word] });
    if (layer > 1 && data.layers[l - 1] !== layer - 1) return said;
    const [[was]] = l ? data.cells[p * data.layers.length + l - 1][3] : [[null]];
    said.append(...(l ? [`Layer ${layer - 1} ends with `, make("b", {}, token(was)), `; attention in layer ${layer} `] : ["The residual is the token's embedding and what attention adds; it "]));
    said.append(...(l && was === now ? ["keeps it."] : [l ? "turns it into " : "predicts ", make("b", {}, token(now)), "."]));
    return said;
  };

  const show = (p, l, focus) => {
    const [kind, residual, update, output, memories] = data.cells[p * data.layers.length + l];
    open?.removeAttribute("aria-selected");
    open = rows[p][l];
    open.setAttribute("aria-selected", "true");
    details.className = "open";
    where.replaceChildren(`Layer ${data.layers[l]}, after `, make("bdi", { textContent: data.positions[p] }), make("small", { textContent: ` position ${p}` }));
    const part = (name, pairs) => make("div", {}, make("h3", { textContent: name }), tops(pairs));
    const listed = memories.reduce((sum, [, , share]) => sum + share, 0);
    what.replaceChildren(
      make("p", { className: `said ${kind}` }, make("b", { textContent: kind }), ` ${data.kinds[kind]}`),
      before(p, l, residual),
      make("div", { className: "three" }, part("Residual predicts", residual), part("Update predicts", update), part("Output predicts", output)),
      make("h3", { textContent: memories.length ? `Memories, by their share of the update (those listed: ${percent(Math.min(1, listed))})` : "No memory is active" }),
      make("ol", { className: "memories" }, ...memories.map((own) => memory(own, memories[0][2]))));
    history.replaceState(null, "", `#/${p}/${data.layers[l]}`);
    if (focus) {
      where.focus({ preventScroll: true });
      details.scrollTop = 0;
      if (below()) details.scrollIntoView({ block: "start" });
    }
  };

  const below = () => getComputedStyle(details).position === "static";

  const go = (p, l, focus = true) => {
    rows[place][column].tabIndex = -1;
    place = Math.max(0, Math.min(rows.length - 1, p));
    column = Math.max(0, Math.min(most, l));
    rows[place][column].tabIndex = 0;
    if (!focus) return;
    rows[place][column].focus({ preventScroll: true });
    rows[place][column].scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  const moves = {
    ArrowUp: () => go(place - 1, column), ArrowDown: () => go(place + 1, column),
    ArrowLeft: () => go(place, column - 1), ArrowRight: () => go(place, column + 1),
    PageUp: () => go(place - 10, column), PageDown: () => go(place + 10, column),
    Home: (far) => go(far ? 0 : place, 0), End: (far) => go(far ? rows.length : place, most),
    Enter: () => show(place, column, true), " ": () => show(place, column, true),
  };
  grid.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || !(event.key in moves) || event.target.tagName !== "TD") return;
    event.preventDefault();
    moves[event.key](event.ctrlKey);
  });
  grid.addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    go(cell.parentNode.sectionRowIndex, cell.cellIndex - 1);
    show(place, column, below());
  });
  document.getElementById("back").addEventListener("click", () => go(place, column));
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    go(place, column);
  });

  const asked = /^#\/(\d+)\/(\d+)$/.exec(location.hash);
  const layer = asked ? data.layers.indexOf(Number(asked[2])) : -1;
  if (asked && layer >= 0 && Number(asked[1]) < rows.length) {
    go(Number(asked[1]), layer, false);
  } else go(place, column, false);
  if (asked && (layer < 0 || Number(asked[1]) >= rows.length))
    what.replaceChildren(make("p", { className: "banner", textContent: `This trace has no cell ${asked[1]}/${asked[2]}.` }));
  else {
    show(place, column, false);
    const cell = rows[place][column], frame = cell.closest(".scroll"); // scroll the grid alone: the page starts at its top
    frame.scrollTop = cell.offsetTop - frame.clientHeight + 2 * cell.offsetHeight;
    frame.scrollLeft = column < most ? cell.offsetLeft - frame.clientWidth / 2 : frame.scrollWidth;
  }
  document.body.dataset.ready = "yes";
})();
