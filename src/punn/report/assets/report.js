"use strict";
// Shows what the page holds as data; nothing about the model is computed here.
// Texts of the user (classes, columns, values) become text nodes, or pass through plotText, never HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const root = document.documentElement;

// ---------------------------------------------------------------- small things

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") Object.assign(node.style, value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function number(value) { // null stands for minus infinity
  return value === null ? "−∞" : value.toFixed(3).replace(/^-0\.000$/, "0.000").replace("-", "−");
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;
const shortened = (text, longest) => (text.length <= longest ? text : `${text.slice(0, longest - 1)}…`);
// Plotly reads tags and entities in texts: a class called <b> must stay one.
const plotText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const className = (c) => (c < 0 ? "" : data.classes[c]);
const narrow = () => window.innerWidth < 640;

function css(name) {
  return getComputedStyle(root).getPropertyValue(`--${name}`).trim();
}

function classColor(c) {
  const color = data.colors[c];
  return color === "#000000" && root.dataset.theme === "dark" ? "#f5f5f5" : color; // black is not seen on black
}

// ---------------------------------------------------------------- light and dark

const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");

function setTheme(dark) {
  root.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
  for (const swatch of document.querySelectorAll(".swatch")) {
    swatch.style.background = classColor(+swatch.dataset.class);
  }
}

setTheme(wantsDark.matches);
wantsDark.addEventListener("change", (event) => { setTheme(event.matches); redraw(); });
$("theme").addEventListener("click", () => { setTheme(root.dataset.theme !== "dark"); redraw(); });

// ---------------------------------------------------------------- figures

const figures = {}; // id -> function that draws it
const drawn = new Set();

function plot(id, traces, layout) {
  const axis = { gridcolor: css("line"), zerolinecolor: css("line"), linecolor: css("line"), automargin: true };
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: narrow() ? 11 : 13, color: css("ink") },
    margin: { l: 8, r: 12, t: 12, b: 8 }, showlegend: false, dragmode: false,
    hoverlabel: { bgcolor: css("raised"), bordercolor: css("line"), font: { color: css("ink") } },
  };
  for (const name of Object.keys(layout).filter((key) => /axis/.test(key))) layout[name] = { ...axis, ...layout[name] };
  return Plotly.react($(id), traces, { ...base, ...layout }, { displayModeBar: false, responsive: true });
}

// Plotly takes a second to start, so that it is kept as text until the page has been shown.
function startPlotly() {
  if (!window.Plotly) document.head.append(element("script", {}, $("plotly").textContent));
}

function draw(id) {
  drawn.add(id);
  return figures[id]();
}

function redraw() {
  for (const id of drawn) draw(id);
  if (chosen) showRow(chosen);
}

figures.loss = () => plot("loss",
  [{ x: data.loss.map((p) => p[0]), y: data.loss.map((p) => p[1]), mode: data.loss.length > 1 ? "lines" : "markers",
     line: { color: css("accent"), width: 2 }, hovertemplate: "epoch %{x}: %{y:.4f}<extra></extra>" }],
  { xaxis: { title: { text: "epoch" }, showgrid: false }, yaxis: { title: { text: "loss" }, rangemode: "tozero" } });

figures.calibration = () => {
  const bins = data.score.bins;
  const most = Math.max(...bins.map((bin) => bin.rows));
  const axis = { range: [-0.02, 1.04], tickformat: ".0%" };
  plot("calibration", [
    { x: [0, 1], y: [0, 1], mode: "lines", line: { color: css("quiet"), dash: "dot", width: 1.5 }, hoverinfo: "skip" },
    { x: bins.map((bin) => bin.confidence), y: bins.map((bin) => bin.value), mode: "markers",
      marker: { color: css("accent"), size: bins.map((bin) => 7 + 13 * Math.sqrt(bin.rows / most)) },
      error_y: { type: "data", symmetric: false, array: bins.map((bin) => bin.high - bin.value),
                 arrayminus: bins.map((bin) => bin.value - bin.low), color: css("accent"), thickness: 1.5 },
      text: bins.map((bin) => `${bin.rows.toLocaleString("en")} rows: ${percent(bin.confidence)} sure, ` +
        `${percent(bin.value)} right (${percent(bin.low)} to ${percent(bin.high)})`), hoverinfo: "text" },
  ], { xaxis: { ...axis, title: { text: "confidence" } }, yaxis: { ...axis, title: { text: "share that is right" } } });
};

// Labels that would touch each other are turned.
function slant(id, texts) {
  const longest = Math.max(...texts.map((text) => text.length));
  return 8 * (longest + 2) * texts.length > 0.75 * $(id).clientWidth ? -45 : 0;
}

function matrix(id, values, texts, hover, across, scale, title) {
  const down = data.matrices.order.map(className);
  const few = down.length <= (narrow() ? 6 : 12);
  const longest = narrow() ? 9 : 18;
  const ticks = (names, most) => {
    const step = Math.ceil(names.length / most);
    const places = names.map((_, i) => i).filter((i) => i % step === 0);
    const texts = places.map((i) => plotText(shortened(names[i], longest)));
    return { tickvals: places, ticktext: texts, showgrid: false, zeroline: false };
  };
  const top = Math.max(...values.flat(), 1e-3);
  plot(id, [{
    type: "heatmap", z: values, text: few ? texts : undefined, texttemplate: few ? "%{text}" : undefined,
    hovertext: hover, hoverinfo: "text", zmin: 0, zmax: top, xgap: few ? 2 : 0, ygap: few ? 2 : 0,
    colorscale: scale, showscale: !narrow(),
    colorbar: { thickness: 8, outlinewidth: 0, tickformat: ".0%", nticks: 4 },
  }], { xaxis: { ...ticks(across, narrow() ? 8 : 15), title: { text: title },
                 tickangle: slant(id, ticks(across, narrow() ? 8 : 15).ticktext) },
        yaxis: { ...ticks(down, narrow() ? 14 : 30), title: { text: "true class" }, autorange: "reversed" } });
}

figures.confusion = () => {
  const { order, confusion, totals } = data.matrices;
  const shares = confusion.map((line, i) => line.map((count) => count / Math.max(totals[i], 1)));
  const hover = confusion.map((line, i) => line.map((count, j) =>
    `${count.toLocaleString("en")} of ${totals[i].toLocaleString("en")} rows of ${plotText(className(order[i]))}<br>` +
    `given to ${plotText(className(order[j]))} (${percent(shares[i][j])})`));
  const texts = confusion.map((line) => line.map((count) => (count ? count.toLocaleString("en") : "")));
  // The scale starts with a jump, so that a single mistake among a hundred rows is seen.
  const scale = [[0, css("raised")], [0.004, css("soft")], [1, css("accent")]];
  matrix("confusion", shares, texts, hover, order.map(className), scale, "predicted class");
};

figures.blame = () => {
  const { order, blame } = data.matrices;
  const causes = ["own gate", ...order.map(className)];
  const hover = blame.map((line, i) => line.map((share, j) =>
    `of the mass of ${plotText(className(order[i]))}<br>${percent(share)} ` +
    (j ? `was taken by ${plotText(causes[j])} before it` : "was refused by its own gate")));
  const texts = blame.map((line) => line.map((share) => (share >= 0.0005 ? percent(share) : "")));
  matrix("blame", blame, texts, hover, causes, [[0, css("raised")], [1, css("blame")]], "cause");
};

figures.travel = () => {
  const places = data.functions.map((_, i) => i + 1);
  const step = Math.ceil(places.length / (narrow() ? 10 : 30));
  const shown = places.filter((i) => (i - 1) % step === 0);
  const hover = data.functions.map((name, i) => `${i + 1}. ${plotText(name)}<br>takes ${percent(data.mass[i])}` +
    ` of the mass<br>${percent(data.reached[i])} is left before it`);
  const labels = shown.map((i) => plotText(shortened(data.functions[i - 1], narrow() ? 9 : 16)));
  const long = places.length > 12; // then every function takes little, and its bar needs a scale of its own
  const share = { tickformat: ".0%", rangemode: "tozero", nticks: 5 };
  plot("travel", [
    { type: "bar", x: places, y: data.mass, yaxis: long ? "y2" : "y", hovertext: hover, hoverinfo: "text",
      marker: { color: data.class_of.map(classColor), line: { color: css("line"), width: long ? 0 : 1 } } },
    { x: places, y: data.reached, mode: long ? "lines" : "lines+markers", hovertext: hover, hoverinfo: "text",
      line: { color: css("ink"), width: 2, shape: "hvh" }, marker: { size: 6 } },
  ], { bargap: 0.25, hovermode: "closest",
       xaxis: { tickvals: shown, ticktext: labels, tickangle: slant("travel", labels), showgrid: false,
                title: { text: "functions in the chain's order" }, anchor: long ? "y2" : "y" },
       yaxis: { ...share, range: [0, 1.05], title: { text: long ? "left" : "share of the mass" },
                domain: [long ? 0.45 : 0, 1] },
       ...(long ? { yaxis2: { ...share, title: { text: "taken" }, domain: [0, 0.36] } } : {}) });
};

// ---------------------------------------------------------------- images

function paint(canvas, text) {
  const [height, width, channels] = data.image;
  const values = bytes(text);
  canvas.width = width;
  canvas.height = height;
  const picture = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) picture.data[4 * i + c] = values[channels === 3 ? 3 * i + c : i];
    picture.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
  canvas.hidden = false;
}

for (const canvas of document.querySelectorAll("canvas[data-pixels]")) paint(canvas, canvas.dataset.pixels);

// ---------------------------------------------------------------- the list of rows

const PICTURES = 90; // images that are shown at once
let chosen = null; // the entry that is shown
let sorted = { key: "row", down: false };
const labelled = data.rows.some((entry) => entry.true >= 0);
const isWrong = (entry) => entry.true >= 0 && entry.true !== entry.winner;

const heads = [
  { key: "row", title: "row", number: true, value: (entry) => entry.row },
  { key: "predicted", title: "predicted", value: (entry) => className(entry.winner) },
  { key: "p", title: "p", number: true, value: (entry) => entry.p, show: (entry) => number(entry.p) },
  ...(labelled ? [{ key: "true", title: "label", value: (entry) => className(entry.true) }] : []),
  ...data.listed.map(listedColumn),
];

function listedColumn(i) {
  const isNumber = data.rows.every((entry) => !isNaN(entry.values[i])); // a missing value counts as one
  const value = (entry) => (!isNumber ? entry.values[i] : entry.values[i] === "" ? -Infinity : +entry.values[i]);
  return { key: `v${i}`, title: data.columns[i], number: isNumber, value, show: (entry) => entry.values[i] };
}

for (const entry of data.rows) {
  const texts = [`row ${entry.row}`, className(entry.winner), className(entry.true), isWrong(entry) ? "wrong" : ""];
  entry.search = [...texts, ...(entry.values || [])].join("\n").toLowerCase();
  entry.line = element("tr", { tabindex: "-1", "aria-selected": "false", "data-row": entry.row },
    ...heads.map((head) => {
      const text = String(head.show ? head.show(entry) : head.value(entry));
      const kind = head.number ? "n" : head.key === "true" && isWrong(entry) ? "wrong" : null;
      return element("td", { class: kind, title: head.number ? null : text }, text);
    }));
}

function makeHeads() {
  $("list").tHead.replaceChildren(element("tr", {}, ...heads.map((head) => {
    const button = element("button", { type: "button" }, shortened(head.title, 24));
    button.addEventListener("click", () => {
      sorted = { key: head.key, down: sorted.key === head.key && !sorted.down };
      fillList();
    });
    const attributes = { scope: "col", class: head.number ? "n" : null, title: head.title, "data-key": head.key };
    return element("th", attributes, button);
  })));
}

function visibleRows() {
  return [...$("list").tBodies[0].rows].map((line) => data.rows.find((entry) => entry.line === line));
}

function fillList() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const head = heads.find((one) => one.key === sorted.key);
  const order = (a, b) => {
    const [x, y] = [head.value(a), head.value(b)];
    return (x < y ? -1 : x > y ? 1 : a.row - b.row) * (sorted.down ? -1 : 1);
  };
  const found = data.rows.filter((entry) => words.every((word) => entry.search.includes(word))).sort(order);
  $("list").tBodies[0].replaceChildren(...found.map((entry) => entry.line));
  if ($("gallery")) fillGallery(found);
  $("count").textContent = found.length === 1 ? "1 row" : `${found.length.toLocaleString("en")} rows`;
  for (const th of $("list").tHead.rows[0].cells) {
    if (th.dataset.key === sorted.key) th.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
  // Exactly one line can be reached with the tab key; arrows move from there.
  for (const entry of data.rows) entry.line.tabIndex = -1;
  const reachable = found.includes(chosen) ? chosen : found[0];
  if (reachable) reachable.line.tabIndex = 0;
}

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity, Enter: 0, " ": 0 };

function move(entry, step) {
  const rows = visibleRows();
  const place = rows.indexOf(entry);
  const next = rows[Math.min(Math.max(place < 0 ? 0 : place + step, 0), rows.length - 1)];
  if (next) choose(next);
  return next;
}

$("list").tBodies[0].addEventListener("click", (event) => {
  const entry = data.rows.find((one) => one.line === event.target.closest("tr"));
  if (entry) choose(entry);
});
$("list").tBodies[0].addEventListener("keydown", (event) => {
  const entry = data.rows.find((one) => one.line === event.target.closest("tr"));
  if (!entry || !(event.key in STEPS)) return;
  event.preventDefault();
  const next = move(entry, STEPS[event.key]);
  if (next) next.line.focus();
});
$("search").addEventListener("input", fillList);
$("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== "ArrowDown") return;
  event.preventDefault();
  const first = visibleRows()[0];
  if (first) { choose(first); first.line.focus(); }
});
$("previous").addEventListener("click", () => move(chosen, -1));
$("next").addEventListener("click", () => move(chosen, 1));

function choose(entry) {
  if (chosen) { chosen.line.setAttribute("aria-selected", "false"); chosen.line.tabIndex = -1; }
  chosen = entry;
  entry.line.setAttribute("aria-selected", "true");
  entry.line.tabIndex = 0;
  const box = entry.line.closest(".list");
  if (box) { // scrolls the list alone, not the page
    const top = entry.line.offsetTop - $("list").tHead.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (entry.line.offsetTop + entry.line.offsetHeight > box.scrollTop + box.clientHeight)
      box.scrollTop = entry.line.offsetTop + entry.line.offsetHeight - box.clientHeight;
  }
  showRow(entry);
  markPoint();
  for (const { picture } of data.rows.filter((one) => one.picture)) {
    picture.setAttribute("aria-pressed", String(+picture.dataset.row === entry.row));
  }
}

for (const button of document.querySelectorAll(".pick"))
  button.addEventListener("click", () => {
    const entry = data.rows.find((one) => one.row === +button.dataset.row);
    $("search").value = "";
    fillList();
    choose(entry);
    $("rows").scrollIntoView();
    entry.line.focus({ preventScroll: true });
  });

// ---------------------------------------------------------------- one row

// Where the chosen row does not stand beside what was clicked, the page goes there.
function reveal() {
  if (window.innerWidth < 960) $("detail").scrollIntoView();
}

function showRow(entry) {
  $("row-title").textContent = `Row ${entry.row.toLocaleString("en")}`;
  const verdict = isWrong(entry)
    ? element("span", { class: "wrong" }, `; wrong, its label is ${className(entry.true)}`)
    : element("span", { class: "right-answer" }, entry.true < 0 ? "" : "; right");
  $("row-answer").replaceChildren(
    "Predicted ", element("b", {}, className(entry.winner)), ` with ${percent(entry.p)}`, verdict, ".");
  if (entry.image) paint($("row-image"), entry.image);
  showTrace(entry);
  fillClasses(entry);
  showClass(entry);
  const values = entry.values || [];
  $("values-box").hidden = !values.length;
  $("values").replaceChildren(...values.flatMap((value, i) =>
    [element("dt", {}, data.columns[i]), element("dd", {}, value || "missing")]));
  if (data.hidden_columns) {
    const more = `… ${data.hidden_columns.toLocaleString("en")} more columns`;
    $("values").append(element("dt", {}, more), element("dd"));
  }
}

function fillClasses(entry) {
  // The runner-up is asked for first; a class that was chosen stays when the same row is shown again.
  const menu = $("row-class");
  const place = menu.dataset.row === String(entry.row) ? menu.selectedIndex : Math.min(1, entry.classes.length - 1);
  menu.dataset.row = entry.row;
  menu.replaceChildren(...entry.classes.map((one, i) => element("option", { value: i },
    `${one.class === entry.winner ? "why" : "why not"} ${shortened(className(one.class), 40)} (${number(one.p)})`)));
  menu.selectedIndex = place;
}

function showTrace(entry) {
  const own = entry.chain.filter(([i]) => data.class_of[i] === entry.winner);
  const best = own.length ? own.reduce((a, b) => (b[3] > a[3] ? b : a))[0] : -1;
  const unreached = ([, reached, gate]) => gate !== null && reached < 0.0005;
  $("trace").tBodies[0].replaceChildren(...entry.chain.map((line) => {
    const [i, reached, gate, h] = line;
    return element("tr", { class: i === best ? "win" : null },
      element("th", { scope: "row" }, shortened(data.functions[i], 32)),
      element("td", { class: "mass" },
        element("span", { class: "reached", style: { width: `${100 * reached}%` } }),
        element("span", { class: "taken", style: { width: `${100 * h}%`, background: classColor(data.class_of[i]) } })),
      element("td", { class: "n" }, number(reached)),
      element("td", { class: "n" }, gate === null ? "rest" : unreached(line) ? "–" : number(gate)),
      element("td", { class: "n" }, number(h)));
  }));
  const [count, held] = entry.hidden;
  const more = count ? `${count.toLocaleString("en")} more functions hold ${number(held)} of the mass together. ` : "";
  const idle = entry.chain.some(unreached) ? "– nothing reaches this gate, so that its value would say nothing." : "";
  $("trace-note").textContent = more + idle;
}

const DOES = ["rejects", "accepts", "is the rest", "add"];

function showClass(entry) {
  const one = entry.classes[$("row-class").selectedIndex];
  $("why").textContent = `${one.why}.`;
  const line = (name, does, nats) => [
    element("th", { scope: "row" }, name), element("td", {}, does),
    element("td", { class: "n" }, number(nats === null ? 0 : Math.exp(nats))),
    element("td", { class: "n" }, number(nats)),
  ];
  const gate = (i) => (i < 0 ? "other parts" : shortened(data.functions[i], 32));
  const lines = one.ledger.map(([i, does, nats]) => element("tr", {}, ...line(gate(i), DOES[does], nats)));
  const [count, nats] = one.hidden;
  if (count) {
    lines.push(element("tr", { class: "quiet" }, ...line(`${count.toLocaleString("en")} more gates`, "reject", nats)));
  }
  $("ledger").tBodies[0].replaceChildren(...lines);
  const total = line(`p(${shortened(className(one.class), 32)})`, "", one.total);
  $("ledger").tFoot.replaceChildren(element("tr", {}, ...total));
}

$("row-class").addEventListener("change", () => showClass(chosen));

// ---------------------------------------------------------------- pictures, for images

function pictureOf(entry) {
  const canvas = element("canvas", { class: "picture", "aria-hidden": "true" });
  paint(canvas, entry.image);
  const button = element("button", { type: "button", "data-row": entry.row, "aria-pressed": "false",
    "aria-label": `row ${entry.row}: ${className(entry.winner)}` }, canvas,
    element("span", { class: isWrong(entry) ? "wrong" : null }, className(entry.winner)));
  button.addEventListener("click", () => { choose(entry); reveal(); });
  return button;
}

function fillGallery(found) {
  for (const entry of found.slice(0, PICTURES)) entry.picture = entry.picture || pictureOf(entry);
  $("gallery").replaceChildren(...found.slice(0, PICTURES).map((entry) => entry.picture));
}

// ---------------------------------------------------------------- maps

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"];
const LEGEND = 12; // classes that a legend names

const range = (n) => Array.from({ length: n }, (_, i) => i);

function plane() {
  const [x, y] = [+$("map-x").value, +$("map-y").value];
  const pair = data.maps.pairs[`${Math.min(x, y)},${Math.max(x, y)}`];
  const n = data.maps.points;
  // A map is stored once, with the earlier feature across: turn it if that one goes up.
  const grid = (text) => {
    const raw = bytes(text);
    const values = raw.length === 2 * n * n ? new Uint16Array(raw.buffer) : raw;
    const at = (up, across) => values[x < y ? up * n + across : across * n + up];
    return range(n).map((up) => range(n).map((across) => at(up, across)));
  };
  const side = ([low, high]) => range(n).map((i) => low + (high - low) * i / (n - 1));
  return { x, y, pair, n, grid, across: side(data.maps.limits[x]), up: side(data.maps.limits[y]) };
}

function rgb(color) {
  return [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
}

function blended({ pair, n, grid }) {
  // Every function tints the paper with the colour of its class, as strongly as it is large.
  const canvas = element("canvas", { width: n, height: n });
  const picture = new ImageData(n, n);
  const paper = rgb(css("paper"));
  const layers = Object.entries(pair.functions).map(([i, text]) => [grid(text), rgb(classColor(data.class_of[i]))]);
  for (let up = 0; up < n; up++) for (let across = 0; across < n; across++) {
    const place = 4 * ((n - 1 - up) * n + across);
    for (let c = 0; c < 3; c++) {
      const tint = layers.reduce((sum, [h, color]) => sum + h[up][across] / 255 * (color[c] - paper[c]), 0);
      picture.data[place + c] = paper[c] + 0.55 * tint;
    }
    picture.data[place + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas.toDataURL();
}

function boundaries(here) {
  // Signed by who wins, the lead is zero on the boundary and smooth across it.
  const winner = here.grid(here.pair.winner);
  const lead = here.grid(here.pair.lead).map((line) => line.map((root) => root ** 2)); // stored as its root
  return [...new Set(winner.flat())].map((c) => {
    const signed = winner.map((line, i) => line.map((w, j) => (w === c ? lead[i][j] : -lead[i][j])));
    return contour(here, signed, 0, { color: css("ink"), width: 1.2 });
  });
}

function contour(here, z, level, line) {
  return { type: "contour", x: here.across, y: here.up, z, line, autocontour: false, showscale: false,
           hoverinfo: "skip", showlegend: false, contours: { start: level, end: level, size: 1, coloring: "none" } };
}

function pointTraces(here) {
  const kind = (entry) => (entry.true >= 0 ? entry.true : entry.winner);
  const several = data.classes.length > LEGEND;
  const groups = several ? [null] : [...new Set(data.rows.map(kind))].sort((a, b) => a - b);
  const points = (chosen, name, marker) => ({
    type: "scatter", mode: "markers", customdata: chosen, hoverinfo: "text", name, marker,
    x: chosen.map((i) => data.points[i][here.x]), y: chosen.map((i) => data.points[i][here.y]),
    text: chosen.map((i) => pointText(data.rows[i])),
  });
  const places = range(data.rows.length);
  const traces = groups.map((c) => {
    const mine = places.filter((i) => c === null || kind(data.rows[i]) === c);
    const look = (of) => (c === null ? mine.map((i) => of(kind(data.rows[i]))) : of(c));
    return points(mine, c === null ? "" : plotText(shortened(className(c), 24)), {
      size: 8, symbol: look((k) => SYMBOLS[k % SYMBOLS.length]), color: look(classColor),
      line: { color: css("paper"), width: 1 },
    });
  });
  const missed = places.filter((i) => isWrong(data.rows[i]));
  const circle = { size: 13, symbol: "circle-open", color: css("warn"), line: { width: 2.5 } };
  return missed.length ? [...traces, points(missed, "predicted wrongly", circle)] : traces;
}

function pointText(entry) {
  const wrongly = isWrong(entry) ? `, wrongly: its label is ${plotText(className(entry.true))}` : "";
  return `row ${entry.row}: ${plotText(className(entry.winner))}${wrongly}`;
}

function classLayers(here) {
  const [left, right] = data.maps.limits[here.x], [low, high] = data.maps.limits[here.y];
  const image = { source: blended(here), xref: "x", yref: "y", x: left, y: high, sizex: right - left,
                  sizey: high - low, sizing: "stretch", layer: "below" };
  return [[image], boundaries(here)];
}

function functionLayers(here, show) {
  const text = here.pair.functions[show]; // one that is not to be seen on this map is left out
  const z = range(here.n).map(() => range(here.n).map(() => 0));
  const h = text ? here.grid(text).map((line) => line.map((value) => value / 255)) : z;
  const heat = { type: "heatmap", x: here.across, y: here.up, z: h, zmin: 0, zmax: 1, colorscale: "Cividis",
                 zsmooth: "best", hoverinfo: "skip", showscale: !narrow(),
                 colorbar: { thickness: 8, outlinewidth: 0, tickformat: ".0%" } };
  return [[], [heat, ...[0.1, 0.5, 0.9].map((level) => contour(here, h, level, { color: "#ffffff", width: 1 }))]];
}

function outlines(here, show) {
  const wanted = Object.entries(here.pair.gates).filter(([i]) => show === "classes" || show === i);
  return wanted.map(([i, text]) => {
    const color = show === "classes" ? classColor(data.class_of[i]) : "#ffffff";
    const gate = here.grid(text).map((line) => line.map((value) => value / 255));
    return contour(here, gate, 0.5, { color, width: 2.2, dash: "dash" });
  });
}

figures.map = () => {
  const here = plane(), show = $("map-show").value;
  const [images, traces] = show === "classes" ? classLayers(here) : functionLayers(here, show);
  tellMap(here, show);
  const axis = (f) => ({ title: { text: plotText(shortened(data.maps.names[f], narrow() ? 28 : 44)) },
                         range: data.maps.limits[f], showgrid: false, zeroline: false });
  return plot("map", [...traces, ...outlines(here, show), ...pointTraces(here), ring(here)], {
    images, hovermode: "closest", showlegend: data.classes.length <= LEGEND, xaxis: axis(here.x), yaxis: axis(here.y),
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, itemclick: false, itemdoubleclick: false },
  });
};

function ring(here) {
  const i = data.rows.indexOf(chosen);
  const place = i < 0 ? [[], []] : [[data.points[i][here.x]], [data.points[i][here.y]]];
  return { type: "scatter", mode: "markers", x: place[0], y: place[1], hoverinfo: "skip", showlegend: false,
           marker: { size: 20, color: "rgba(0,0,0,0)", line: { color: css("ink"), width: 3 } } };
}

function markPoint() {
  if (!drawn.has("map")) return;
  const mark = ring(plane());
  Plotly.restyle($("map"), { x: [mark.x], y: [mark.y] }, [$("map").data.length - 1]);
}

function tellMap(here, show) {
  const shapes = Object.keys(here.pair.gates).length ? "; dashed: where a shape's gate is one half" : "";
  $("map-text").textContent = show === "classes"
    ? `Colours: which class takes the mass. Solid lines: where the answer changes${shapes}. ` +
      "Points are rows" + (data.rows.some(isWrong) ? "; those with a ring are predicted wrongly." : ".")
    : "How much of all mass this one function takes, with lines at 10%, 50% and 90%. Points are rows.";
  const others = range(data.maps.names.length).filter((f) => f !== here.x && f !== here.y);
  const held = (f) => `${shortened(data.maps.names[f], 24)} ${+data.maps.kept[f].toPrecision(3)}`;
  const kept = others.slice(0, 4).map(held);
  if (others.length > 4 || !data.maps.all) kept.push("…");
  const slice = others.length || !data.maps.all
    ? `A slice: the other features keep their medians (${kept.join(", ")}), whatever a row has. ` : "";
  const few = data.maps.all ? "" : `The menus hold the ${data.maps.names.length} features with the most influence.`;
  $("map-kept").textContent = slice + few;
}

function makeMap() {
  const options = (names, values) =>
    names.map((name, i) => element("option", { value: values[i] }, shortened(name, 40)));
  const features = range(data.maps.names.length);
  $("map-x").replaceChildren(...options(data.maps.names, features));
  $("map-y").replaceChildren(...options(data.maps.names, features));
  $("map-show").replaceChildren(...options(["all classes", ...data.functions], ["classes", ...data.functions.keys()]));
  $("map-y").value = "1";
  for (const [mine, other] of [["map-x", "map-y"], ["map-y", "map-x"]]) {
    $(mine).addEventListener("change", () => {
      if ($(mine).value === $(other).value) $(other).value = $(mine).value === "0" ? "1" : "0"; // two different ones
      draw("map");
    });
  }
  $("map-show").addEventListener("change", () => draw("map"));
}

// ---------------------------------------------------------------- begin

makeHeads();
fillList();
if (data.maps) makeMap();
choose(data.rows.find(isWrong) || data.rows.reduce((a, b) => (b.lead < a.lead ? b : a))); // a row that is worth a look

// A figure is drawn when it comes near the screen, so that the page opens at once.
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting || drawn.has(target.id)) continue;
    draw(target.id);
    if (target.id === "map") target.on("plotly_click", (event) => {
      const point = event.points.find((one) => one.customdata !== undefined);
      if (!point) return;
      choose(data.rows[point.customdata]);
      reveal();
    });
  }
}, { rootMargin: "300px" });
requestAnimationFrame(() => setTimeout(() => {
  startPlotly();
  for (const node of document.querySelectorAll(".plot")) seen.observe(node);
}));

// On paper: light, everything drawn, every card open.
let before = null;
window.addEventListener("beforeprint", () => {
  before = { theme: root.dataset.theme, closed: [...document.querySelectorAll("details:not([open])")] };
  startPlotly();
  setTheme(false);
  for (const card of before.closed) card.open = true;
  for (const node of document.querySelectorAll(".plot")) { draw(node.id); Plotly.Plots.resize(node); }
  if (chosen) showRow(chosen);
});
window.addEventListener("afterprint", () => {
  for (const card of before.closed) card.open = false;
  setTheme(before.theme === "dark");
  redraw();
});
