// The view of a session: draws its sections as they change, sends what buttons ask for, and says where nobody answers.

const PATIENCE = 4000; // milliseconds after which an answer is overdue
const OVERDUE = "The kernel has not answered yet: it is busy, or it was shut down.";
const STALE = "This view is stale: the kernel was restarted, and the session is gone. Run the cell again to go on.";

// What scrolls keeps its place when a section is drawn again, as long as it shows the same.
function scrolled(place) {
  const places = new Map();
  for (const node of place.querySelectorAll("[data-scroll]")) {
    const inner = node.querySelector(":scope > .einalg-formula") ?? node;
    places.set(node.dataset.scroll, [inner.scrollLeft, inner.scrollTop]);
  }
  return () => {
    for (const node of place.querySelectorAll("[data-scroll]")) {
      const inner = node.querySelector(":scope > .einalg-formula") ?? node;
      [inner.scrollLeft, inner.scrollTop] = places.get(node.dataset.scroll) ?? [0, 0];
    }
  };
}

function render({ model, el }) {
  const view = { seconds: 10, measure: false, tree: true };
  const places = Object.fromEntries(Object.keys(SECTIONS).map((name) => [name, make(name === "toolbar" ? "div" : "section", { class: `einalg-${name}` })]));
  const notice = make("div", { class: "einalg-notice", role: "alert" });
  places.toolbar.setAttribute("role", "toolbar");
  places.toolbar.setAttribute("aria-label", "derivation");
  places.message.setAttribute("role", "status");
  const side = make("div", { class: "einalg-side" }, places.steps, places.distances);
  const root = make(
    "div",
    { class: "einalg einalg-session", role: "group", "aria-label": "derivation by hand", "data-lm-suppress-shortcuts": "true" },
    notice, places.toolbar, places.program, places.message, places.export,
    make("div", { class: "einalg-columns" }, make("div", {}, places.moves, places.kernels, places.search), side)
  );
  el.append(root);
  const waiting = new Set();
  let stale = false, overdue = null, width = 0;

  function send(what, content = {}) {
    if (stale) return;
    root.setAttribute("aria-busy", "true");
    clearTimeout(overdue);
    overdue = setTimeout(() => say(OVERDUE), PATIENCE);
    post({ do: what, ...content });
  }

  function post(message) {
    try {
      model.send(message);
    } catch {
      become(true);
    }
  }

  function answered() {
    clearTimeout(overdue);
    root.removeAttribute("aria-busy");
    if (stale) become(false);
    else say("");
  }

  function say(text) {
    if (notice.textContent !== text) notice.textContent = text;
  }

  function become(gone) {
    clearTimeout(overdue);
    root.removeAttribute("aria-busy");
    stale = gone;
    root.classList.toggle("einalg-stale", stale);
    say(stale ? STALE : "");
    Object.keys(SECTIONS).forEach(draw);
  }

  // Jupyter says that the kernel was lost, not that it is back: an answer does.
  function lost() {
    become(true);
    post({ do: "ping" });
  }

  function disable(place) {
    for (const node of place.querySelectorAll("button:not([data-zoom]), input, select")) node.disabled = true;
    for (const node of place.querySelectorAll("[data-part]")) {
      node.setAttribute("aria-disabled", "true");
      node.removeAttribute("tabindex");
    }
  }

  function draw(name) {
    const place = places[name], active = root.getRootNode().activeElement;
    const key = place.contains(active) ? active.dataset.key : null;
    const opened = new Set([...place.querySelectorAll("details[open] > summary")].map((summary) => summary.dataset.key));
    const scroll = scrolled(place);
    place.replaceChildren(...SECTIONS[name](model, send, view));
    for (const summary of place.querySelectorAll("summary")) if (name === "distances" && opened.has(summary.dataset.key)) summary.parentNode.open = true;
    if (stale) disable(place);
    shrink(place);
    scroll();
    showNow(place);
    if (!key) return;
    const again = [...place.querySelectorAll("[data-key]")].find((node) => node.dataset.key === key && !node.disabled);
    (again ?? place.querySelector("h4[tabindex], [tabindex='0'], button:not([disabled])"))?.focus({ preventScroll: true });
  }

  function keys(event) {
    if (event.target.matches("input, textarea, select")) return;
    const command = event.ctrlKey || event.metaKey, letter = event.key.toLowerCase();
    if (command && letter === "z" && !event.shiftKey) send("undo");
    else if (command && (letter === "y" || (letter === "z" && event.shiftKey))) send("redo");
    else if (event.target.matches(".einalg-move") && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const moves = [...root.querySelectorAll(".einalg-move")];
      moves[moves.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function listen() {
    return Object.keys(SECTIONS).map((name) => {
      const events = DEPENDS[name].map((trait) => `change:${trait}`).join(" ");
      const again = () => { if (!waiting.has(name)) { waiting.add(name); queueMicrotask(() => { waiting.delete(name); draw(name); }); } };
      model.on(events, again);
      draw(name);
      return [events, again];
    });
  }

  // Only another width: what is made smaller changes the height, which is no reason to do it again.
  function resized([entry]) {
    if (Math.abs(entry.contentRect.width - width) < 1) return;
    width = entry.contentRect.width;
    shrink(root);
  }

  model.on("msg:custom", answered);
  model.on("comm_live_update", lost);
  root.addEventListener("keydown", keys);
  const listening = listen();
  const observer = new ResizeObserver(resized);
  observer.observe(el);
  return () => {
    observer.disconnect();
    clearTimeout(overdue);
    listening.forEach(([events, again]) => model.off(events, again));
    model.off("msg:custom", answered);
    model.off("comm_live_update", lost);
  };
}

export default { render };
