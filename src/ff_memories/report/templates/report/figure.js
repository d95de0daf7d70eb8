// Fit the figure to its panel's width and the window's height. The text keeps its size at every width.
const place = document.getElementById("figure");
const ZOOM = 2, ROUND = 0, HEAD = 110; // pixels per point; the panel's padding; points taken by title and axis

function sized() {
  const width = Math.max(spec.width, (place.clientWidth - ROUND) / ZOOM);
  const room = (innerHeight - place.getBoundingClientRect().top - scrollY - 100) / ZOOM - HEAD;
  const height = Math.max(spec.height, Math.min(room, 0.6 * width));
  const whole = spec.usermeta?.headline; // on one line if it fits
  const text = whole && whole.length * spec.config.title.fontSize * 0.55 < width ? [whole] : spec.title.text;
  return { ...spec, width, height, title: { ...spec.title, text } };
}

async function draw() {
  await vegaEmbed(place, sized(), { renderer: "svg", ast: true, actions: false, tooltip: { theme: "custom" } });
  const drawn = place.querySelector("svg");
  for (const name of ["width", "height"]) drawn.removeAttribute(name);
  drawn.querySelectorAll("[role], [aria-roledescription]").forEach((part) => {
    for (const name of ["role", "aria-label", "aria-roledescription"]) part.removeAttribute(name);
  });
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", spec.description);
  place.dataset.width = innerWidth;
}

let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(draw, 150); });
draw();
