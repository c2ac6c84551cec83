// The sections of a session's view: each is a function that builds it anew when what it depends on changes.

const MOST_FORKS = 6; // by which a state is indented
const EXPORTS = { script: "Python script", json: "JSON", latex: "LaTeX" };

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "html") node.innerHTML = value; // mathematics that the kernel made
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

function button(label, key, act, attributes = {}) {
  return make("button", { type: "button", "data-key": key, onclick: act, ...attributes }, label);
}

function number(value) {
  return String(Number(value.toFixed(2)));
}

function plural(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

// Mathematics does not wrap: what is too wide is made smaller, and scrolls where that is not enough.
function shrink(place) {
  const formulas = [...place.querySelectorAll(".einalg-formula")];
  formulas.forEach((formula) => { formula.style.fontSize = ""; });
  const shares = formulas.map((formula) => (formula.scrollWidth > formula.clientWidth + 1 ? formula.clientWidth / formula.scrollWidth : 1));
  formulas.forEach((formula, k) => { if (shares[k] < 1 && shares[k] > 0) formula.style.fontSize = `${Math.max(0.8, shares[k] * 0.98)}em`; });
}

// Scroll the list of steps, and nothing else, to the present one.
function showNow(place) {
  const list = place.querySelector(".einalg-states"), now = list?.querySelector(".now");
  if (!now) return;
  const top = now.offsetTop - list.offsetTop;
  if (top < list.scrollTop || top + now.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 3;
}

function milliseconds(candidate) {
  return `${candidate.milliseconds.toPrecision(3)} ms${candidate.measured ? "" : " (estimated)"}`;
}

const SECTIONS = {
  toolbar(model, send) {
    const steps = model.get("steps").filter((step) => !step.aside), now = steps.findIndex((step) => step.now);
    return [
      button("↶ Undo", "undo", () => send("undo"), { disabled: now <= 0, title: "take the last step back (Ctrl+Z)" }),
      button("↷ Redo", "redo", () => send("redo"), { disabled: now >= steps.length - 1, title: "apply it again (Ctrl+Y)" }),
      make("span", { class: "einalg-where" }, `step ${now} of ${steps.length - 1}`),
      make("span", { class: "einalg-space" }),
      make("span", { class: "einalg-bar" }, make("span", { class: "einalg-muted" }, "Export"),
        ...Object.entries(EXPORTS).map(([kind, label]) => button(label, `export ${kind}`, () => send("export", { kind })))),
    ];
  },

  message(model) {
    const message = model.get("message");
    return message.text ? [make("span", { class: message.kind === "error" ? "einalg-error" : "" }, message.text)] : [];
  },

  program(model, send) {
    const { math, text, parts } = model.get("program"), chosen = model.get("part").name;
    const choose = (name) => send("part", { name: name === chosen ? null : name });
    const formula = make("div", { class: "einalg-expression", html: math, title: text, "data-scroll": text });
    const nodes = [...formula.querySelectorAll("[data-part]")];
    for (const node of nodes) pointAt(node, parts[node.dataset.part], chosen, choose);
    walk(nodes);
    // Without mathematics to click at, the parts are a list.
    const chips = nodes.length ? [] : [make("div", { class: "einalg-bar einalg-parts" }, make("span", { class: "einalg-muted" }, "Parts"),
      parts.map((part) => button(part.name, `part ${part.name}`, () => choose(part.name), { title: part.text, "aria-pressed": String(part.name === chosen) })))];
    return [formula, ...chips];
  },

  moves(model, send) {
    const groups = model.get("rules"), possible = groups.filter((group) => group.count), idle = groups.filter((group) => !group.count);
    const now = model.get("program").distance, version = model.get("version"), aim = model.get("aim");
    const details = possible.map((group) => {
      const moves = group.moves.map((move) => moveButton(move, now, aim.operator, () => send("apply", { number: move.number, version })));
      const node = make(
        "details",
        { open: group.open, ontoggle: () => node.open !== group.open && send("open", { rule: group.name, opened: node.open }) },
        make("summary", { "data-key": `rule ${group.name}` }, group.name, make("span", { class: "einalg-count" }, group.count)),
        group.before ? make("div", { class: "einalg-card" }, make("code", {}, `${group.before} ⇒ ${group.after}`), group.requires ? ` requires: ${group.requires}` : "") : "",
        make("div", { class: "einalg-list", "data-scroll": `${version} ${group.name}` }, moves, hidden(group, send))
      );
      return node;
    });
    const where = model.get("part").name ? "here" : "now";
    const rest = idle.length ? [make("p", { class: "einalg-muted" }, `No move ${where}: ${idle.map((group) => group.name).join(", ")}.`)] : [];
    if (!possible.length && !idle.length) rest.push(make("p", { class: "einalg-muted" }, `No move ${where}.`));
    const heading = make("div", { class: "einalg-bar einalg-heading" }, make("h4", { tabindex: -1, "data-key": "moves" }, "Moves"), aimAt(aim, send));
    return [heading, ...atPart(model.get("part"), send), ...aimed(aim), ...details, ...rest];
  },

  steps(model, send) {
    const states = model.get("steps");
    const kind = (step) => (step.now ? "now" : step.undone ? "undone" : step.aside ? "aside" : "");
    const guides = (step) => step.forks.slice(-MOST_FORKS).map((last, k, shown) => {
      const begins = step.first && k === shown.length - 1;
      return make("i", { class: `${last ? "last" : ""} ${begins ? "begins" : ""}`, "aria-hidden": "true" });
    });
    const rows = states.map((step) =>
      make(
        "li",
        { class: kind(step) },
        ...guides(step),
        button(
          [make("strong", {}, step.rule), step.verdict ? make("span", { class: `einalg-badge ${step.verdict === "proved" ? "good" : ""}` }, step.verdict) : "",
            make("small", {}, step.detail)],
          `state ${step.number}`,
          () => send("go_to", { state: step.number }),
          { title: step.text, "aria-current": step.now ? "step" : null,
            "aria-label": `go to state ${step.number}, ${step.rule}${step.aside ? ", on another branch" : ""}` }
        )
      )
    );
    const ends = states.filter((step) => step.end).length;
    const count = ends > 1 ? make("span", { class: "einalg-count" }, `${ends} branches`) : "";
    return [make("h4", {}, "Steps", count), make("ol", { start: 0, class: "einalg-states", "data-scroll": "steps" }, rows)];
  },

  distances(model) {
    const { near, far } = model.get("distances");
    const longest = Math.max(1, ...near.map((row) => row.distance));
    const row = (found) => {
      const bar = make("span", { class: "einalg-meter", "aria-hidden": "true" }, make("i", { style: `width:${Math.min(100, (100 * found.distance) / longest)}%` }));
      const head = [make("span", { class: "einalg-operator" }, found.operator), bar, make("span", { class: "einalg-number" }, number(found.distance))];
      if (!found.distance) return make("div", { class: "einalg-distance reached" }, ...head);
      const reasons = make("ul", {}, found.reasons.map((reason) => make("li", {}, reason)));
      return make("details", { class: "einalg-distance" }, make("summary", { "data-key": `distance ${found.operator}` }, ...head), reasons);
    };
    const others = far.length ? [make("details", {}, make("summary", { "data-key": "far" }, `${far.length} others`), far.map(row))] : [];
    return [make("h4", {}, "Distance to each operator"), ...near.map(row), ...others];
  },

  kernels(model, send) {
    const { kernels, source, language } = model.get("kernels");
    const show = (name, label) => button(label, `source ${name}`, () => send("source", { language: name }));
    return [
      make("h4", {}, "Kernels"),
      make("ul", { class: "einalg-list-of-kernels" }, kernels.map((kernel) => make("li", {}, make("code", {}, kernel)))),
      make("div", { class: "einalg-bar" }, make("span", { class: "einalg-muted" }, "Source"), show("c", "C"), show("cuda", "CUDA")),
      source ? make("pre", { class: "einalg-source", tabindex: 0, "aria-label": `source in ${language}` }, source) : null,
    ].filter(Boolean);
  },

  search(model, send, view) {
    const search = model.get("search");
    const start = () => send("search", { seconds: Number(view.seconds), measure: view.measure });
    const seconds = make("input", {
      type: "number", min: 1, max: 3600, value: view.seconds, "data-key": "seconds", oninput: (event) => { view.seconds = event.target.value; },
    });
    const measure = make("input", {
      type: "checkbox", checked: view.measure, "data-key": "measure", onchange: (event) => { view.measure = event.target.checked; },
    });
    const bar = make(
      "div",
      { class: "einalg-bar" },
      search.running ? button("Stop", "search", () => send("stop")) : button("Search from here", "search", start),
      make("label", {}, "for ", seconds, " seconds"),
      make("label", {}, measure, " measure on this machine")
    );
    const progress = search.running
      ? [make("progress", { max: search.seconds, value: Math.min(search.spent, search.seconds), "aria-label": "search" }),
         make("span", { class: "einalg-muted" }, ` ${plural(search.states, "state")}, ${plural(search.found ?? 0, "candidate")}`)]
      : [];
    const longest = Math.max(...(search.candidates ?? []).map((candidate) => candidate.milliseconds), 1e-9);
    const found = (search.candidates ?? []).map((candidate) =>
      make("li", {},
        make("span", { class: "einalg-meter cost", "aria-hidden": "true" }, make("i", { style: `width:${(100 * candidate.milliseconds) / longest}%` })),
        make("strong", {}, milliseconds(candidate)),
        candidate.moves
          ? button(`Apply ${plural(candidate.moves, "move")}`, `follow ${candidate.number}`, () => send("follow", { candidate: candidate.number }))
          : make("span", { class: "einalg-muted" }, "as it is"),
        make("div", {}, candidate.kernels.map((kernel) => make("code", {}, kernel))))
    );
    const tree = search.tree
      ? [make("details", { open: view.tree, ontoggle: (event) => { view.tree = event.target.open; } },
          make("summary", { "data-key": "tree" }, "What was explored"), make("div", { html: search.tree }))]
      : [];
    tree.forEach((node) => setTimeout(() => enliven(node.querySelector(".einalg-tree > div"))));
    return [
      make("h4", {}, "Search"), bar, ...progress,
      search.error ? make("p", { class: "einalg-error" }, search.error) : null,
      search.summary ? make("p", { class: "einalg-muted" }, search.summary) : null,
      make("ol", { class: "einalg-found", start: 0 }, found), ...tree,
    ].filter(Boolean);
  },

  export(model) {
    const { kind, name, text } = model.get("export");
    if (!kind) return [];
    const area = make("textarea", { readonly: true, rows: 12, "data-key": "export text", "aria-label": EXPORTS[kind] });
    area.value = text;
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain" })), download: name, "data-key": "download" }, `Download ${name}`);
    const copy = button("Copy", "copy", () => { area.select(); navigator.clipboard?.writeText(text); });
    return [make("h4", {}, EXPORTS[kind]), area, make("div", { class: "einalg-bar" }, copy, link)];
  },
};

const DEPENDS = {
  toolbar: ["steps"], message: ["message"], program: ["program", "part"], moves: ["rules", "version", "aim", "part"], steps: ["steps"],
  distances: ["distances"], kernels: ["kernels"], search: ["search"], export: ["export"],
};

// A part of the formula as a button: a click, Enter or Space chooses it, the innermost one that is pointed at.
function pointAt(node, part, chosen, choose) {
  const act = (event) => { event.stopPropagation(); event.preventDefault(); choose(part.name); };
  node.dataset.key = `part ${part.name}`;
  node.setAttribute("role", "button");
  node.setAttribute("aria-label", `moves at ${part.name}: ${part.text}`);
  node.setAttribute("aria-pressed", String(part.name === chosen));
  node.addEventListener("click", act);
  node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") act(event); });
}

// One part is a tab stop; arrow keys go to the next ones, up and down to what is around and inside.
function walk(nodes) {
  const stop = nodes.find((node) => node.getAttribute("aria-pressed") === "true") ?? nodes[0];
  for (const node of nodes) node.setAttribute("tabindex", node === stop ? 0 : -1);
  const outer = (node) => node.parentElement.closest("[data-part]");
  nodes.forEach((node, k) => node.addEventListener("keydown", (event) => {
    const next = {
      ArrowRight: () => nodes[k + 1], ArrowLeft: () => nodes[k - 1], Home: () => nodes[0], End: () => nodes[nodes.length - 1],
      ArrowUp: () => outer(node), ArrowDown: () => node.querySelector("[data-part]"),
    }[event.key];
    if (!next || event.target !== node) return;
    event.preventDefault();
    event.stopPropagation();
    next()?.focus();
  }));
}

// The part whose moves are shown, and how to see more of them.
function atPart(part, send) {
  if (!part.name) return [];
  const wider = part.wider ? [button(`Wider: ${part.wider}`, "wider", () => send("part", { name: part.wider }))] : [];
  return [make("div", { class: "einalg-bar einalg-at" }, make("span", {}, `at ${part.name}`), make("code", { title: part.text }, part.text),
    ...wider, button("All moves", "all moves", () => send("part", { name: null })))];
}

// The choice of an operator that the derivation goes towards.
function aimAt(aim, send) {
  const choose = make("select", { "data-key": "aim", onchange: () => send("aim", { operator: choose.value || null }) });
  for (const operator of ["", ...aim.operators]) {
    choose.append(make("option", { value: operator, selected: operator === aim.operator }, operator || "any operator"));
  }
  return make("label", {}, "towards ", choose);
}

// How far the operator is that the derivation goes towards, and what separates it.
function aimed(aim) {
  if (!aim.operator) return [];
  const away = aim.distance ? `distance ${number(aim.distance)}` : "reached";
  const start = aim.start === aim.distance ? "" : `, ${number(aim.start)} at the start`;
  const badge = make("span", { class: `einalg-badge ${aim.distance ? "" : "good"}` }, `${aim.operator}: ${away}`);
  const reasons = aim.reasons.length ? [make("ul", {}, aim.reasons.map((reason) => make("li", {}, reason)))] : [];
  return [make("div", { class: "einalg-aim" }, badge, make("span", { class: "einalg-muted" }, start), ...reasons)];
}

// A button for the moves of an open group that are not shown yet.
function hidden(group, send) {
  const more = group.count - group.moves.length;
  return group.open && more > 0 ? [button(`Show ${plural(more, "more move")}`, `more ${group.name}`, () => send("more", { rule: group.name }))] : [];
}

function moveButton(move, now, aim, act) {
  let kind = move.nearer ? "good" : "", change = move.nearness, title = "distance of the program to the operator that is aimed at";
  if (!aim) {
    kind = move.distance < now ? "good" : move.distance > now ? "bad" : "";
    change = move.distance === now ? `distance ${number(now)}` : `distance ${number(now)} → ${number(move.distance)}`;
    title = "distance of the program to the operators";
  }
  const badge = make("span", { class: `einalg-badge ${kind}`, title }, change);
  const name = aim ? [make("strong", {}, move.rule), ` at ${move.detail}`] : [move.detail];
  return button(
    [
      make("div", { class: "einalg-head" }, make("span", {}, ...name), badge),
      make("div", { class: "einalg-before", html: move.before }),
      make("div", { class: "einalg-after", html: move.after }),
    ],
    `move ${move.rule} ${move.detail}`,
    act,
    { class: "einalg-move", "aria-label": `apply ${move.rule} at ${move.detail}; ${change}` }
  );
}
