// A click on a column head sorts the table: numbers by value, cells without a number last, texts alphabetically.
const value = (row, column) => row.cells[column].dataset.value;
const compare = (one, other, column) => {
  const [a, b] = [value(one, column), value(other, column)];
  if (a !== undefined && b !== undefined) return a - b;
  if (a !== undefined || b !== undefined) return a === undefined ? Infinity : -Infinity;
  return one.cells[column].textContent.localeCompare(other.cells[column].textContent);
};
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const down = head.ariaSort === "ascending" ? -1 : 1;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.ariaSort = down > 0 ? "ascending" : "descending";
    const rows = [...body.rows].sort((a, b) => {
      const order = compare(a, b, head.cellIndex);
      return Number.isFinite(order) ? down * order : Math.sign(order);
    });
    body.append(...rows);
  });
}

// The list of all passages: search, order and filters choose rows, and only the first of them are in the document.
const list = document.querySelector("#list ol"), controls = document.querySelector("#list .controls");
const more = document.querySelector("#list .more");
const rows = [...list.children].map((row) => ({row, ...row.dataset, text: row.textContent.toLowerCase()}));
const page = 50;
let shown = page;
const show = () => {
  const [search, order, effect, grade] = [...controls.querySelectorAll("input, select")].map((each) => each.value);
  const words = search.toLowerCase().split(/\s+/);
  const found = rows.filter(
    (each) =>
      (!effect || each.effect === effect) &&
      (!grade || each.grade === grade) &&
      words.every((word) => each.text.includes(word)),
  );
  if (order) found.sort((a, b) => b[order] - a[order]);
  list.replaceChildren(...found.slice(0, shown).map((each) => each.row));
  more.hidden = found.length <= shown;
  controls.querySelector("output").value = `${found.length} of ${rows.length}`;
};
controls.addEventListener("input", () => {
  shown = page;
  show();
});
more.addEventListener("click", () => {
  shown += page;
  show();
});
controls.hidden = false;
show();
