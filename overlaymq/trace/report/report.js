for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], at = head.cellIndex, up = head.dataset.up !== "1";
  head.dataset.up = up ? "1" : "0";
  const key = row => { const v = row.cells[at].dataset.v ?? row.cells[at].textContent; const n = Number(v);
    return v !== "" && !Number.isNaN(n) ? n : v; };
  [...body.rows].sort((a, b) => { const x = key(a), y = key(b);
    return (x > y ? 1 : x < y ? -1 : 0) * (up ? 1 : -1); }).forEach(row => body.append(row));
};
