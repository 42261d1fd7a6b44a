// The page: filters, a table that shows a page of the rows at a time, and the details of the row that was chosen.
// Filters and the chosen row are in the address, so that a link shows the same.
"use strict";

const PER_PAGE = 50;
const SIZES = [["up to 1,000 weights", 0, 1e3], ["1,000 to 10,000", 1e3, 1e4], ["10,000 to 100,000", 1e4, 1e5], ["100,000 to 1 million", 1e5, 1e6], ["over 1 million", 1e6, Infinity]];
const NO_VERDICT = "no verdict of its own";
const TONES = {
  for: ["reproduced", "supported", "helps", "helps a little"],
  against: ["reversed", "contradicted", "hurts", "hurts a little", "not reproduced"],
  equal: ["practically equal", "no material effect", "smaller than claimed"],
};

const $ = id => document.getElementById(id);
const named = (names, values) => Object.fromEntries(names.map((name, i) => [name, values[i]]));

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  for (const name in properties) if (name.startsWith("aria-") || name === "role") made.setAttribute(name, properties[name]);
  made.append(...children.filter(each => each !== null && each !== undefined));
  return made;
}

// ---- rows

let NAMES, STUDIES, ROWS, BY_KEY;

// The page has a line a study, compressed, after one with the names of columns.
async function read() {
  [NAMES, ...STUDIES] = await Promise.all($("stored").textContent.trim().split("\n").map(unpacked));
  ROWS = STUDIES.flatMap(study => (study.rows ?? []).map((values, place) => rowOf(study, place, named(NAMES.row, values))));
  BY_KEY = new Map(ROWS.map(row => [row.key, row]));
}

function unpacked(line) {
  const bytes = Uint8Array.from(atob(line), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function rowOf(study, place, row) {
  Object.assign(row, {
    key: `${study.name}.${place}`, from: study,
    words: [study.name, study.question, study.source, row.arm, row.versus, row.condition, row.metric, row.expected, row.verdict, row.role].join(" ").toLowerCase(),
    axes: [...new Set(row.tricks.map(trick => trick.split("=")[0].split(".")[0]))],
  });
  row.facets = Object.fromEntries(Object.entries(FACETS).map(([name, facet]) => [name, facet.of(row)]));
  return row;
}

const sizeOf = weights => SIZES.find(([, low, high]) => weights > low && weights <= high)[0];
const known = word => word || NO_VERDICT;

// What each list filters by: the values that a row has.
const FACETS = {
  trick: { label: "trick", any: "any trick", of: row => [...row.axes.map(axis => `${axis}=*`), ...row.tricks] },
  task: { label: "task", any: "any task", of: row => row.tasks },
  size: { label: "size", any: "any size", of: row => [...new Set(row.weights.map(sizeOf))] },
  start: { label: "start", any: "any start", of: row => row.starts },
  verdict: { label: "verdict", any: "any verdict", of: row => [known(row.verdict)] },
  kind: { label: "from", any: "any study", of: row => [row.from.kind] },
  role: { label: "asked as", any: "anything", of: row => [row.role] },
};

const SORTS = {
  study: row => row.from.name,
  effect: row => row.effect,
  n: row => row.n,
  p: row => row.p,
  verdict: row => known(row.verdict),
};

const COLUMNS = [["comparison", "study"], ["where", ""], ["metric", ""], ["effect [interval]", "effect"], ["n", "n"], ["p", "p"], ["verdict", "verdict"]];

// ---- what is chosen

let chosen = {}, filtered = [], page = 0, current = 0, open = null;

function recall() {
  const said = new URLSearchParams(location.hash.slice(1));
  chosen = {};
  if (said.get("q")) chosen.q = said.get("q");
  for (const name in FACETS) if (ROWS.some(row => row.facets[name].includes(said.get(name)))) chosen[name] = said.get(name);
  const [column, down] = (said.get("sort") ?? "").split(" ");
  if (Object.hasOwn(SORTS, column)) chosen.sort = down ? `${column} down` : column;
  open = BY_KEY.get(said.get("open")) ?? null;
}

function remember() {
  const said = new URLSearchParams({ ...chosen, ...(open ? { open: open.key } : {}) }).toString();
  history.replaceState(null, "", said ? `#${said}` : location.pathname + location.search);
}

function fits(row, except) {
  if (chosen.q && !chosen.q.toLowerCase().split(/\s+/).every(word => row.words.includes(word))) return false;
  for (const name in FACETS) if (name !== except && chosen[name] && !row.facets[name].includes(chosen[name])) return false;
  return true;
}

function ordered(rows) {
  if (!chosen.sort) return rows;
  const [column, down] = chosen.sort.split(" "), of = SORTS[column], sign = down ? -1 : 1;
  const missing = value => value === null || value === undefined;
  return [...rows].sort((a, b) => {
    const [one, other] = [of(a), of(b)];
    if (missing(one) || missing(other)) return missing(one) - missing(other);
    return sign * (one < other ? -1 : one > other ? 1 : 0);
  });
}

function filter() {
  filtered = ordered(ROWS.filter(row => fits(row)));
  const place = open ? filtered.indexOf(open) : -1;
  current = Math.max(place, 0);
  page = Math.floor(current / PER_PAGE);
  fillLists();
  show();
}

// ---- lists

function buildLists() {
  for (const [name, facet] of Object.entries(FACETS)) {
    const select = element("select", { id: `choose-${name}` });
    select.onchange = () => { choose(name, select.value); };
    $("selects").append(element("label", {}, element("span", { textContent: facet.label }), select));
  }
}

function choose(name, value) {
  if (value) chosen[name] = value; else delete chosen[name];
  remember();
  filter();
}

const inOrder = { size: SIZES.map(([name]) => name) };

// The options of each list, with how many rows the other filters leave for each.
function fillLists() {
  for (const [name, facet] of Object.entries(FACETS)) {
    const left = new Map();
    for (const row of ROWS) if (fits(row, name)) for (const value of row.facets[name]) left.set(value, (left.get(value) ?? 0) + 1);
    if (chosen[name] && !left.has(chosen[name])) left.set(chosen[name], 0);
    const values = [...left.keys()].sort((a, b) => inOrder[name] ? inOrder[name].indexOf(a) - inOrder[name].indexOf(b) : a.localeCompare(b, "en", { numeric: true }));
    const option = value => element("option", { value, textContent: `${value.endsWith("=*") ? `any ${value.slice(0, -2)}` : value} (${left.get(value).toLocaleString("en")})` });
    const select = $(`choose-${name}`), first = element("option", { value: "", textContent: facet.any });
    if (name === "trick") {
      const groups = new Map();
      for (const value of values) {
        const axis = value.split("=")[0].split(".")[0];
        groups.set(axis, [...(groups.get(axis) ?? []), value]);
      }
      select.replaceChildren(first, ...[...groups].map(([label, own]) => element("optgroup", { label }, ...own.map(option))));
    } else select.replaceChildren(first, ...values.map(option));
    select.value = chosen[name] ?? "";
  }
  $("clear").disabled = !Object.keys(chosen).some(name => name !== "sort");
}

// ---- the table

function buildHead() {
  $("head").replaceChildren(...COLUMNS.map(([label, sort]) => {
    if (!sort) return element("th", { scope: "col", textContent: label });
    const button = element("button", { type: "button", textContent: label });
    button.onclick = () => {
      const [column, down] = (chosen.sort ?? "").split(" ");
      if (column !== sort) chosen.sort = sort; else if (!down) chosen.sort = `${sort} down`; else delete chosen.sort;
      remember();
      filter();
    };
    return element("th", { scope: "col", className: sort }, button);
  }));
}

function tone(verdict) {
  return Object.keys(TONES).find(name => TONES[name].includes(verdict)) ?? (verdict ? "open" : "none");
}

const badge = verdict => element("span", { className: `badge ${tone(verdict)}`, textContent: known(verdict) });
const few = (list, unit = "") => list.length > 2 ? `${list.length} ${unit}` : list.join(", ");

// The overrides of an arm, those that the other side does not have in bold.
function armText(name, tricks) {
  const parts = name.split(/(?<=[^,+]),|(?=\+[a-z_.]+=)/);
  return element("span", { className: "arm" }, ...parts.flatMap((part, i) => {
    const bare = part.replace(/^\+/, "").replace(/ at .*$/, ""), joint = i ? part.startsWith("+") ? " +\u200b" : ", " : "";
    const said = part.replace(/^\+/, "");
    return [joint, tricks.includes(bare) ? element("b", { textContent: said }) : said];
  }));
}

function effectText(row) {
  if (row.effect === null) return "–";
  const range = row.low === null || row.high === null ? "" : ` [${written(row.low, true)}, ${written(row.high, true)}]`;
  return `${written(row.effect, true)}${range}`;
}

const unitsText = row => row.units === "of the metric" ? "" : row.units;

function rowElement(row, place) {
  const world = [few(row.tasks, "tasks"), few(row.starts, "starts"), row.weights.length ? `${few(row.weights.map(weights => weights.toLocaleString("en")), "sizes")}\u00a0weights` : ""];
  const versus = row.versus ? [element("span", { className: "against", textContent: " against " }), armText(row.versus, row.tricks)] : [];
  const cell = (className, ...children) => element("td", { className, role: "gridcell" }, ...children);
  const made = element("tr", { id: `row-${place}`, tabIndex: place === current ? 0 : -1, role: "row", "aria-rowindex": place + 2, "aria-selected": row === open },
    cell("comparison", armText(row.arm, row.tricks), ...versus, element("span", { className: "note", textContent: row.from.name })),
    cell("where", row.condition ? element("span", { className: "fact condition", textContent: row.condition }) : null, element("span", { className: "fact", textContent: world.filter(Boolean).join(" · ") })),
    cell("metric", row.metric.replaceAll("/", "/\u200b")),
    cell("effect", element("span", { className: "number", textContent: effectText(row) }), intervalFigure(row), element("span", { className: "note", textContent: unitsText(row) })),
    cell("n", row.n === null ? "–" : String(row.n)),
    cell("p", row.p === null ? "–" : written(row.p)),
    cell("verdict", badge(row.verdict)));
  made.onclick = () => { current = place; chooseRow(row); };
  made.onfocus = () => { if (current !== place) { $(`row-${current}`)?.setAttribute("tabindex", "-1"); current = place; made.tabIndex = 0; } };
  return made;
}

function show() {
  const from = page * PER_PAGE, rows = filtered.slice(from, from + PER_PAGE);
  if (current < from || current >= from + PER_PAGE) current = from;
  $("rows").replaceChildren(...rows.map((row, i) => rowElement(row, from + i)));
  $("list").querySelector("table").setAttribute("aria-rowcount", filtered.length + 1);
  $("nothing").hidden = filtered.length > 0;
  $("count").textContent = filtered.length === ROWS.length ? `${ROWS.length.toLocaleString("en")} comparisons of ${STUDIES.length} studies`
    : `${filtered.length.toLocaleString("en")} of ${ROWS.length.toLocaleString("en")} comparisons`;
  $("shown").textContent = rows.length ? `${(from + 1).toLocaleString("en")} to ${(from + rows.length).toLocaleString("en")}` : "";
  $("before").disabled = page === 0;
  $("after").disabled = from + PER_PAGE >= filtered.length;
  const [column, down] = (chosen.sort ?? "").split(" ");
  for (const head of $("head").children) {
    if (column && head.classList.contains(column)) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function turn(by) {
  page = Math.min(Math.max(page + by, 0), Math.max(Math.ceil(filtered.length / PER_PAGE) - 1, 0));
  current = page * PER_PAGE;
  show();
}

// Move the focus to a row, on another page if it is there.
function go(place) {
  if (!filtered.length) return;
  const wanted = Math.min(Math.max(place, 0), filtered.length - 1);
  if (Math.floor(wanted / PER_PAGE) !== page) { page = Math.floor(wanted / PER_PAGE); current = wanted; show(); }
  $(`row-${wanted}`).focus();
}

const MOVES = { ArrowDown: 1, ArrowUp: -1, PageDown: PER_PAGE, PageUp: -PER_PAGE, Home: -Infinity, End: Infinity };

function onRowKey(event) {
  if (Object.hasOwn(MOVES, event.key)) {
    event.preventDefault();
    go(MOVES[event.key] === Infinity ? filtered.length - 1 : MOVES[event.key] === -Infinity ? 0 : current + MOVES[event.key]);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    chooseRow(filtered[current]);
  }
}

// ---- details

function chooseRow(row, focus = true) {
  open = row;
  remember();
  show();
  details();
  if (focus) { $("detail").focus({ preventScroll: true }); $("detail").scrollTop = 0; }
}

function close() {
  if (!open) return;
  open = null;
  remember();
  details();
  show();
  $(`row-${current}`)?.focus();
}

const runsOf = study => study.runs ? (study.read ??= study.runs.map(values => named(NAMES.run, values))) : [];

function conditionsOf(row) {
  const study = row.from, all = new Set([...runsOf(study).map(run => run.condition), ...(study.levels ?? []).map(level => level[0])]);
  return row.condition || all.has("") ? [row.condition] : [...all];
}

function figureWidth() {
  const style = getComputedStyle($("detail"));
  return Math.max(240, Math.min($("detail").clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight), 680));
}

function section(title, ...children) {
  const kept = children.filter(Boolean);
  return kept.length ? element("section", {}, element("h3", { textContent: title }), ...kept) : null;
}

const captioned = (figure, said) => figure && element("figure", {}, said ? element("figcaption", { textContent: said }) : null, figure);
const inCondition = condition => condition || "";

function seedsSection(row, width) {
  const study = row.from, scored = runsOf(study).filter(run => run.best && run.score !== null);
  const metrics = new Set(scored.map(run => run.metric)), metric = metrics.has(row.metric) ? row.metric : [...metrics][0];
  const figures = conditionsOf(row).map(condition => {
    const own = scored.filter(run => run.condition === condition && run.metric === metric);
    const rows = armsInOrder(own.map(run => run.arm), row.arm, row.versus).map(arm => ({ arm, seeds: own.filter(run => run.arm === arm).map(run => [run.seed, run.score]) }));
    return captioned(rowsFigure(width, rows, row.arm, row.versus, `${metric} of each seed ${condition}`), inCondition(condition));
  });
  return section(`Seeds: ${metric}`, ...figures);
}

function levelsSection(row, width) {
  const figures = conditionsOf(row).map(condition => {
    const own = (row.from.levels ?? []).filter(level => level[0] === condition && level[3] !== null).map(([, arm, , iqm, low, high]) => ({ arm, level: [iqm, low ?? iqm, high ?? iqm] }));
    const order = armsInOrder(own.map(each => each.arm), row.arm, row.versus);
    return captioned(rowsFigure(width, order.map(arm => own.find(each => each.arm === arm)), row.arm, row.versus, `levels of ${row.from.metric} ${condition}`), inCondition(condition));
  });
  return section(`Levels: interquartile mean of ${row.from.metric} [95 %]`, ...figures);
}

function curvesSection(row, width) {
  const curves = row.from.curves;
  if (!curves) return null;
  return section(`Learning curves: ${curves.metric}`, ...conditionsOf(row).map(condition => captioned(curvesFigure(width, curves, condition, row.arm, row.versus, `${curves.metric} over completions ${condition}`), inCondition(condition))));
}

function ratesSection(row, width) {
  const study = row.from;
  if (!study.tuned) return null;
  const figures = conditionsOf(row).map(condition => {
    const metric = runsOf(study)[0]?.metric;  // by the first one values are chosen
    const own = runsOf(study).filter(run => run.metric === metric && run.condition === condition && run.score !== null && run.value !== null);
    if (new Set(own.map(run => run.value)).size < 2) return null;
    return captioned(ratesFigure(width, own, study.tuned, row.arm, row.versus, `scores over ${study.tuned} ${condition}`), inCondition(condition));
  });
  return section(`Scores over ${study.tuned}: a ring is where an arm is judged`, ...figures);
}

function othersSection(row) {
  const others = ROWS.filter(each => each.from === row.from);
  if (others.length < 2) return null;
  const list = element("ul", { className: "others" }, ...others.map(each => {
    const said = [each.arm, each.versus ? `against ${each.versus}` : "", each.condition, each.metric].filter(Boolean).join(" · ");
    const button = element("button", { type: "button", "aria-current": each === row ? "true" : "false" }, element("span", { textContent: said }), element("span", { className: "number", textContent: effectText(each) }), badge(each.verdict));
    button.onclick = () => { const place = filtered.indexOf(each); if (place >= 0) { current = place; page = Math.floor(place / PER_PAGE); } chooseRow(each); };
    return element("li", {}, button);
  }));
  const all = element("details", { open: others.length <= 8 }, element("summary", { textContent: `${others.length} comparisons` }), list);
  return section("Of the same study", all);
}

function copyable(said) {
  const button = element("button", { type: "button", textContent: "Copy" });
  button.onclick = async () => {
    try { await navigator.clipboard.writeText(said); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(button.previousSibling); button.textContent = "Selected"; }
  };
  return element("div", { className: "command" }, element("pre", {}, element("code", { textContent: said })), button);
}

function settingsSection(study) {
  const pairs = Object.entries(study.config ?? {});
  const list = element("dl", { className: "settings" }, ...pairs.flatMap(([key, value]) => [element("dt", { textContent: key }), element("dd", { textContent: value })]));
  const facts = [study.trained && `${study.trained.toLocaleString("en")} runs`, study.commit && `commit ${study.commit.split(", ").map(each => each.slice(0, 8)).join(", ")}`, study.machine].filter(Boolean).join(" · ");
  return section("Train it again", copyable(study.command), facts ? element("p", { className: "note", textContent: facts }) : null,
    pairs.length ? element("details", {}, element("summary", { textContent: `Settings that differ from the default run (${pairs.length})` }), list) : null);
}

function legend(row) {
  const key = (role, said) => element("span", { className: `key ${role}`, textContent: said });
  return element("p", { className: "legend" }, key("arm", row.arm), row.versus ? key("versus", row.versus) : null, key("other", "other arms"));
}

function details() {
  const panel = $("detail");
  document.body.classList.toggle("open", Boolean(open));
  panel.hidden = !open;
  if (!open) return panel.replaceChildren();
  const row = open, study = row.from, width = figureWidth();
  const button = element("button", { type: "button", id: "close", textContent: "Close", "aria-keyshortcuts": "Escape" });
  button.onclick = close;
  const where = [row.condition, row.tasks.length && `task ${row.tasks.join(", ")}`, row.starts.length && `start ${row.starts.join(", ")}`,
    row.weights.length && `${row.weights.map(each => each.toLocaleString("en")).join(", ")} weights`].filter(Boolean).join(" · ");
  const numbers = [row.effect !== null && `${effectText(row)}${unitsText(row) ? ` (${unitsText(row)})` : ""}`, row.n !== null && `n = ${row.n}`, row.p !== null && `p = ${written(row.p)}`,
    row.smallest !== null && `smallest that counts: ${written(row.smallest)}`].filter(Boolean).join(" · ");
  panel.replaceChildren(...[
    element("div", { className: "bar top" }, element("span", { className: "note", textContent: `${study.name} · ${study.kind} · ${row.role}` }), button),
    element("h2", {}, armText(row.arm, row.tricks), row.versus ? element("span", { className: "against", textContent: " against " }) : null, row.versus ? armText(row.versus, row.tricks) : null),
    element("p", { className: "numbers" }, badge(row.verdict), element("span", { textContent: ` ${row.metric}: ${numbers || "–"}` })),
    element("div", { className: "wide-interval" }, intervalFigure(row, width, 22)),
    element("p", { className: "note", textContent: where }),
    row.expected ? element("p", {}, element("b", { textContent: "Asked: " }), row.expected) : null,
    row.said ? element("p", {}, element("b", { textContent: "Note: " }), row.said) : null,
    study.question ? element("p", {}, element("b", { textContent: "Study: " }), study.question) : null,
    study.source ? element("p", { className: "note", textContent: `Source: ${study.source}` }) : null,
    element("p", { className: "note", textContent: `Told in docs/${study.page}` }),
    legend(row), seedsSection(row, width), levelsSection(row, width), curvesSection(row, width), ratesSection(row, width), settingsSection(study), othersSection(row),
  ].filter(Boolean));
}

// ---- beginning

function begin() {
  recall();
  $("q").value = chosen.q ?? "";
  filter();
  details();
  remember();
  if (open) $(`row-${current}`)?.scrollIntoView({ block: "nearest" });
}

async function start() {
  await read();
  buildLists();
  buildHead();
  $("q").oninput = () => choose("q", $("q").value.trim());
  $("clear").onclick = () => { chosen = chosen.sort ? { sort: chosen.sort } : {}; $("q").value = ""; remember(); filter(); $("q").focus(); };
  $("before").onclick = () => turn(-1);
  $("after").onclick = () => turn(1);
  $("rows").onkeydown = onRowKey;
  document.onkeydown = event => {
    if (event.key === "Escape" && open) { event.preventDefault(); close(); }
    if (event.key === "/" && !["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) { event.preventDefault(); $("q").focus(); }
  };
  let width = innerWidth;
  window.onresize = () => { if (innerWidth !== width) { width = innerWidth; details(); } };
  window.onhashchange = begin;
  begin();
}

start().catch(error => { $("count").textContent = `The page cannot be shown: ${error.message}`; throw error; });
