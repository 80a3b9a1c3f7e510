// The histogram of an event's scores, with its threshold as a handle to drag or to move by keys.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { number } from "/lib/ui.js";
import { inWords, snapped, within } from "/views/event/scores/reading.js";

const HEIGHT = 300, TOP = 26, LEFT = 46, RIGHT = 14, FOOT = 74;
const KEYS = { ArrowLeft: -0.005, ArrowDown: -0.005, ArrowRight: 0.005, ArrowUp: 0.005, PageDown: -0.05, PageUp: 0.05, Home: -9, End: 9 };

// How wide there is room for: the figure is drawn for it, so that its words keep their size.
function useWidth() {
  const box = useRef();
  const [width, set] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

function scales(told, width) {
  const { edges, bins } = told;
  const most = Math.max(10, ...Object.values(bins).flat());
  const end = edges[edges.length - 1];
  const floor = HEIGHT - FOOT;
  return {
    floor, most, end,
    x: (score) => LEFT + (Math.max(score, 0) / end) * (width - LEFT - RIGHT),
    y: (count) => floor - (Math.log10(1 + count) / Math.log10(1 + most)) * (floor - TOP),
    score: (x) => ((x - LEFT) / (width - LEFT - RIGHT)) * end,
  };
}

function Bars({ told, to, name, inset }) {
  return html`<g class=${`bins ${name}`}>${told.bins[name].map((count, n) => {
    if (count <= 0) return null;
    const [left, right, top] = [to.x(told.edges[n]), to.x(told.edges[n + 1]), to.y(count)];
    const gap = inset * (right - left);
    return html`<rect x=${left + gap} y=${top} width=${Math.max(right - left - 2 * gap, 1)} height=${to.floor - top} />`;
  })}</g>`;
}

function Axes({ to, width }) {
  const step = to.end > 0.4 && width < 480 ? 0.2 : to.end > 0.25 ? 0.1 : 0.05;
  const scores = Array.from({ length: Math.floor(to.end / step + 0.01) + 1 }, (_, n) => n * step);
  const counts = [1, 10, 100, 1000, 10000, 100000, 1000000].filter((count) => count <= to.most);
  return html`<g class="axis" aria-hidden="true">
    ${counts.map((count) => html`<line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${to.y(count)} y2=${to.y(count)} /><text x=${LEFT - 6} y=${to.y(count) + 4} text-anchor="end">${number(count)}</text>`)}
    <line x1=${LEFT} x2=${width - RIGHT} y1=${to.floor} y2=${to.floor} />
    ${scores.map((score) => html`<text x=${to.x(score)} y=${to.floor + 16} text-anchor="middle">${score.toFixed(2)}</text>`)}
    <text x=${width - RIGHT} y=${HEIGHT - 6} text-anchor="end">score</text>
    <text x="4" y=${HEIGHT - 6}>up: posts, log scale</text>
  </g>`;
}

const ROWS = { on: 30, off: 40, unsure: 50 };
function Marks({ told, to }) {
  const shape = (x, y, said) => {
    if (said === "on") return html`<circle class="on" cx=${x} cy=${y} r="3.2" />`;
    if (said === "off") return html`<path class="off" d=${`M${x - 3} ${y - 3}l6 6m0 -6l-6 6`} />`;
    return html`<circle class="unsure" cx=${x} cy=${y} r="3" />`;
  };
  return html`<g class="verdict" aria-hidden="true">${told.marks.map(([score, said]) => shape(to.x(score), to.floor + ROWS[said] - 4, said))}</g>`;
}

function Unknown({ told, to }) {
  const floor = told.floor ?? told.thresholds[1];
  return floor > 0 && html`<rect class="unknown" x=${LEFT} y=${TOP} width=${to.x(Math.min(floor, to.end)) - LEFT} height=${to.floor - TOP} />`;
}

function Handle({ told, to, at, move }) {
  const x = to.x(Math.min(at, to.end));
  const press = (event) => {
    const step = KEYS[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(within(at + step));
  };
  return html`<g class="handle" role="slider" tabindex="0" aria-label="Threshold" aria-orientation="horizontal" onKeyDown=${press}
    aria-valuemin="0" aria-valuemax="1" aria-valuenow=${snapped(at).toFixed(3)} aria-valuetext=${inWords(told, at)}>
    <rect class="grasp" x=${x - 16} y="0" width="32" height=${to.floor + 4} />
    <line x1=${x} x2=${x} y1=${TOP - 8} y2=${to.floor + 4} />
    <path d=${`M${x - 8} 2h16v12l-8 8l-8 -8z`} />
  </g>`;
}

// Follow a finger or a mouse until it lets go, wherever it wanders.
function dragging(to, move) {
  const put = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    move(within(Math.min(to.score(event.clientX - box.left), to.end)));
  };
  return {
    onPointerDown: (event) => {
      if (event.button !== 0) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      event.currentTarget.querySelector(".handle").focus();
      event.preventDefault();
      put(event);
    },
    onPointerMove: (event) => event.currentTarget.hasPointerCapture(event.pointerId) && put(event),
  };
}

export function Figure({ told, at, move }) {
  const [box, width] = useWidth();
  const to = scales(told, width);
  const [low, high] = told.thresholds;
  return html`<div ref=${box} class="figure">${width > 0 && html`<svg width=${width} height=${HEIGHT} ...${dragging(to, move)}>
    <defs><pattern id="nearly" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="1" x2="1" y1="0" y2="5" /></pattern></defs>
    <${Unknown} told=${told} to=${to} />
    <${Axes} to=${to} width=${width} />
    <${Bars} told=${told} to=${to} name="everyday" inset=${0} />
    <${Bars} told=${told} to=${to} name="near" inset=${0.1} />
    <${Bars} told=${told} to=${to} name="matches" inset=${0.22} />
    <${Marks} told=${told} to=${to} />
    <line class="now" x1=${to.x(low)} x2=${to.x(low)} y1=${TOP} y2=${to.floor} />
    ${high > low && html`<rect class="now" x=${to.x(low)} y=${TOP} width=${to.x(high) - to.x(low)} height=${to.floor - TOP} />`}
    <${Handle} told=${told} to=${to} at=${at} move=${move} />
  </svg>`}</div>`;
}

const SWATCHES = [
  ["everyday", "everyday posts, as many as ship with the model"],
  ["matches", "matches"],
  ["near", "near misses"],
];
export function Legend() {
  const mark = (kind) => html`<svg width="14" height="14" aria-hidden="true"><g class=${`bins ${kind}`}><rect x="1" y="1" width="12" height="12" /></g></svg>`;
  return html`<p class="quiet legend">
    ${SWATCHES.map(([kind, said]) => html`<span>${mark(kind)} ${said}</span>`)}
    <span><svg width="12" height="12" aria-hidden="true"><g class="verdict"><circle class="on" cx="6" cy="6" r="3.2" /></g></svg> labelled on</span>
    <span><svg width="12" height="12" aria-hidden="true"><g class="verdict"><path class="off" d="M3 3l6 6m0 -6l-6 6" /></g></svg> off</span>
    <span><svg width="12" height="12" aria-hidden="true"><g class="verdict"><circle class="unsure" cx="6" cy="6" r="3" /></g></svg> unsure</span>
    <span>grey ground: nobody knows what lies there</span>
  </p>`;
}
