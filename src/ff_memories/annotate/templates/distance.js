// Distances of compositions: an answer is one of data.labels.
const lacking = (index) => (state.answers[data.items[index].item] ? "" : "Distant or related?");

function turned() {}

function judge(label) {
  if (!data.items.length) return;
  state.answers[data.items[state.at].item] = label;
  save();
  if (state.at < data.items.length - 1) return go(1);
  show();
  sayLast();
}

function show() {
  showProgress();
  if (!data.items.length) return;
  const item = data.items[state.at];
  for (const part of ["prefix", "residual", "ffn", "output"]) $(part).textContent = item[part];
  for (const label of data.labels) $(label).setAttribute("aria-pressed", state.answers[item.item] === label);
}

function keys(event, typing) {
  if (typing) event.target.blur();
  else if (event.key === "d") judge("distant");
  else if (event.key === "r") judge("related");
  else if (event.key === "ArrowRight" || event.key === "Enter") go(1);
  else if (event.key === "ArrowLeft") go(-1);
  else return false;
  return true;
}

for (const label of data.labels) $(label).addEventListener("click", () => judge(label));
$("export").addEventListener("click", () => exportCsv(
  data.items.filter(({ item }) => state.answers[item])
    .map(({ item }) => [data.run, state.annotator.trim(), item, state.answers[item]]), "-distance"));
start(keys);
