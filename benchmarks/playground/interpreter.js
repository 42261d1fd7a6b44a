// Carries out the graphs that benchmarks/playground/graphs.py writes: PyTorch's operations on small arrays of float64.
// A tensor is {shape, data}; booleans are 0 and 1. No operation changes its arguments.
"use strict";

const size = shape => shape.reduce((product, each) => product * each, 1);
const tensor = (shape, data) => ({ shape, data });
const filled = (shape, number) => tensor(shape, Array(size(shape)).fill(number));
const asTensor = value => typeof value === "object" ? value : tensor([], [Number(value)]);  // Number("-Infinity") is -Infinity
const axis = (x, dim) => dim < 0 ? dim + x.shape.length : dim;

function broadcastShape(shapes) {
  const rank = Math.max(...shapes.map(each => each.length));
  return Array.from({ length: rank }, (_, i) => Math.max(...shapes.map(each => each[i - rank + each.length] ?? 1)));
}

function broadcast(x, shape) {
  if (x.data.length === 1) return filled(shape, x.data[0]);
  if (String(x.shape) === String(shape)) return x;
  const data = new Array(size(shape)), missing = shape.length - x.shape.length;
  for (let i = 0; i < data.length; i++) {
    let rest = i, place = 0, stride = 1;
    for (let d = shape.length - 1; d >= missing; d--) {
      const wide = x.shape[d - missing];
      place += wide === 1 ? 0 : (rest % shape[d]) * stride;
      stride *= wide;
      rest = Math.floor(rest / shape[d]);
    }
    data[i] = x.data[place];
  }
  return tensor(shape, data);
}

function elementwise(f) {
  return (...given) => {
    const tensors = given.map(asTensor), shape = broadcastShape(tensors.map(each => each.shape));
    const [a, b, c] = tensors.map(each => broadcast(each, shape).data);
    return tensor(shape, a.map((number, i) => f(number, b?.[i], c?.[i])));
  };
}

// Give f the numbers along one axis; it returns as many, or one, or any number of them: a row of the result.
function along(x, dim, f) {
  const d = axis(x, dim), length = x.shape[d], inner = size(x.shape.slice(d + 1)), outer = size(x.shape.slice(0, d));
  const rows = [];
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++)
      rows.push(f(Array.from({ length }, (_, k) => x.data[(o * length + k) * inner + i]), o * inner + i));
  const wide = rows[0].length, shape = x.shape.map((each, k) => k === d ? wide : each), data = new Array(size(shape));
  rows.forEach((row, r) => row.forEach((number, k) => {
    data[(Math.floor(r / inner) * wide + k) * inner + r % inner] = number;
  }));
  return tensor(shape, data);
}

const without = (x, dim) => tensor(x.shape.filter((_, i) => i !== dim), x.data);
const sorted = values => [...values].sort((a, b) => b - a);  // axes, the last first

function reduced(f) {
  return (x, dims, keepdim) => {
    const axes = sorted((dims === undefined ? x.shape.map((_, i) => i) : [dims].flat()).map(dim => axis(x, dim)));
    for (const dim of axes) x = along(x, dim, row => [f(row)]);
    return keepdim ? x : axes.reduce(without, x);
  };
}

const total = row => row.reduce((sum, each) => sum + each, 0);
const maximum = (a, b) => a > b || Number.isNaN(a) ? a : b;
const minimum = (a, b) => a < b || Number.isNaN(a) ? a : b;
const clamp = (x, low, high) => {
  const above = low === undefined || Number.isNaN(low) ? x : maximum(x, low);
  return high === undefined || Number.isNaN(high) ? above : minimum(above, high);
};
const running = f => row => row.map((_, i) => f(row.slice(0, i + 1)));

// Places of a row in the order of its numbers; of equal ones the first comes first.
function order(row, descending) {
  return row.map((_, i) => i).sort((a, b) => (descending ? row[b] - row[a] : row[a] - row[b]) || a - b);
}

const OPERATIONS = {
  constant: (shape, numbers) => tensor(shape, numbers.length === 1 ? filled(shape, Number(numbers[0])).data : numbers.map(Number)),
  add: elementwise((a, b) => a + b),
  sub: elementwise((a, b) => a - b),
  rsub: elementwise((a, b) => b - a),
  mul: elementwise((a, b) => a * b),
  div: elementwise((a, b) => a / b),
  pow: elementwise((a, b) => a ** b),
  neg: elementwise(a => -a),
  abs: elementwise(Math.abs),
  sgn: elementwise(Math.sign),
  exp: elementwise(Math.exp),
  log: elementwise(Math.log),
  sqrt: elementwise(Math.sqrt),
  tanh: elementwise(Math.tanh),
  floor: elementwise(Math.floor),
  ceil: elementwise(Math.ceil),
  reciprocal: elementwise(a => 1 / a),
  maximum: elementwise(maximum),
  minimum: elementwise(minimum),
  clamp: (x, low, high) => elementwise(clamp)(x, low ?? NaN, high ?? NaN),
  le: elementwise((a, b) => +(a <= b)),
  lt: elementwise((a, b) => +(a < b)),
  ge: elementwise((a, b) => +(a >= b)),
  gt: elementwise((a, b) => +(a > b)),
  eq: elementwise((a, b) => +(a === b)),
  ne: elementwise((a, b) => +(a !== b)),
  isnan: elementwise(a => +Number.isNaN(a)),
  bitwise_and: elementwise((a, b) => a & b),
  bitwise_or: elementwise((a, b) => a | b),
  bitwise_not: elementwise(a => 1 - a),
  where: elementwise((condition, a, b) => condition ? a : b),
  masked_fill: elementwise((a, mask, number) => mask ? number : a),
  to_bool: elementwise(a => +(a !== 0)),
  to_int: elementwise(Math.trunc),
  sum: reduced(total),
  mean: reduced(row => total(row) / row.length),
  amax: reduced(row => row.reduce(maximum)),
  any: reduced(row => +row.some(Boolean)),
  cumsum: (x, dim) => along(x, dim, running(total)),
  cummin: (x, dim) => [along(x, dim, running(row => row.reduce(minimum)))],  // no graph asks for the places
  flip: (x, dims) => dims.reduce((each, dim) => along(each, dim, row => row.reverse()), x),
  sort: (x, dim, descending) => [
    along(x, dim, row => order(row, descending).map(i => row[i])),
    along(x, dim, row => order(row, descending)),
  ],
  gather: (x, dim, index) => {
    const places = [];
    along(index, dim, row => (places.push(row), row));
    // rows of the index are those of x where all other axes have the same sizes, as they have in every graph
    return along(x, dim, (row, r) => places[r].map(i => row[i]));
  },
  slice: (x, dim = 0, start = 0, end = Infinity) => along(x, dim, row => row.slice(start ?? 0, Math.min(end, row.length))),
  select: (x, dim, i) => without(along(x, dim, row => [row.at(i)]), axis(x, dim)),
  select_backward: (x, shape, dim, i) => {
    const whole = filled(shape, 0), d = axis(whole, dim), wide = shape[d];
    const one = tensor(shape.map((each, k) => k === d ? 1 : each), x.data);
    return along(one, d, ([number]) => Array.from({ length: wide }, (_, k) => k === (i + wide) % wide ? number : 0));
  },
  unbind: (x, dim = 0) => Array.from({ length: x.shape[axis(x, dim)] }, (_, i) => OPERATIONS.select(x, dim, i)),
  item: (list, i) => list[i],
  stack: (dim, ...tensors) => {
    const d = dim < 0 ? dim + tensors[0].shape.length + 1 : dim;
    const parts = tensors.map(each => OPERATIONS.unsqueeze(each, d));
    let r = 0;
    return along(parts[0], d, () => (r++, parts.map(each => each.data[r - 1])));
  },
  constant_pad_nd: (x, [before, after], number = 0) =>
    along(x, -1, row => [...Array(Math.max(before, 0)).fill(number), ...row.slice(Math.max(-before, 0), after < 0 ? after : undefined),
      ...Array(Math.max(after, 0)).fill(number)]),
  unsqueeze: (x, dim) => {
    const d = dim < 0 ? dim + x.shape.length + 1 : dim;
    return tensor([...x.shape.slice(0, d), 1, ...x.shape.slice(d)], x.data);
  },
  squeeze: (x, dims) => sorted([dims].flat().map(dim => axis(x, dim))).filter(dim => x.shape[dim] === 1).reduce(without, x),
  expand: (x, shape) => {
    const missing = shape.length - x.shape.length;
    return broadcast(x, shape.map((each, i) => each === -1 ? x.shape[i - missing] : each));
  },
  view: (x, shape) => tensor(shape.map(each => each === -1 ? -x.data.length / size(shape) : each), x.data),
  transpose: (x, one, other) => {
    const a = axis(x, one), b = axis(x, other), swapped = list => list.map((each, i) => i === a ? list[b] : i === b ? list[a] : each);
    const strides = x.shape.map((_, i) => size(x.shape.slice(i + 1))), shape = swapped(x.shape), steps = swapped(strides);
    const data = Array.from({ length: x.data.length }, (_, i) => {
      let rest = i, place = 0;
      for (let d = shape.length - 1; d >= 0; d--) {
        place += (rest % shape[d]) * steps[d];
        rest = Math.floor(rest / shape[d]);
      }
      return x.data[place];
    });
    return tensor(shape, data);
  },
  _log_softmax: (x, dim) => along(x, dim, row => {
    const largest = row.reduce(maximum), log = Math.log(total(row.map(each => Math.exp(each - largest))));
    return row.map(each => each - largest - log);
  }),
  _log_softmax_backward_data: (upstream, output, dim) =>
    OPERATIONS.sub(upstream, OPERATIONS.mul(OPERATIONS.exp(output), OPERATIONS.sum(upstream, [dim], true))),
  tanh_backward: elementwise((upstream, output) => upstream * (1 - output * output)),
};

// Return the results of a graph of the tensors and numbers that are given by name.
function evaluate(graph, given) {
  const values = [];
  for (const [name, ...rest] of graph.steps) {
    if (name === "input") values.push(asTensor(given[rest[0][0]]));
    else values.push(OPERATIONS[name](...rest.map(each => Array.isArray(each) ? each[0] : values[each])));
  }
  return graph.outputs.map(place => values[place]);
}
