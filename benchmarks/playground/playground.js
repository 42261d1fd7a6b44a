// The page: controls, the chain norm → agg → clip of graphs, and what it shows of their results.
// A setting has a key, as "reward.0.1" (prompt 0, completion 1) or "clip.low". Those that differ from their defaults are
// in `changed` and in the address, so that a link shows the same numbers.
"use strict";

const LIBRARY = JSON.parse(document.getElementById("library").textContent);
const [PROMPTS, GROUP, TIMES] = LIBRARY.shape;
const AXES = { norm: "Advantage (norm)", clip: "Policy loss (clip)", agg: "Aggregation (agg)" };
const FIRST = { norm: "local", clip: "higher", agg: "token", show: "push", token: "0.0.1" };
const COMPLETION = [PROMPTS, GROUP], TOKEN = [PROMPTS, GROUP, TIMES];

// ---- settings

const REWARDS = [[1, 0, 0, 0], [1, 1, 0, 1]], LENGTHS = [[4, 6, 3, 5], [2, 6, 5, 3]];
const scattered = (place, factor) => (((place[0] * GROUP + place[1]) * TIMES + place[2]) * factor % 48) / 47;
const hundredths = number => Math.round(100 * number) / 100;

// What has a control: of a completion, a prompt, a token or the whole. `asks` is the input of a graph that it serves.
const CONTROLS = {
  completion: [
    { name: "reward", label: "reward", min: -1, max: 2, step: 0.1, of: ([p, g]) => REWARDS[p][g] },
    { name: "length", label: "tokens", min: 1, max: TIMES, step: 1, of: ([p, g]) => LENGTHS[p][g] },
    { name: "shift", label: "log ρ, all", min: -2, max: 2, step: 0.05, of: () => 0 },
    { name: "second", label: "2nd reward", min: -1, max: 2, step: 0.1, of: ([p, g]) => (p + g) % 2, asks: "second_rewards" },
    { name: "other", label: "reward of π_ref", min: -1, max: 2, step: 0.1, of: ([, g]) => g === 2 ? 1 : 0, asks: "reference_rewards" },
    { name: "ref", label: "log π_ref/π_old", min: -2, max: 2, step: 0.05, of: () => 0, asks: "ref_log_probs" },
    { name: "sampler", label: "log π_smp/π_old", min: -2, max: 2, step: 0.05, of: () => 0, asks: "sampler_log_probs" },
    { name: "keep", label: "in the statistics", of: () => 1, check: true },
    { name: "finished", label: "has ended", of: ([p, g]) => LENGTHS[p][g] < TIMES ? 1 : 0, asks: "finished", check: true },
  ],
  prompt: [
    { name: "greedy", label: "greedy reward", min: -1, max: 2, step: 0.1, of: ([p]) => p, asks: "greedy_rewards" },
    { name: "value", label: "remembered value", min: -1, max: 2, step: 0.05, of: () => 0.5, asks: "prompt_values" },
    { name: "weight", label: "its weight", min: 0, max: 20, step: 0.5, of: () => 2, asks: "prompt_values" },
  ],
  token: [
    { name: "ratio", label: "log ρ of this token", min: -2, max: 2, step: 0.01, of: place => hundredths(0.9 * scattered(place, 29) - 0.45) },
    { name: "old", label: "log π_old", min: -6, max: 0, step: 0.01, of: place => hundredths(-0.3 - 2.2 * scattered(place, 37)) },
    { name: "uniform", label: "uniform drawn", min: 0, max: 1, step: 0.01, of: place => hundredths(scattered(place, 13)), asks: "uniforms" },
  ],
  norm: [
    { name: "average", label: "average of earlier rewards", min: -1, max: 2, step: 0.05, of: () => 0.5, asks: "reward_average" },
    { name: "number", label: "earlier rewards", min: 0, max: 64, step: 1, of: () => 8, asks: "reward_moments" },
    { name: "mean", label: "their mean", min: -1, max: 2, step: 0.05, of: () => 0.25, asks: "reward_moments" },
    { name: "squares", label: "their Σ (r − mean)²", min: 0, max: 32, step: 0.5, of: () => 1.5, asks: "reward_moments" },
    { name: "smallest", label: "the smallest", min: -1, max: 2, step: 0.1, of: () => 0, asks: "reward_moments" },
    { name: "largest", label: "the largest", min: -1, max: 2, step: 0.1, of: () => 1, asks: "reward_moments" },
    { name: "first", label: "V before token 1", min: -1, max: 2, step: 0.05, of: () => 0.4, asks: "values" },
    { name: "last", label: "V after the last", min: -1, max: 2, step: 0.05, of: () => 0.7, asks: "values" },
  ],
  clip: [
    { name: "bound", label: "log_ratio_bound", min: 0.1, max: 20, step: 0.1, of: () => 20, asks: "log_ratio_bound" },
    { name: "progress", label: "share of the run that is done", min: 0, max: 1, step: 0.01, of: () => 0.5, asks: "progress" },
  ],
  agg: [],
};

let changed = {};
const at = (name, place) => [name, ...place].join(".");
const setting = (control, place = []) => changed[at(control.name, place)] ?? control.of(place);
const chosen = name => changed[name] ?? FIRST[name];
const choiceOf = axis => LIBRARY.axes[axis][chosen(axis)];
const hyperparameter = (axis, control) => changed[`${axis}.${control.name}`] ?? control.default;

function change(key, value, initial) {
  if (value === initial) delete changed[key]; else changed[key] = value;
}

function remember() {
  const address = new URLSearchParams(Object.entries(changed)).toString();
  history.replaceState(null, "", address ? `#${address}` : location.pathname + location.search);
}

// Read the address; what it says that cannot be is not taken.
function recall() {
  changed = {};
  const said = new URLSearchParams(location.hash.slice(1));
  for (const axis in AXES) if (Object.hasOwn(LIBRARY.axes[axis], said.get(axis))) changed[axis] = said.get(axis);
  if (Object.hasOwn(SHOWN, said.get("show"))) changed.show = said.get("show");
  const places = { completion: [PROMPTS, GROUP], prompt: [PROMPTS], token: TOKEN, norm: [], clip: [], agg: [] };
  for (const [of, sizes] of Object.entries(places))
    for (const control of CONTROLS[of])
      each(sizes, place => take(said, at(control.name, place), control.check ? { min: 0, max: 1 } : control));
  each(TOKEN, place => { if (said.get("token") === place.join(".")) changed.token = said.get("token"); });
  for (const axis in AXES)
    for (const control of choiceOf(axis).controls) {
      const key = `${axis}.${control.name}`, option = control.options?.find(one => String(one) === said.get(key));
      if (option !== undefined) changed[key] = option;
      else if (!control.options) take(said, key, control.log ? { min: 10 ** control.min, max: 10 ** control.max } : control);
    }
}

function take(said, key, { min, max }) {
  const number = said.has(key) && said.get(key) !== "" ? Number(said.get(key)) : NaN;
  if (number >= min && number <= max) changed[key] = number;
}

function each(sizes, visit, place = []) {
  if (place.length === sizes.length) return visit(place);
  for (let i = 0; i < sizes[place.length]; i++) each(sizes, visit, [...place, i]);
}

// ---- numbers

function made(sizes, f) {
  const data = [];
  each(sizes, place => data.push(f(place)));
  return tensor(sizes, data);
}

const named = (of, name) => CONTROLS[of].find(control => control.name === name);
const ofCompletion = name => made(COMPLETION, place => setting(named("completion", name), place));

// All inputs of the graphs that are no results of others.
function inputs() {
  const get = (of, name, place) => setting(named(of, name), place);
  const length = ([p, g]) => get("completion", "length", [p, g]);
  const old = place => get("token", "old", place);
  const shifted = name => made(TOKEN, place => Math.min(0, old(place) + get("completion", name, place.slice(0, 2))));
  const first = get("norm", "first"), last = get("norm", "last");
  return {
    rewards: ofCompletion("reward"),
    second_rewards: ofCompletion("second"),
    reference_rewards: ofCompletion("other"),
    correct: made(COMPLETION, place => get("completion", "reward", place) > 0.5 ? 1 : 0),
    keep: ofCompletion("keep"),
    finished: ofCompletion("finished"),
    greedy_rewards: made([PROMPTS, 1], ([p]) => get("prompt", "greedy", [p])),
    mask: made(TOKEN, place => place[2] < length(place) ? 1 : 0),
    values: made([PROMPTS, GROUP, TIMES + 1], place => first + (last - first) * Math.min(place[2] / length(place), 1)),
    old_log_probs: made(TOKEN, old),
    log_probs: made(TOKEN, place => Math.min(0, old(place) + get("completion", "shift", place.slice(0, 2)) + get("token", "ratio", place))),
    ref_log_probs: shifted("ref"),
    sampler_log_probs: shifted("sampler"),
    sum_pi_squared: made(TOKEN, place => Math.exp(old(place)) ** 2 + (1 - Math.exp(old(place))) ** 2 / 9),
    uniforms: made(TOKEN, place => get("token", "uniform", place)),
    log_ratio_bound: get("clip", "bound"),
    progress: get("clip", "progress"),
    reward_average: get("norm", "average"),
    reward_moments: tensor([5], ["number", "mean", "squares", "smallest", "largest"].map(name => get("norm", name))),
    prompt_values: made([PROMPTS, 2], ([p, i]) => get("prompt", i ? "weight" : "value", [p])),
  };
}

function graphOf(axis, choice, values) {
  return LIBRARY.graphs[[`${axis}.${choice.function}`, ...choice.fixed.map(name => `${name}=${values[name]}`)].join(" ")];
}

// The hyperparameters of a choice: those of the sliders if it is the one that is chosen, else the defaults.
function valuesOf(axis, name) {
  const choice = LIBRARY.axes[axis][name], now = name === chosen(axis);
  return Object.fromEntries(choice.controls.map(control => [control.name, now ? hyperparameter(axis, control) : control.default]));
}

function step(axis, name, given) {
  const values = valuesOf(axis, name);
  return evaluate(graphOf(axis, LIBRARY.axes[axis][name], values), { ...given, ...values });
}

// Rewards to one loss, and its gradient in log π of each token: advantages, losses, loss, ∂loss/∂losses, ∂loss/∂log π.
function computed(names, given) {
  const zeros = filled(TOKEN, 0);
  const [advantages] = step("norm", names.norm, given);
  const [losses] = step("clip", names.clip, { ...given, advantages, upstream: zeros });
  const inMask = OPERATIONS.where(given.mask, losses, 0);
  const [loss, weights] = step("agg", names.agg, { ...given, losses: inMask });
  const [, gradient] = step("clip", names.clip, { ...given, advantages, upstream: weights });
  return { advantages, losses: inMask, loss: loss.data[0], weights, gradient };
}

const names = () => Object.fromEntries(Object.keys(AXES).map(axis => [axis, chosen(axis)]));

// What cells can show, of token number i.
const SHOWN = {
  push: { label: "push −∂L/∂log π", legend: "The push on log π: minus the gradient of the loss. Green raises the token's probability, orange lowers it. 0: no gradient, as for a token beyond its bound.", of: (now, i) => -now.gradient.data[i] },
  advantage: { label: "advantage A", legend: "The advantage of the token, as the norm gives it.", of: (now, i) => now.advantages.data[i] },
  ratio: { label: "ratio ρ", legend: "ρ = π / π_old of the token; green is above 1.", of: (now, i) => Math.exp(now.given.log_probs.data[i] - now.given.old_log_probs.data[i]), middle: 1 },
  loss: { label: "loss ℓ of the token", legend: "The loss of the token, before aggregation.", of: (now, i) => now.losses.data[i] },
  weight: { label: "weight ∂L/∂ℓ", legend: "What one unit of the token's loss adds to the whole loss: the weight that the aggregation gives it.", of: (now, i) => now.weights.data[i] },
};

// ---- the page

const $ = id => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  for (const name in properties) if (name.startsWith("aria-")) made.setAttribute(name, properties[name]);
  made.append(...children);
  return made;
}

function written(number) {
  if (!Number.isFinite(number)) return String(number).replace("-", "−").replace("Infinity", "∞");
  if (Math.abs(number) < 1e-12) return "0";
  const size = Math.abs(number), text = size >= 1e4 || size < 1e-3 ? number.toExponential(1).replace(".0e", "e") : String(Number(number.toPrecision(3)));
  return text.replaceAll("-", "−");
}

let controls = 0;

// A slider, a list or a box of a setting, with its label and, for a slider, its number.
function field(control, key, initial, spoken) {
  const value = changed[key] ?? initial, id = `control-${controls++}`, output = element("output", { htmlFor: id });
  const set = number => { change(key, number, initial); refresh(); };
  let input;
  if (control.options) {
    input = element("select", { id }, ...control.options.map(each => element("option", { value: each, textContent: each, selected: each === value })));
    input.onchange = () => set(control.options[input.selectedIndex]);
  } else if (control.check) {
    input = element("input", { id, type: "checkbox", checked: Boolean(value) });
    input.onchange = () => set(+input.checked);
  } else {
    const from = number => control.log ? Math.log10(number) : number, to = number => control.log ? Number((10 ** number).toPrecision(2)) : number;
    input = element("input", { id, type: "range", min: control.min, max: control.max, step: control.step, value: from(value) });
    const say = number => { output.textContent = written(number); input.setAttribute("aria-valuetext", written(number)); };
    input.oninput = () => { const number = to(input.valueAsNumber); set(number); say(number); };
    say(value);
  }
  input.dataset.key = key;
  if (spoken) input.setAttribute("aria-label", `${control.label ?? control.name}, ${spoken}`);
  const label = element("label", { htmlFor: id, textContent: control.label ?? control.name });
  return element("div", { className: control.check ? "field check" : "field" }, label, input, output);
}

const asked = () => new Set(Object.keys(AXES).flatMap(axis => graphOf(axis, choiceOf(axis), valuesOf(axis, chosen(axis))).inputs));

function fields(of, place, spoken) {
  const needed = asked();
  return CONTROLS[of].filter(control => !control.asks || needed.has(control.asks))
    .map(control => field(control, at(control.name, place), control.of(place), spoken));
}

// The lists stay as long as the page does: a list that is made anew forgets what was typed into it.
function buildLists() {
  for (const [axis, title] of Object.entries(AXES)) {
    const select = element("select", { id: `choose-${axis}` },
      ...Object.keys(LIBRARY.axes[axis]).map(name => element("option", { value: name, textContent: name })));
    select.onchange = () => choose(axis, select.value);
    const head = element("h2", {}, element("label", { htmlFor: select.id, textContent: title }));
    $("choices").append(element("div", { className: "choice" }, head, select, element("div", { id: `about-${axis}` })));
  }
}

function buildChoices() {
  for (const axis in AXES) {
    const one = choiceOf(axis), note = text => element("p", { className: "note", textContent: text });
    $(`choose-${axis}`).value = chosen(axis);
    $(`about-${axis}`).replaceChildren(element("p", { className: "formula", textContent: one.text }),
      ...(one.about ? [note(one.about)] : []), ...(one.source ? [note(`Source: ${one.source}.`)] : []),
      ...one.controls.map(control => field(control, `${axis}.${control.name}`, control.default, axis)),
      ...fields(axis, [], axis));
  }
}

function choose(axis, name) {
  for (const key in changed) if (key.startsWith(`${axis}.`)) delete changed[key];
  change(axis, name, FIRST[axis]);
  build();
}

const letter = p => "AB"[p];

function buildPrompts() {
  $("prompts").replaceChildren(...Array.from({ length: PROMPTS }, (_, p) =>
    element("section", { className: "prompt", "aria-label": `Prompt ${letter(p)}` },
      element("h3", { textContent: `Prompt ${letter(p)}` }), ...fields("prompt", [p], `prompt ${letter(p)}`),
      ...Array.from({ length: GROUP }, (_, g) => completion(p, g)))));
}

function completion(p, g) {
  const name = `${letter(p)}${g + 1}`;
  const cells = Array.from({ length: TIMES }, (_, t) => {
    const cell = element("button", { type: "button", className: "cell", id: `cell-${p}-${g}-${t}` });
    cell.onclick = () => { change("token", [p, g, t].join("."), FIRST.token); buildToken(); refresh(); };
    return cell;
  });
  return element("article", { "aria-label": `Completion ${name}` },
    element("h4", {}, name, element("span", { className: "note", id: `sum-${p}-${g}` })),
    element("div", { className: "fields" }, ...fields("completion", [p, g], name)),
    element("div", { className: "cells" }, ...cells));
}

function buildToken() {
  const place = chosen("token").split(".").map(Number), name = `${letter(place[0])}${place[1] + 1}`;
  $("token").replaceChildren(
    element("h2", { textContent: `Token ${place[2] + 1} of ${name}` }),
    element("div", { className: "columns" },
      element("div", {}, ...fields("token", place, `token ${place[2] + 1} of ${name}`), element("dl", { id: "numbers" })),
      element("figure", { id: "curve" })));
}

const OF_NORMS = "The advantage of the first token of each completion. Hyperparameters are the defaults, but for the choice above.";
const OF_OTHERS = "The push summed over the tokens of each completion, with the other two steps as they are chosen above. Hyperparameters are the defaults, but for the choice above.";

function buildTables() {
  for (const axis in AXES) {
    const box = element("details", { id: `all-${axis}` }, element("summary", {
      textContent: `${AXES[axis]}: all ${Object.keys(LIBRARY.axes[axis]).length}` }),
      element("p", { className: "note", textContent: axis === "norm" ? OF_NORMS : OF_OTHERS }),
      element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Table: ${AXES[axis]}` }));
    box.ontoggle = () => { if (box.open) fillTable(axis, current()); };
    $("tables").append(box);
  }
}

function build() {
  buildChoices();
  buildPrompts();
  buildToken();
  $("show").value = chosen("show");
  refresh();
}

const current = () => { const given = inputs(); return { given, ...computed(names(), given) }; };

function refresh() {
  const now = current();
  remember();
  showResult(now);
  showCells(now);
  showToken(now);
  for (const axis in AXES) if ($(`all-${axis}`).open) fillTable(axis, now);
}

function counted(now) {
  const places = [...now.given.mask.data.keys()].filter(i => now.given.mask.data[i]);
  return { places, still: places.filter(i => now.gradient.data[i] === 0) };
}

function showResult(now) {
  const { places, still } = counted(now);
  $("result").replaceChildren(
    element("strong", { id: "loss", textContent: `loss ${written(now.loss)}` }),
    element("span", { id: "idle", textContent: `${still.length} of ${places.length} tokens have no gradient` }));
}

function colour(number, largest) {
  if (!number || !Number.isFinite(number)) return "";
  const share = Math.round(10 + 50 * Math.abs(number) / largest);
  return `color-mix(in srgb, var(${number > 0 ? "--up" : "--down"}) ${share}%, var(--paper))`;
}

function showCells(now) {
  const shown = SHOWN[chosen("show")], { places } = counted(now), middle = shown.middle ?? 0;
  const largest = Math.max(...places.map(i => Math.abs(shown.of(now, i) - middle)).filter(Number.isFinite), 1e-300);
  $("legend").textContent = shown.legend;
  let i = 0;
  each(TOKEN, ([p, g, t]) => {
    const cell = $(`cell-${p}-${g}-${t}`), inside = now.given.mask.data[i], number = shown.of(now, i);
    cell.textContent = inside ? written(number) : "–";
    cell.disabled = !inside;
    cell.style.background = inside ? colour(number - middle, largest) : "";
    cell.setAttribute("aria-pressed", [p, g, t].join(".") === chosen("token"));
    cell.setAttribute("aria-label", inside ? `token ${t + 1}: ${shown.label} ${written(number)}` : `token ${t + 1}: beyond the end`);
    i++;
  });
  each(COMPLETION, ([p, g]) => {
    const first = (p * GROUP + g) * TIMES, own = places.filter(j => Math.floor(j / TIMES) === p * GROUP + g);
    const same = own.every(j => now.advantages.data[j] === now.advantages.data[first]);
    const push = own.reduce((sum, j) => sum - now.gradient.data[j], 0);
    $(`sum-${p}-${g}`).textContent = ` A ${same ? "" : "of token 1 "}= ${written(now.advantages.data[first])}, Σ push = ${written(push)}`;
  });
}

function showToken(now) {
  const [p, g, t] = chosen("token").split(".").map(Number), i = (p * GROUP + g) * TIMES + t, inside = now.given.mask.data[i];
  const rows = [["π_old", Math.exp(now.given.old_log_probs.data[i])], ["π", Math.exp(now.given.log_probs.data[i])],
    ...Object.values(SHOWN).map(shown => [shown.label, shown.of(now, i)])];
  const said = inside ? rows.flatMap(([name, number]) => [element("dt", { textContent: name }), element("dd", { textContent: written(number) })])
    : [element("dt", { textContent: "beyond the end of the completion" }), element("dd")];
  $("numbers").replaceChildren(...said);
  $("curve").replaceChildren(...(inside ? curve(now, i) : []));
}

// The push on the selected token as its ratio alone changes.
function curve(now, i) {
  const W = 480, H = 220, left = 52, bottom = 34, most = 1.5, points = [];
  for (let k = -40; k <= 40; k++) {
    const data = [...now.given.log_probs.data], logRatio = k / 40 * most;
    data[i] = now.given.old_log_probs.data[i] + logRatio;
    if (data[i] > 0) break;
    const push = -computed(names(), { ...now.given, log_probs: tensor(TOKEN, data) }).gradient.data[i];
    if (Number.isFinite(push)) points.push([logRatio, push]);
  }
  const here = [now.given.log_probs.data[i] - now.given.old_log_probs.data[i], -now.gradient.data[i]];
  const heights = [...points, here].map(([, push]) => push).filter(Number.isFinite), low = Math.min(0, ...heights), high = Math.max(0, ...heights);
  const x = number => left + (number + most) / (2 * most) * (W - left - 12), y = number => 12 + (high - number) / (high - low || 1) * (H - bottom - 12);
  const line = (x1, y1, x2, y2, name) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" class="${name}"/>`;
  const text = (x, y, words, anchor) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;
  const ticks = [0.25, 0.5, 1, 2, 4].map(ratio => line(x(Math.log(ratio)), 12, x(Math.log(ratio)), H - bottom, "grid") + text(x(Math.log(ratio)), H - 18, ratio, "middle"));
  const levels = [...new Set([low, 0, high])].map(level => line(left, y(level), W - 12, y(level), level ? "grid" : "axis") + text(left - 5, y(level) + 4, written(level), "end"));
  const path = points.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const dot = Math.abs(here[0]) <= most && Number.isFinite(here[1]) ? `<circle cx="${x(here[0])}" cy="${y(here[1])}" r="5"/>` : "";
  const box = element("div");
  box.innerHTML = `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="Push on this token against its ratio">${ticks.join("")}${levels.join("")}<path d="${path}"/>${dot}${text(x(0), H - 2, "ratio ρ of this token", "middle")}</svg>`;
  return [element("figcaption", { textContent: "Push on this token if only its ratio changes, up to π = 1" }), box];
}

// One row a choice, one column a completion: advantages of a norm, or the summed push with another loss or aggregation.
function fillTable(axis, now) {
  const rows = Object.keys(LIBRARY.axes[axis]).map(name => {
    const result = axis === "norm" ? { advantages: step("norm", name, now.given)[0] } : computed({ ...names(), [axis]: name }, now.given);
    const cells = [];
    each(COMPLETION, ([p, g]) => {
      const first = (p * GROUP + g) * TIMES, own = Array.from({ length: TIMES }, (_, t) => first + t).filter(i => now.given.mask.data[i]);
      cells.push(axis === "norm" ? result.advantages.data[first] : own.reduce((sum, i) => sum - result.gradient.data[i], 0));
    });
    return { name, cells, loss: result.loss };
  });
  const heads = ["choice", ...Array.from({ length: PROMPTS * GROUP }, (_, i) => `${letter(Math.floor(i / GROUP))}${i % GROUP + 1}`), ...(axis === "norm" ? [] : ["loss"])];
  const body = rows.map(({ name, cells, loss }) => {
    const pick = element("button", { type: "button", textContent: name, "aria-pressed": name === chosen(axis) });
    pick.onclick = () => { choose(axis, name); $(`choose-${axis}`).focus(); };
    const largest = Math.max(...cells.map(Math.abs).filter(Number.isFinite), 1e-300);
    const numbers = cells.map(number => {
      const cell = element("td", { textContent: written(number) });
      cell.style.background = colour(number, largest);
      return cell;
    });
    return element("tr", {}, element("th", { scope: "row" }, pick), ...numbers, ...(axis === "norm" ? [] : [element("td", { textContent: written(loss) })]));
  });
  const table = element("table", { "aria-label": AXES[axis] },
    element("thead", {}, element("tr", {}, ...heads.map(text => element("th", { scope: "col", textContent: text })))), element("tbody", {}, ...body));
  document.querySelector(`#all-${axis} .scroll`).replaceChildren(table);
}

function start() {
  $("show").append(...Object.entries(SHOWN).map(([name, shown]) => element("option", { value: name, textContent: shown.label })));
  $("show").onchange = () => { change("show", $("show").value, FIRST.show); refresh(); };
  $("reset").onclick = () => { changed = {}; build(); };
  const missing = Object.entries(LIBRARY.left_out);
  $("left-out").hidden = !missing.length;
  $("left-out").textContent = `Not here: ${missing.map(([name, why]) => `${name} (${why})`).join("; ")}.`;
  buildLists();
  buildTables();
  recall();
  build();
}

addEventListener("hashchange", () => { recall(); build(); });
start();
