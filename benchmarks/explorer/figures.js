// Figures of a chosen comparison: seeds, levels, learning curves, curves over a tuned key. Each is an SVG as wide as its place.
"use strict";

const MARGIN = 14, ROW = 38, HEIGHT = 220;

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const text = (x, y, said, attributes = {}) => svg("text", { x, y, ...attributes }, said);
const titled = (shape, said) => { shape.append(svg("title", {}, said)); return shape; };

// Three significant digits, with a true minus.
function written(number, signed = false) {
  if (number === null || number === undefined) return "–";
  const size = Math.abs(number), sign = number < 0 ? "−" : signed && number > 0 ? "+" : "";
  if (!size) return "0";
  const shown = size >= 1e5 || size < 1e-3 ? size.toExponential(1).replace(".0e", "e") : String(Number(size.toPrecision(3)));
  return sign + shown.replace("e-", "e−").replace("e+", "e");
}

const thousands = number => number >= 1000 ? `${written(number / 1000)}k` : written(number);

// From numbers to places, with at most so many round ticks.
function scale(numbers, from, to, most = 5) {
  let low = Math.min(...numbers), high = Math.max(...numbers);
  if (low === high) { low -= Math.abs(low) * 0.05 || 0.5; high += Math.abs(high) * 0.05 || 0.5; }
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(each => each * power).find(each => each >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
  const at = number => from + (to - from) * (number - low) / (high - low);
  return Object.assign(at, { ticks });
}

// Arms in the order of a figure: the two that are compared, then the others.
function armsInOrder(names, arm, versus) {
  const known = [...new Set(names)];
  return [...[arm, versus].filter(each => known.includes(each)), ...known.filter(each => each !== arm && each !== versus)];
}

const roleOf = (name, arm, versus) => name === arm ? "arm" : name === versus ? "versus" : "other";
const cut = (said, width) => { const most = Math.floor(width / 6.6); return said.length > most ? `${said.slice(0, most - 1)}…` : said; };
const mean = numbers => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;

// A row an arm: a dot a seed and a bar at their mean, or a level with its interval.
function rowsFigure(width, rows, arm, versus, said) {
  const numbers = rows.flatMap(row => row.level ? row.level : row.seeds.map(([, score]) => score));
  if (!numbers.length) return null;
  const x = scale(numbers, MARGIN, width - MARGIN), height = rows.length * ROW + 26;
  const figure = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": said });
  for (const tick of x.ticks) {
    figure.append(svg("line", { x1: x(tick), x2: x(tick), y1: 0, y2: rows.length * ROW, class: "grid" }),
      text(x(tick), height - 8, written(tick), { "text-anchor": "middle" }));
  }
  rows.forEach((row, place) => {
    const role = roleOf(row.arm, arm, versus), top = place * ROW, y = top + 26;
    figure.append(titled(text(MARGIN - 8, top + 13, cut(row.arm, width - 2 * MARGIN), { class: `name ${role}` }), row.arm));
    if (row.level) {
      const [centre, low, high] = row.level;
      figure.append(svg("line", { x1: x(low), x2: x(high), y1: y, y2: y, class: `range ${role}` }),
        titled(svg("circle", { cx: x(centre), cy: y, r: 4.5, class: role }), `${row.arm}: ${written(centre)} [${written(low)}, ${written(high)}]`));
      return;
    }
    row.seeds.forEach(([seed, score]) => figure.append(
      titled(svg("circle", { cx: x(score), cy: y + (seed * 7 % 5 - 2) * 1.6, r: 3.2, class: `dot ${role}` }), `seed ${seed}: ${written(score)}`)));
    const centre = mean(row.seeds.map(([, score]) => score));
    figure.append(titled(svg("line", { x1: x(centre), x2: x(centre), y1: y - 9, y2: y + 9, class: `mean ${role}` }), `${row.arm}: mean ${written(centre)}`));
  });
  return figure;
}

// Axes with ticks around lines; `x` and `y` are scales, `label` says what is on x.
function frame(width, x, y, label, said, ofX = thousands) {
  const figure = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": said });
  for (const tick of y.ticks) figure.append(svg("line", { x1: 44, x2: width - 8, y1: y(tick), y2: y(tick), class: "grid" }),
    text(38, y(tick) + 4, written(tick), { "text-anchor": "end" }));
  for (const tick of x.ticks) figure.append(text(x(tick), HEIGHT - 22, ofX(tick), { "text-anchor": "middle" }));
  figure.append(text((44 + width - 8) / 2, HEIGHT - 5, label, { "text-anchor": "middle" }));
  return figure;
}

const path = (points, attributes) => svg("path", { d: points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join(""), ...attributes });
const LAST = { other: 0, versus: 1, arm: 2 };

// A thin line a run, and a thick one for the mean of an arm whose runs were evaluated at the same places.
function curvesFigure(width, curves, condition, arm, versus, said) {
  const lines = curves.lines.filter(line => line[0] === condition);
  if (!lines.length) return null;
  const spent = lines.flatMap(line => curves.spent[line[3]]), values = lines.flatMap(line => line[4]);
  const x = scale(spent, 44, width - 16, 4), y = scale(values, HEIGHT - 42, 8);
  const figure = frame(width, x, y, "completions", said);
  const names = armsInOrder(lines.map(line => line[1]), arm, versus).sort((a, b) => LAST[roleOf(a, arm, versus)] - LAST[roleOf(b, arm, versus)]);
  for (const name of names) {
    const own = lines.filter(line => line[1] === name), role = roleOf(name, arm, versus);
    for (const [, , seed, place, numbers] of own)
      figure.append(titled(path(numbers.map((value, i) => [x(curves.spent[place][i]), y(value)]), { class: `run ${role}` }), `${name}, seed ${seed}`));
    const place = own[0][3];
    if (own.every(line => line[3] === place)) {
      const means = own[0][4].map((_, i) => mean(own.map(line => line[4][i])));
      figure.append(titled(path(means.map((value, i) => [x(curves.spent[place][i]), y(value)]), { class: `average ${role}` }), `${name}, mean`));
    }
  }
  return figure;
}

// Scores over the tuned key: a dot a run, a line through the means of an arm; at the value that is judged a ring.
function ratesFigure(width, runs, key, arm, versus, said) {
  const values = runs.map(run => Math.log10(run.value)), x = scale(values, 52, width - 16, 4), y = scale(runs.map(run => run.score), HEIGHT - 42, 8);
  const tried = [...new Set(runs.map(run => run.value))].sort((a, b) => a - b), gap = (width - 68) / Math.max(tried.length - 1, 1);
  x.ticks = tried.filter((_, i) => i % Math.ceil(46 / gap) === 0).map(Math.log10);
  const figure = frame(width, x, y, key, said, tick => written(10 ** tick));
  const names = armsInOrder(runs.map(run => run.arm), arm, versus).sort((a, b) => LAST[roleOf(a, arm, versus)] - LAST[roleOf(b, arm, versus)]);
  for (const name of names) {
    const own = runs.filter(run => run.arm === name), role = roleOf(name, arm, versus);
    const points = tried.filter(value => own.some(run => run.value === value)).map(value => [value, mean(own.filter(run => run.value === value).map(run => run.score))]);
    figure.append(titled(path(points.map(([value, score]) => [x(Math.log10(value)), y(score)]), { class: `average ${role}` }), name));
    if (role !== "other") for (const run of own) figure.append(titled(svg("circle", { cx: x(Math.log10(run.value)), cy: y(run.score), r: 2.4, class: `dot ${role}` }), `${name}, ${key} ${written(run.value)}, seed ${run.seed}: ${written(run.score)}`));
    const judged = own.find(run => run.best), at = judged && points.find(([value]) => value === judged.value);
    if (at) figure.append(titled(svg("circle", { cx: x(Math.log10(at[0])), cy: y(at[1]), r: 5.5, class: `ring ${role}` }), `${name} is judged at ${key} ${written(at[0])}`));
  }
  return figure;
}

// A finding's interval around 0 on a scale of its own, with the smallest effect that counts as a band.
function intervalFigure({ effect, low, high, smallest }, width = 92, height = 16) {
  if (effect === null) return "";
  const ends = [effect, low ?? effect, high ?? effect], most = 1.08 * Math.max(...ends.map(Math.abs), smallest ?? 0, 1e-12);
  const x = number => width / 2 * (1 + number / most), y = height / 2, figure = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "interval", "aria-hidden": "true" });
  if (smallest) figure.append(svg("rect", { x: x(-smallest), width: x(smallest) - x(-smallest), y: 1, height: height - 2, class: "band" }));
  figure.append(svg("line", { x1: width / 2, x2: width / 2, y1: 0, y2: height, class: "zero" }));
  if (low !== null && high !== null) figure.append(svg("line", { x1: x(low), x2: x(high), y1: y, y2: y, class: "range" }));
  figure.append(svg("circle", { cx: x(effect), cy: y, r: 3 }));
  return figure;
}
