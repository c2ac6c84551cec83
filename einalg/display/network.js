// Search, fold, and follow values in a network; `root` holds a bar with a field and buttons, and rows that make and read values.
function searchable(root) {
  if (!root || root.dataset.alive) return;
  root.dataset.alive = "true";
  root.dataset.lmSuppressShortcuts = "true"; // else JupyterLab takes the keys
  const field = root.querySelector("input"), hits = root.querySelector(".einalg-hits");
  const rows = [...root.querySelectorAll(".einalg-node")], statements = rows.filter((row) => "text" in row.dataset);
  const words = (text) => text.split(" ").filter(Boolean);

  function search() {
    const wanted = words(field.value.toLowerCase());
    let count = 0;
    for (const row of rows) row.hidden = wanted.length > 0;
    for (const row of statements) {
      const text = `${row.dataset.makes.toLowerCase()} ${row.dataset.text}`;
      if (!wanted.every((word) => text.includes(word))) continue;
      count += 1;
      if (!wanted.length) continue;
      for (let at = row; at && at !== root; at = at.parentElement) {
        if (at.hidden) at.hidden = false;
        if (at !== row && at.tagName === "DETAILS") at.open = true;
      }
    }
    hits.textContent = wanted.length ? `${count} of ${statements.length}` : "";
  }

  const makes = new Map(rows.map((row) => [row, new Set(words(row.dataset.makes))]));
  const reads = new Map(rows.map((row) => [row, words(row.dataset.reads)]));
  const side = (row) => row.closest(".einalg-side");
  const gives = (one, other) => reads.get(other).some((name) => makes.get(one).has(name));

  // Mark what gives a row its values and what reads its own, and what it is on the other side.
  function follow(row) {
    for (const other of rows) {
      const apart = row && !other.contains(row) && !row.contains(other), together = apart && side(row) === side(other);
      other.classList.toggle("near", Boolean(together && (gives(row, other) || gives(other, row))));
      other.classList.toggle("same", Boolean(apart && !together && [...makes.get(row)].some((name) => makes.get(other).has(name))));
    }
  }

  field.addEventListener("input", search);
  for (const control of root.querySelectorAll(".einalg-bar [hidden]")) control.hidden = false;
  for (const button of root.querySelectorAll("button[data-fold]"))
    button.addEventListener("click", () => { for (const row of rows) row.open = Boolean(button.dataset.fold); });
  for (const row of rows) {
    const summary = row.querySelector("summary");
    summary.addEventListener("pointerenter", () => follow(row));
    summary.addEventListener("focus", () => follow(row));
    summary.addEventListener("pointerleave", () => follow(null));
    summary.addEventListener("blur", () => follow(null));
  }
}
