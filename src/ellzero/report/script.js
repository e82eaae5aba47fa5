"use strict";
// Light or dark: the system's choice until the button is used.
{
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const store = { get() { try { return localStorage.getItem("ellzero-theme"); } catch { return null; } },
                  set(v) { try { localStorage.setItem("ellzero-theme", v); } catch { /* files may have no storage */ } } };
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "light" : "dark"; button.title = `change to ${button.textContent} colours`; };
  if (store.get()) root.dataset.theme = store.get();
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; store.set(root.dataset.theme); label(); });
  system.addEventListener("change", label);
  label();
}

// Tables: a header sorts by its column, numbers by their full value; a button saves what is shown.
for (const table of document.querySelectorAll(".table table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const key = (row, j) => { const cell = row.cells[j]; return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value); };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
  heads.forEach((head, j) => head.querySelector("button")?.addEventListener("click", () => {
    const missing = (row) => row.cells[j].querySelector(".missing") !== null;
    const first = head.classList.contains("number") ? "descending" : "ascending";
    const other = { ascending: "descending", descending: "ascending" };
    const order = head.ariaSort === "none" ? first : other[head.ariaSort];
    heads.forEach((h) => { if (h.ariaSort) h.ariaSort = "none"; });
    head.ariaSort = order;
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...body.rows].sort((a, b) => missing(a) - missing(b) || sign * compare(key(a, j), key(b, j)));
    body.append(...rows);
  }));
  if (!table.caption) continue;
  const save = document.createElement("button");
  save.type = "button";
  save.textContent = "save as CSV";
  save.addEventListener("click", () => {
    const quoted = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    const lines = [heads, ...[...body.rows].map((row) => [...row.cells])]
      .map((cells) => cells.map((c) => quoted(c.dataset.value ?? c.textContent)).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "table.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  table.caption.append(save);
}

// Pictures: the values under the pointer, or stepped through with the arrow keys.
for (const canvas of document.querySelectorAll(".canvas")) {
  const svg = canvas.querySelector("svg"), data = canvas.querySelector("script");
  if (!svg || !data) continue;
  const axes = JSON.parse(data.textContent).filter((a) => a.series.length);
  const output = canvas.parentElement.querySelector("output");
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  canvas.append(tip);
  const layer = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "g"));
  const stops = (a) => [...new Set(a.series.flatMap((s) => s.points.map((p) => p[a.along === "x" ? 0 : 1])))].sort((p, q) => p - q);
  for (const a of axes) a.stops = stops(a);
  let current = null; // [axes, number of the stop]

  const draw = (tag, attributes) => {
    const node = layer.appendChild(document.createElementNS("http://www.w3.org/2000/svg", tag));
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  };
  const hide = () => { layer.replaceChildren(); tip.hidden = true; current = null; };
  const show = (a, i, spoken) => {
    current = [a, i];
    const at = a.stops[i], side = a.along === "x" ? 0 : 1, [x0, y0, x1, y1] = a.box;
    const found = a.series.flatMap((s) => {
      const near = s.points.reduce((best, p) => !best || Math.abs(p[side] - at) < Math.abs(best[side] - at) ? p : best, null);
      return near && Math.abs(near[side] - at) < (a.along === "x" ? 2 : 0.5) ? [{ ...s, p: near }] : [];
    });
    const head = `${a.title} ${found[0].p[2]}`.trim();
    layer.replaceChildren();
    if (a.along === "x") draw("line", { class: "cross", x1: at, x2: at, y1: y0, y2: y1 });
    for (const { p, color } of found) if (p[1] >= y0 - 1 && p[1] <= y1 + 1) draw("circle", { class: "spot", cx: p[0], cy: p[1], r: 4, style: `fill:${color}` });
    tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: head }));
    for (const { name, color, p } of found) {
      const row = document.createElement("div"), dot = document.createElement("i");
      dot.style.background = color;
      row.append(dot, `${name}: ${p[3]}`);
      tip.append(row);
    }
    tip.hidden = false;
    const place = svg.getScreenCTM(), frame = canvas.getBoundingClientRect();
    const px = place.a * (side === 0 ? at : found[0].p[0]) + place.e - frame.left + canvas.scrollLeft;
    const py = place.d * (side === 0 ? Math.min(...found.map((f) => f.p[1])) : at) + place.f - frame.top;
    tip.style.left = `${px + 14 + tip.offsetWidth > canvas.scrollLeft + frame.width ? Math.max(0, px - tip.offsetWidth - 14) : px + 14}px`;
    tip.style.top = `${Math.max(0, py - tip.offsetHeight - 8)}px`;
    if (spoken) output.textContent = `${head}. ${found.map((f) => `${f.name}: ${f.p[3]}`).join(". ")}`;
  };
  svg.addEventListener("pointermove", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const a = axes.find(({ box: [x0, y0, x1, y1] }) => point.x >= x0 - 6 && point.x <= x1 + 6 && point.y >= y0 - 6 && point.y <= y1 + 6);
    if (!a) return hide();
    const at = a.along === "x" ? point.x : point.y;
    let best = 0;
    a.stops.forEach((s, i) => { if (Math.abs(s - at) < Math.abs(a.stops[best] - at)) best = i; });
    show(a, best, false);
  });
  svg.addEventListener("pointerleave", hide);
  canvas.addEventListener("blur", hide);
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") return hide();
    if (!(event.key in steps) || !axes.length || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!current) return show(axes[0], event.key === "End" ? axes[0].stops.length - 1 : 0, true);
    let [a, i] = current, next = i + steps[event.key], other = axes.indexOf(a) + Math.sign(steps[event.key]);
    if (Math.abs(steps[event.key]) === 1 && (next < 0 || next >= a.stops.length) && axes[other]) {
      a = axes[other]; next = next < 0 ? a.stops.length - 1 : 0; // on to the next pair of axes
    }
    show(a, Math.min(Math.max(next, 0), a.stops.length - 1), true);
  });
}
