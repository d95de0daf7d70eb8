// Replace a static figure by an interactive one when it nears the viewport. Without scripts it stays static.
// `ast` interprets expressions instead of compiling them, so the page's policy need not allow eval.
const still = document.querySelectorAll("figure[data-spec]");
const near = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) if (isIntersecting) { near.unobserve(target); enliven(target); }
}, { rootMargin: "300px" });
still.forEach((figure) => near.observe(figure));

async function enliven(figure) {
  const old = figure.querySelector("svg"), place = document.createElement("div");
  place.hidden = true;
  figure.prepend(place);
  const spec = JSON.parse(document.getElementById(figure.dataset.spec).textContent);
  await vegaEmbed(place, spec, { renderer: "svg", ast: true, actions: false, tooltip: { theme: "custom" } });
  const drawn = place.querySelector("svg");
  for (const name of ["role", "aria-label"]) drawn.setAttribute(name, old.getAttribute(name));
  drawn.querySelectorAll("[role], [aria-roledescription]").forEach((part) => {
    for (const name of ["role", "aria-label", "aria-roledescription"]) part.removeAttribute(name);
  });
  hatch(old, drawn);
  for (const name of ["width", "height"]) drawn.removeAttribute(name);
  old.remove();
  place.hidden = false;
  figure.dataset.live = "";
}

// Vega has no hatching: replace its plain colours by the static figure's patterns.
function hatch(old, drawn) {
  const patterns = old.querySelectorAll("pattern");
  if (!patterns.length) return;
  const defs = document.createElementNS("http://www.w3.org/2000/svg", "defs");
  for (const pattern of patterns) {
    const colour = pattern.querySelector("rect").getAttribute("fill");
    drawn.querySelectorAll(`[fill="${colour}" i]`).forEach((part) => part.setAttribute("fill", `url(#${pattern.id})`));
    defs.append(pattern);
  }
  drawn.prepend(defs);
}

// Open the folded element that a link points to, for browsers that do not, and what a claim's row folds.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  for (let part = target?.querySelector(":scope > td > details") ?? target; part; part = part.parentElement)
    if (part.matches("details")) part.open = true;
  target?.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();
