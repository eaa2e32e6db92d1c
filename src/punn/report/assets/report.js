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

const number = (value, digits = 3) => (value === null ? "−∞" : value.toFixed(digits).replace("-", "−"));
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
  for (const swatch of document.querySelectorAll(".swatch")) swatch.style.background = classColor(+swatch.dataset.class);
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

function matrix(id, values, texts, hover, across, color, title) {
  const down = data.matrices.order.map(className);
  const few = down.length <= (narrow() ? 6 : 12);
  const longest = narrow() ? 9 : 18;
  const ticks = (names) => {
    const step = Math.ceil(names.length / (narrow() ? 14 : 30));
    const places = names.map((_, i) => i).filter((i) => i % step === 0);
    return { tickvals: places, ticktext: places.map((i) => plotText(shortened(names[i], longest))), showgrid: false, zeroline: false };
  };
  const top = Math.max(...values.flat(), 1e-3);
  plot(id, [{
    type: "heatmap", z: values, text: few ? texts : undefined, texttemplate: few ? "%{text}" : undefined,
    hovertext: hover, hoverinfo: "text", zmin: 0, zmax: top, xgap: few ? 2 : 0, ygap: few ? 2 : 0,
    colorscale: [[0, css("raised")], [1, color]], showscale: !narrow(),
    colorbar: { thickness: 8, outlinewidth: 0, tickformat: ".0%", nticks: 4 },
  }], { xaxis: { ...ticks(across), title: { text: title }, tickangle: across.length > 6 || narrow() ? -45 : 0 },
        yaxis: { ...ticks(down), title: { text: "true class" }, autorange: "reversed" } });
}

figures.confusion = () => {
  const { order, confusion, totals } = data.matrices;
  const shares = confusion.map((line, i) => line.map((count) => count / Math.max(totals[i], 1)));
  const hover = confusion.map((line, i) => line.map((count, j) =>
    `${count.toLocaleString("en")} of ${totals[i].toLocaleString("en")} rows of ${plotText(className(order[i]))}<br>` +
    `given to ${plotText(className(order[j]))} (${percent(shares[i][j])})`));
  const texts = confusion.map((line) => line.map((count) => (count ? count.toLocaleString("en") : "")));
  matrix("confusion", shares, texts, hover, order.map(className), css("accent"), "predicted class");
};

figures.blame = () => {
  const { order, blame } = data.matrices;
  const causes = ["own gate", ...order.map(className)];
  const hover = blame.map((line, i) => line.map((share, j) =>
    `of the mass of ${plotText(className(order[i]))}<br>${percent(share)} ` +
    (j ? `was taken by ${plotText(causes[j])} before it` : "was refused by its own gate")));
  const texts = blame.map((line) => line.map((share) => (share >= 0.0005 ? percent(share) : "")));
  matrix("blame", blame, texts, hover, causes, root.dataset.theme === "dark" ? "#f28e4b" : "#d55e00", "cause");
};

figures.travel = () => {
  const places = data.functions.map((_, i) => i + 1);
  const step = Math.ceil(places.length / (narrow() ? 10 : 30));
  const shown = places.filter((i) => (i - 1) % step === 0);
  const hover = data.functions.map((name, i) => `${i + 1}. ${plotText(name)}<br>takes ${percent(data.mass[i])}` +
    ` of the mass<br>${percent(data.reached[i])} is left before it`);
  plot("travel", [
    { type: "bar", x: places, y: data.mass, hovertext: hover, hoverinfo: "text", name: "taken",
      marker: { color: data.class_of.map(classColor), line: { color: css("line"), width: places.length > 60 ? 0 : 1 } } },
    { x: places, y: data.reached, mode: places.length > 60 ? "lines" : "lines+markers", hovertext: hover, hoverinfo: "text",
      line: { color: css("ink"), width: 2, shape: "hvh" }, marker: { size: 6 }, name: "left before it" },
  ], { bargap: 0.25, hovermode: "closest",
       xaxis: { tickvals: shown, ticktext: shown.map((i) => plotText(shortened(data.functions[i - 1], narrow() ? 9 : 16))),
                tickangle: places.length > 8 || narrow() ? -45 : 0, showgrid: false,
                title: { text: "functions in the chain's order" } },
       yaxis: { tickformat: ".0%", range: [0, 1.05], title: { text: "share of the mass" } } });
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

let chosen = null; // the entry that is shown
let sorted = { key: "row", down: false };
const labelled = data.rows.some((entry) => entry.true >= 0);
const isWrong = (entry) => entry.true >= 0 && entry.true !== entry.winner;

const heads = [
  { key: "row", title: "row", number: true, value: (entry) => entry.row },
  { key: "predicted", title: "predicted", value: (entry) => className(entry.winner) },
  { key: "p", title: "p", number: true, value: (entry) => entry.p, show: (entry) => number(entry.p) },
  ...(labelled ? [{ key: "true", title: "label", value: (entry) => className(entry.true) }] : []),
  ...data.listed.map((i) => ({
    key: `v${i}`, title: data.columns[i], value: (entry) => (entry.values[i] !== "" && !isNaN(entry.values[i]) ? +entry.values[i] : entry.values[i]),
    show: (entry) => entry.values[i], number: data.rows.every((entry) => !isNaN(entry.values[i])),
  })),
];

for (const entry of data.rows) {
  entry.search = [`row ${entry.row}`, className(entry.winner), className(entry.true), isWrong(entry) ? "wrong" : "",
                  ...(entry.values || [])].join("\n").toLowerCase();
  entry.line = element("tr", { tabindex: "-1", "aria-selected": "false", "data-row": entry.row },
    ...heads.map((head) => element("td", { class: [head.number ? "n" : "", head.key === "true" && isWrong(entry) ? "wrong" : ""].join(" ").trim() || null,
      title: head.number ? null : String(head.value(entry)) },
      String(head.show ? head.show(entry) : head.value(entry)))));
}

function makeHeads() {
  $("list").tHead.replaceChildren(element("tr", {}, ...heads.map((head) => {
    const button = element("button", { type: "button" }, shortened(head.title, 24));
    button.addEventListener("click", () => {
      sorted = { key: head.key, down: sorted.key === head.key && !sorted.down };
      fillList();
    });
    return element("th", { scope: "col", class: head.number ? "n" : null, title: head.title, "data-key": head.key }, button);
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
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity, Enter: 0, " ": 0 };
  if (!entry || !(event.key in steps)) return;
  event.preventDefault();
  const next = move(entry, steps[event.key]);
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
  for (const button of document.querySelectorAll("#gallery button"))
    button.setAttribute("aria-pressed", String(+button.dataset.row === entry.row));
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

function showRow(entry) {
  $("row-title").textContent = `Row ${entry.row.toLocaleString("en")}`;
  const verdict = entry.true < 0 ? null : isWrong(entry)
    ? element("span", { class: "wrong" }, `; wrong, its label is ${className(entry.true)}`)
    : element("span", { class: "right-answer" }, "; right");
  $("row-answer").replaceChildren("Predicted ", element("b", {}, className(entry.winner)), ` with ${percent(entry.p)}`, ...(verdict ? [verdict] : []), ".");
  if (entry.image) paint($("row-image"), entry.image);
  showTrace(entry);
  const picked = $("row-class").dataset.row === String(entry.row) ? $("row-class").selectedIndex : Math.min(1, entry.classes.length - 1);
  $("row-class").dataset.row = entry.row;
  $("row-class").replaceChildren(...entry.classes.map((one, i) => element("option", { value: i },
    `${one.class === entry.winner ? "why" : "why not"} ${shortened(className(one.class), 40)} (${number(one.p)})`)));
  $("row-class").selectedIndex = picked;
  showClass(entry);
  const values = entry.values || [];
  $("values-box").hidden = !values.length;
  $("values").replaceChildren(...values.flatMap((value, i) => [element("dt", {}, data.columns[i]), element("dd", {}, value || "missing")]));
  if (data.hidden_columns) $("values").append(element("dt", {}, `… ${data.hidden_columns.toLocaleString("en")} more columns`), element("dd", {}));
}

function showTrace(entry) {
  const best = entry.chain.filter((line) => data.class_of[line[0]] === entry.winner).reduce((a, b) => (b[3] > a[3] ? b : a), [-1, 0, 0, -1])[0];
  let idle = false;
  $("trace").tBodies[0].replaceChildren(...entry.chain.map(([i, reached, gate, h]) => {
    const unreached = gate !== null && reached < 0.0005;
    idle = idle || unreached;
    return element("tr", { class: i === best ? "win" : null },
      element("th", { scope: "row" }, shortened(data.functions[i], 32)),
      element("td", { class: "mass" },
        element("span", { class: "reached", style: { width: `${100 * reached}%` } }),
        element("span", { class: "taken", style: { width: `${100 * h}%`, background: classColor(data.class_of[i]) } })),
      element("td", { class: "n" }, number(reached)),
      element("td", { class: unreached ? "n idle" : "n" }, gate === null ? "rest" : unreached ? "–" : number(gate)),
      element("td", { class: "n" }, number(h)));
  }));
  const [count, held] = entry.hidden;
  $("trace-note").textContent = (count ? `${count.toLocaleString("en")} more functions hold ${number(held)} of the mass together. ` : "") +
    (idle ? "– nothing reaches this gate, so that its value would say nothing." : "");
}

const DOES = ["rejects", "accepts", "is the rest", "add"];

function showClass(entry) {
  const one = entry.classes[$("row-class").selectedIndex];
  $("why").textContent = one.why.charAt(0).toUpperCase() + one.why.slice(1) + ".";
  const line = (name, does, nats) => [element("th", { scope: "row" }, name), element("td", {}, does),
    element("td", { class: "n" }, number(nats === null ? 0 : Math.exp(nats))), element("td", { class: "n" }, number(nats))];
  const lines = one.ledger.map(([i, does, nats]) => element("tr", {}, ...line(i < 0 ? "other parts" : shortened(data.functions[i], 32), DOES[does], nats)));
  if (one.hidden[0]) lines.push(element("tr", { class: "quiet" }, ...line(`${one.hidden[0].toLocaleString("en")} more gates`, "reject", one.hidden[1])));
  $("ledger").tBodies[0].replaceChildren(...lines);
  $("ledger").tFoot.replaceChildren(element("tr", {}, ...line(`p(${shortened(className(one.class), 32)})`, "", one.total)));
}

$("row-class").addEventListener("change", () => showClass(chosen));

// ---------------------------------------------------------------- pictures, for images

if ($("gallery")) $("gallery").replaceChildren(...data.rows.slice(0, 120).map((entry) => {
  const canvas = element("canvas", { class: "picture", "aria-hidden": "true" });
  paint(canvas, entry.image);
  const button = element("button", { type: "button", "data-row": entry.row, "aria-pressed": "false",
    "aria-label": `row ${entry.row}: ${className(entry.winner)}` }, canvas,
    element("span", { class: isWrong(entry) ? "wrong" : null }, className(entry.winner)));
  button.addEventListener("click", () => choose(entry));
  return button;
}));

// ---------------------------------------------------------------- maps

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"];
const LEGEND = 12; // classes that a legend names

function plane() {
  const [x, y] = [+$("map-x").value, +$("map-y").value];
  const pair = data.maps.pairs[`${Math.min(x, y)},${Math.max(x, y)}`];
  const n = data.maps.points;
  // A map is stored once, with the earlier feature across: turn it if that one goes up.
  const grid = (text) => {
    const raw = bytes(text);
    const values = raw.length === 2 * n * n ? new Uint16Array(raw.buffer) : raw;
    return Array.from({ length: n }, (_, up) => Array.from({ length: n }, (_, across) => values[x < y ? up * n + across : across * n + up]));
  };
  const side = (f) => { const [low, high] = data.maps.limits[f]; return Array.from({ length: n }, (_, i) => low + (high - low) * i / (n - 1)); };
  return { x, y, pair, n, grid, across: side(x), up: side(y) };
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
    for (let c = 0; c < 3; c++)
      picture.data[place + c] = paper[c] + layers.reduce((sum, [h, color]) => sum + 0.55 * (h[up][across] / 255) * (color[c] - paper[c]), 0);
    picture.data[place + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas.toDataURL();
}

function boundaries(here) {
  const winner = here.grid(here.pair.winner), lead = here.grid(here.pair.lead);
  return [...new Set(winner.flat())].map((c) => contour(here,
    winner.map((line, i) => line.map((w, j) => (w === c ? lead[i][j] : -lead[i][j]))), 0, { color: css("ink"), width: 1.2 }));
}

function contour(here, z, level, line) {
  return { type: "contour", x: here.across, y: here.up, z, autocontour: false, showscale: false, hoverinfo: "skip", showlegend: false,
           contours: { start: level, end: level, size: 1, coloring: "none" }, line };
}

function pointTraces(here) {
  const several = data.classes.length > LEGEND;
  const kind = (entry) => (entry.true >= 0 ? entry.true : entry.winner);
  const groups = several ? [null] : [...new Set(data.rows.map(kind))].sort((a, b) => a - b);
  return groups.map((c) => {
    const mine = data.rows.map((entry, i) => i).filter((i) => c === null || kind(data.rows[i]) === c);
    return {
      type: "scatter", mode: "markers", x: mine.map((i) => data.points[i][here.x]), y: mine.map((i) => data.points[i][here.y]),
      customdata: mine, hoverinfo: "text", name: c === null ? "" : plotText(shortened(className(c), 24)),
      text: mine.map((i) => `row ${data.rows[i].row}: ${plotText(className(data.rows[i].winner))}` +
        (isWrong(data.rows[i]) ? `, wrongly: ${plotText(className(data.rows[i].true))}` : "")),
      marker: { size: mine.map((i) => (isWrong(data.rows[i]) ? 11 : 7)), opacity: 0.95,
                symbol: mine.map((i) => SYMBOLS[kind(data.rows[i]) % SYMBOLS.length]),
                color: mine.map((i) => classColor(kind(data.rows[i]))),
                line: { color: mine.map((i) => (isWrong(data.rows[i]) ? css("warn") : css("paper"))), width: mine.map((i) => (isWrong(data.rows[i]) ? 2.5 : 1)) } },
    };
  });
}

figures.map = () => {
  const here = plane(), show = $("map-show").value, images = [], traces = [];
  if (show === "classes") {
    const [left, right] = data.maps.limits[here.x], [low, high] = data.maps.limits[here.y];
    images.push({ source: blended(here), xref: "x", yref: "y", x: left, y: high, sizex: right - left, sizey: high - low, sizing: "stretch", layer: "below" });
    traces.push(...boundaries(here));
  } else {
    const text = here.pair.functions[show];
    const z = text ? here.grid(text).map((line) => line.map((value) => value / 255)) : here.up.map(() => here.across.map(() => 0));
    traces.push({ type: "heatmap", x: here.across, y: here.up, z, zmin: 0, zmax: 1, colorscale: "Cividis", zsmooth: "best", hoverinfo: "skip",
                  showscale: !narrow(), colorbar: { thickness: 8, outlinewidth: 0, tickformat: ".0%" } });
    for (const level of [0.1, 0.5, 0.9]) traces.push(contour(here, z, level, { color: "#ffffff", width: 1 }));
  }
  for (const [i, text] of Object.entries(here.pair.gates)) {
    if (show !== "classes" && show !== i) continue;
    const q = here.grid(text).map((line) => line.map((value) => value / 255));
    traces.push(contour(here, q, 0.5, { color: show === "classes" ? classColor(data.class_of[i]) : "#ffffff", width: 2.2, dash: "dash" }));
  }
  traces.push(...pointTraces(here), ring(here));
  tellMap(here, show);
  const title = (f) => ({ text: plotText(shortened(data.maps.names[f], narrow() ? 28 : 44)) });
  return plot("map", traces, {
    images, hovermode: "closest", showlegend: data.classes.length <= LEGEND,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, itemclick: false, itemdoubleclick: false },
    xaxis: { title: title(here.x), range: data.maps.limits[here.x], showgrid: false, zeroline: false },
    yaxis: { title: title(here.y), range: data.maps.limits[here.y], showgrid: false, zeroline: false },
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
  const held = data.maps.names.filter((_, f) => f !== here.x && f !== here.y);
  $("map-text").textContent = show === "classes"
    ? "Colours: which class takes the mass. Solid lines: where the answer changes" + (Object.keys(here.pair.gates).length ? "; dashed: where a shape's gate is one half." : ".") + " Points are rows, large ones are predicted wrongly."
    : "How much of all mass this one function takes: lines at 10%, 50% and 90%. Points are rows.";
  const kept = data.maps.names.map((name, f) => [name, data.maps.kept[f]]).filter((_, f) => f !== here.x && f !== here.y).slice(0, 4)
    .map(([name, value]) => `${shortened(name, 24)} ${+value.toPrecision(3)}`).join(", ");
  $("map-kept").textContent = (held.length || !data.maps.all ? `A slice: the other features keep their medians${kept ? ` (${kept}${held.length > 4 || !data.maps.all ? ", …" : ""})` : ""}. Rows stand where they are in these two. ` : "") +
    (data.maps.all ? "" : `The menus hold the ${data.maps.names.length} features with the most influence.`);
}

function makeMap() {
  const options = (names, values) => names.map((name, i) => element("option", { value: values ? values[i] : i }, shortened(name, 40)));
  $("map-x").replaceChildren(...options(data.maps.names));
  $("map-y").replaceChildren(...options(data.maps.names));
  $("map-show").replaceChildren(...options(["all classes", ...data.functions], ["classes", ...data.functions.keys()]));
  $("map-y").value = "1";
  for (const [mine, other] of [["map-x", "map-y"], ["map-y", "map-x"]])
    $(mine).addEventListener("change", () => {
      if ($(mine).value === $(other).value) $(other).value = $(mine).value === "0" ? "1" : "0"; // two different ones
      draw("map");
    });
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
      if (window.innerWidth < 960) $("detail").scrollIntoView();
    });
  }
}, { rootMargin: "300px" });
for (const node of document.querySelectorAll(".plot")) seen.observe(node);

// On paper: light, everything drawn, every card open.
let before = null;
window.addEventListener("beforeprint", () => {
  before = { theme: root.dataset.theme, closed: [...document.querySelectorAll("details:not([open])")] };
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
