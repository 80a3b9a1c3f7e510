// The histogram of an event's scores; the threshold is a handle that is dragged or moved by keys.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { number } from "/lib/ui.js";
import { inRange, inWords, snap } from "/pages/event/reading.js";

const HEIGHT = 300;
const TOP = 26;
const LEFT = 62;
const RIGHT = 14;
const FOOT = 74;
const FLOOR = HEIGHT - FOOT;
const COUNTS = [1, 10, 100, 1000, 10000, 100000, 1000000];
const LABEL_ROWS = { on: 26, off: 36, unsure: 46 };
const STEPS = {
  ArrowLeft: -0.005,
  ArrowDown: -0.005,
  ArrowRight: 0.005,
  ArrowUp: 0.005,
  PageDown: -0.05,
  PageUp: 0.05,
  Home: -9,
  End: 9,
};

// The figure is drawn at the width of its box, so that its text keeps its size.
export function useWidth() {
  const box = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const update = ([entry]) => setWidth(Math.floor(entry.contentRect.width));
    const observer = new ResizeObserver(update);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

function scalesOf({ edges, bins }, width) {
  const most = Math.max(10, ...Object.values(bins).flat());
  const end = edges.at(-1);
  const room = width - LEFT - RIGHT;
  return {
    most,
    end,
    x: (score) => LEFT + (Math.min(Math.max(score, 0), end) / end) * room,
    y: (count) => FLOOR - (Math.log10(1 + count) / Math.log10(1 + most)) * (FLOOR - TOP),
    score: (x) => ((x - LEFT) / room) * end,
  };
}

function Bars({ data, scales, name, inset }) {
  const bar = (count, n) => {
    if (count <= 0) return null;
    const left = scales.x(data.edges[n]);
    const space = scales.x(data.edges[n + 1]) - left;
    const top = scales.y(count);
    return html`<rect x=${left + inset * space} y=${top} height=${FLOOR - top}
      width=${Math.max(space - 2 * inset * space, 1)} />`;
  };
  return html`<g class=${`bins ${name}`}>${data.bins[name].map(bar)}</g>`;
}

function Axes({ scales, width }) {
  const step = scales.end > 0.4 && width < 480 ? 0.2 : scales.end > 0.25 ? 0.1 : 0.05;
  const length = Math.floor(scales.end / step + 0.01) + 1;
  const scores = Array.from({ length }, (_, n) => n * step);
  const right = width - RIGHT;
  const level = (count) => {
    const y = scales.y(count);
    return html`<line class="grid" x1=${LEFT} x2=${right} y1=${y} y2=${y} />
      <text x=${LEFT - 6} y=${y + 4} text-anchor="end">${number(count)}</text>`;
  };
  const tick = (score) =>
    html`<text x=${scales.x(score)} y=${FLOOR + 16} text-anchor="middle">${score.toFixed(2)}
      </text>`;
  return html`<g class="axis" aria-hidden="true">
    ${COUNTS.filter((count) => count <= scales.most).map(level)}
    <line x1=${LEFT} x2=${right} y1=${FLOOR} y2=${FLOOR} />
    ${scores.map(tick)}
    <text x=${(LEFT + right) / 2} y=${HEIGHT - 6} text-anchor="middle">score</text>
    <text transform="rotate(-90)" x=${-(TOP + FLOOR) / 2} y="14" text-anchor="middle">posts
      (log scale)</text>
  </g>`;
}

function Mark({ x, y, label }) {
  if (label === "off") return html`<path class="off" d=${`M${x - 3} ${y - 3}l6 6m0 -6l-6 6`} />`;
  return html`<circle class=${label} cx=${x} cy=${y} r="3.1" />`;
}

function Unknown({ data, scales }) {
  const floor = data.floor ?? data.thresholds[1];
  if (floor <= 0) return null;
  const width = scales.x(floor) - LEFT;
  return html`<rect class="unknown" x=${LEFT} y=${TOP} width=${width} height=${FLOOR - TOP} />`;
}

function Handle({ data, scales, at, move }) {
  const x = scales.x(at);
  const press = (event) => {
    const step = STEPS[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(inRange(at + step));
  };
  return html`<g class="handle" role="slider" tabindex="0" aria-label="Threshold"
    aria-orientation="horizontal" onKeyDown=${press} aria-valuemin="0" aria-valuemax="1"
    aria-valuenow=${snap(at).toFixed(3)} aria-valuetext=${inWords(data, at)}>
    <rect class="grasp" x=${x - 16} y="0" width="32" height=${FLOOR + 4} />
    <line x1=${x} x2=${x} y1=${TOP - 8} y2=${FLOOR + 4} />
    <path d=${`M${x - 8} 2h16v12l-8 8l-8 -8z`} />
  </g>`;
}

// The handle follows the pointer until it is released, also outside the figure.
function dragHandlers(scales, move) {
  const moveTo = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    move(inRange(Math.min(scales.score(event.clientX - box.left), scales.end)));
  };
  return {
    onPointerDown: (event) => {
      if (event.button !== 0) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      event.currentTarget.querySelector(".handle").focus();
      event.preventDefault();
      moveTo(event);
    },
    onPointerMove: (event) =>
      event.currentTarget.hasPointerCapture(event.pointerId) && moveTo(event),
  };
}

export function Histogram({ data, at, move }) {
  const [box, width] = useWidth();
  const scales = scalesOf(data, width);
  const [low, high] = data.thresholds.map(scales.x);
  const dot = ([score, label]) =>
    html`<${Mark} x=${scales.x(score)} y=${FLOOR + LABEL_ROWS[label]} label=${label} />`;
  const bars = ([name, inset]) =>
    html`<${Bars} data=${data} scales=${scales} name=${name} inset=${inset} />`;
  const between = html`<rect class="now" x=${low} y=${TOP} width=${high - low}
    height=${FLOOR - TOP} />`;
  if (!width) return html`<div ref=${box} class="figure"></div>`;
  return html`<div ref=${box} class="figure">
    <svg width=${width} height=${HEIGHT} ...${dragHandlers(scales, move)}>
    <defs><pattern id="hatched" width="5" height="5" patternUnits="userSpaceOnUse"
      patternTransform="rotate(45)"><line class="hatch" x1="1" x2="1" y1="0" y2="5" />
    </pattern></defs>
    <${Unknown} data=${data} scales=${scales} />
    <${Axes} scales=${scales} width=${width} />
    ${Object.entries({ background: 0, near: 0.1, matches: 0.22 }).map(bars)}
    <g class="verdict" aria-hidden="true">${data.labelled_scores.map(dot)}</g>
    <line class="now" x1=${low} x2=${low} y1=${TOP} y2=${FLOOR} />
    ${high > low && between}
    <${Handle} data=${data} scales=${scales} at=${at} move=${move} />
  </svg></div>`;
}

const BINS = {
  background: "everyday posts, to compare with",
  matches: "matches",
  near: "near misses",
};
const LABELS = { on: "labelled on", off: "off", unsure: "unsure" };

export function Legend() {
  const bin = ([name, text]) =>
    html`<span><svg width="14" height="14" aria-hidden="true"><g class=${`bins ${name}`}>
      <rect x="1" y="1" width="12" height="12" /></g></svg> ${text}</span>`;
  const label = ([name, text]) =>
    html`<span><svg width="12" height="12" aria-hidden="true"><g class="verdict">
      <${Mark} x=${6} y=${6} label=${name} /></g></svg> ${text}</span>`;
  return html`<p class="quiet legend">
    ${Object.entries(BINS).map(bin)}
    ${Object.entries(LABELS).map(label)}
    <span>grey area: not known</span>
  </p>`;
}
