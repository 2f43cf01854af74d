"use strict";
// Sorts a table by the column whose heading is pressed. Without it the tables stand in the order of the review.
// A heading of several names sorts by each: by its cells, or by the rows' data that a name says. Of cells in several
// units, those of one stand together.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const names = headings.flatMap((heading) => (heading.children.length ? [...heading.children] : [heading]));
  for (const name of names) {
    const heading = name.closest("th");
    const column = headings.indexOf(heading);
    const button = document.createElement("button");
    button.type = "button";
    button.append(...name.childNodes);
    name.append(button);
    button.addEventListener("click", () => {
      const down = name.dataset.order === "ascending";
      names.forEach((other) => delete other.dataset.order);
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      name.dataset.order = down ? "descending" : "ascending";
      heading.setAttribute("aria-sort", name.dataset.order);
      const key = (row) => row.dataset[name.dataset.by]
        ?? row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
      const unit = (row) => row.cells[column].dataset.unit ?? "";
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");  // what is not known stands last
        const [n, m] = [Number(x), Number(y)];
        const order = unit(a).localeCompare(unit(b), "en")
          || (Number.isNaN(n) || Number.isNaN(m) ? x.localeCompare(y, "en", { numeric: true }) : n - m);
        return down ? -order : order;
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    });
  }
}
