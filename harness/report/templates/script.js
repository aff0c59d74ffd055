// Filters and sorts what is on the page, and opens the details of a row that a link names.
"use strict";
{
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const field = (name) => document.getElementById(name);
  const details = all("details[data-row]");
  const filters = field("filters");

  // Without a script everything is shown: the controls appear only where they work.
  filters.hidden = false;
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", filter);

  const texts = new Map(details.map((one) => [one.dataset.row, one.textContent.toLowerCase()]));

  function filter() {
    const words = field("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = ["problem", "device", "verdict"].map((name) => [name, field(name).value]);
    const shown = new Set();
    for (const one of details) {
      const text = texts.get(one.dataset.row);
      const fits = wanted.every(([name, value]) => !value || one.dataset[name] === value);
      if (fits && words.every((word) => text.includes(word))) shown.add(one.dataset.row);
    }
    // SVG elements have no `hidden` property, but heed the attribute through the style sheet.
    for (const one of all("[data-row]")) one.toggleAttribute("hidden", !shown.has(one.dataset.row));
    for (const board of all(".board")) board.hidden = !all("tr.row:not([hidden])", board).length;
    field("count").textContent = `${shown.size} of ${details.length} shown`;
  }

  function sort(header) {
    const table = header.closest("table");
    const column = [...header.parentNode.children].indexOf(header);
    const numeric = header.classList.contains("number");
    const before = header.getAttribute("aria-sort");
    // Figures are best seen largest first, names from A.
    const down = before ? before === "ascending" : numeric;
    for (const one of header.parentNode.children) one.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    // A row without figures has a message in their place.
    const key = (row) => {
      const cell = row.children[column];
      return cell ? (cell.dataset.sort ?? cell.textContent.trim()) : "";
    };
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (numeric && (a === "" || b === "")) return (a === "") - (b === ""); // missing is last
      const order = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
  }

  for (const button of all(".sortable th button")) {
    button.addEventListener("click", () => sort(button.closest("th")));
  }

  function open() {
    const one = /^#row\d+$/.test(location.hash) && document.querySelector(location.hash);
    if (one) {
      one.open = true;
      one.scrollIntoView();
    }
  }

  addEventListener("hashchange", open);
  filter();
  open();
}
