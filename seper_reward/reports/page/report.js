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
