// Zoom and walk in a tree of states; `root` holds a bar of buttons, a canvas with the picture, and a place for what is chosen.
function enliven(root) {
  if (!root || root.dataset.alive) return;
  root.dataset.alive = "true";
  root.dataset.lmSuppressShortcuts = "true"; // else JupyterLab takes the arrow keys
  const svg = root.querySelector("svg"), canvas = root.querySelector(".einalg-canvas"), pane = root.querySelector(".einalg-chosen");
  const nodes = [...svg.querySelectorAll("g[data-number]")];
  const natural = { width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  let scale = 1, chosen = null;

  function zoom(to) {
    scale = Math.min(4, Math.max(0.05, to));
    svg.setAttribute("width", natural.width * scale);
    svg.setAttribute("height", natural.height * scale);
  }

  function fit(least) {
    zoom(Math.max(least, Math.min(1, (canvas.clientWidth - 4) / natural.width)));
  }

  // All of the way to the best if that can be read, and its end in any case.
  function open() {
    const end = svg.querySelector("g.end"), box = end?.querySelector("rect");
    if (!box) return fit(0.85);
    const right = box.x.baseVal.value + box.width.baseVal.value, bottom = box.y.baseVal.value + box.height.baseVal.value;
    zoom(Math.max(0.6, Math.min(1, (canvas.clientWidth - 4) / (right + 12))));
    choose(end, false);
    canvas.scrollLeft = right * scale + 12 - canvas.clientWidth;
    canvas.scrollTop = bottom * scale + 12 - canvas.clientHeight;
  }

  function choose(node, scroll) {
    if (!node || node === chosen) return;
    chosen?.classList.remove("chosen");
    chosen = node;
    node.classList.add("chosen");
    const head = document.createElement("div"), text = document.createElement("pre");
    const strong = document.createElement("strong");
    strong.textContent = node.dataset.label;
    head.append(strong, ` — ${node.dataset.note}`);
    text.textContent = node.dataset.text;
    pane.replaceChildren(head, ...(node.dataset.text ? [text] : []));
    if (scroll) node.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function neighbour(key) {
    const at = nodes.indexOf(chosen);
    if (at < 0) return nodes[0];
    if (key === "ArrowUp") return nodes[at - 1];
    if (key === "ArrowDown") return nodes[at + 1];
    if (key === "ArrowLeft") return nodes.find((node) => node.dataset.number === chosen.dataset.parent);
    return nodes.find((node) => node.dataset.parent === chosen.dataset.number);
  }

  const zooms = { in: () => zoom(scale * 1.25), out: () => zoom(scale / 1.25), fit: () => fit(0.05), one: () => zoom(1) };
  for (const button of root.querySelectorAll("button[data-zoom]")) button.addEventListener("click", zooms[button.dataset.zoom]);
  for (const node of nodes) {
    node.addEventListener("pointerenter", () => choose(node, false));
    node.addEventListener("click", () => choose(node, false));
  }
  svg.addEventListener("keydown", (event) => {
    const keys = { "+": zooms.in, "-": zooms.out, 0: zooms.fit, 1: zooms.one };
    if (event.key.startsWith("Arrow")) choose(neighbour(event.key), true);
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  }, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons !== 1) return;
    canvas.scrollLeft -= event.movementX;
    canvas.scrollTop -= event.movementY;
  });
  if (canvas.clientWidth) open();
  else new ResizeObserver((_, seen) => { if (canvas.clientWidth) { open(); seen.disconnect(); } }).observe(canvas);
}
