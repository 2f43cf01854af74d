// Filters the table, the drawings and the results, and holds times to a reference system. Without it all is shown.
{
  const form = document.getElementById("filters");
  const board = document.getElementById("board");
  const rows = [...board.tBodies[0].rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const others = new Map();
  for (const element of document.querySelectorAll("article[data-n], svg a[data-n]")) {
    others.set(element.dataset.n, [...(others.get(element.dataset.n) ?? []), element]);
  }
  const figures = new Set([...document.querySelectorAll("svg a[data-n]")].map((dot) => dot.closest("figure")));
  const selects = [...form.querySelectorAll("select[data-filter]")];
  const search = document.getElementById("search");
  const clean = document.getElementById("clean");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const shown = selects.every((each) => !each.value || row.dataset[each.dataset.filter] === each.value)
        && words.every((word) => texts.get(row).includes(word)) && !(clean.checked && "marked" in row.dataset);
      count += shown;
      for (const element of [row, ...(others.get(row.dataset.n) ?? [])]) element.toggleAttribute("data-hidden", !shown);
    }
    for (const each of figures) each.toggleAttribute("data-hidden", !each.querySelector("a[data-n]:not([data-hidden])"));
    document.getElementById("count").textContent = `${count} of ${rows.length} results`;
  };
  const reference = document.getElementById("reference");
  const hold = () => {
    board.toggleAttribute("data-held", Boolean(reference.value));
    const best = new Map();
    for (const { dataset } of rows) {
      const ranks = dataset.seconds && dataset.verdict === "pass" && !("short" in dataset);
      if (ranks && dataset.system === reference.value) {
        best.set(dataset.contest, Math.min(best.get(dataset.contest) ?? Infinity, Number(dataset.seconds)));
      }
    }
    for (const row of rows) {
      const known = best.has(row.dataset.contest) && row.dataset.seconds;
      const ratio = known ? best.get(row.dataset.contest) / Number(row.dataset.seconds) : "";
      const cell = row.querySelector(".ratio");
      cell.dataset.sort = ratio;
      cell.textContent = known ? String(Number(ratio.toPrecision(3))) : "";
    }
  };
  form.hidden = false;
  const update = () => { filter(); hold(); };
  for (const event of ["input", "change"]) form.addEventListener(event, update);
  form.addEventListener("reset", () => setTimeout(update));
  form.addEventListener("submit", (event) => event.preventDefault());
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    target?.querySelector("details")?.setAttribute("open", "");
  };
  addEventListener("hashchange", open);
  open();
  addEventListener("pageshow", update); // after a browser has put back what was chosen
}
