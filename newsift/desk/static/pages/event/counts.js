// Posts on the event by day or hour, as the labels of a draw correct the number of matches.
import { html, useRef, useState } from "/vendor/preact.js";
import { download, useAnswer, userName } from "/lib/api.js";
import { Button, eventAddress, LoadStatus, notify, number, paragraph, Select, Table } from "/lib/ui.js";
import { useWidth } from "/pages/event/histogram.js";

const REFRESH_MS = 10000;
const [HEIGHT, TOP, LEFT, RIGHT, FLOOR] = [240, 12, 62, 14, 202];
const TICK_PX = 96;
const STEPS = [["day", "day"], ["hour", "hour"]];
const HEADS = ["Period (UTC)", "#Matches", "#Near misses", "#On the event", "#From", "#To", "#Labels"];
const MAX_ROWS = 800;
const bounds = ({ count, low, high }) => `${number(Math.round(count))} (${high === null
  ? `at least ${number(Math.floor(low))}` : `${number(Math.floor(low))} to ${number(Math.ceil(high))}`})`;
const sentence = (line) => `${line[0].toUpperCase()}${line.slice(1)}.`;
const short = (period) => period.replace(/^\d+-/, "").replace("T", " ").replace("Z", "");

export function Counts({ event }) {
  const [step, setStep] = useState(undefined);
  const [answer, error] = useAnswer("/api/counts", { event, step }, ["labels"], REFRESH_MS);
  const last = useRef(); // It stays while other periods are asked for, so that nothing loses the focus.
  const data = (last.current = answer ?? last.current);
  const judge = html`<a href=${eventAddress(event, "judge")}>Judge</a>`;
  return html`<h2>Posts on the event, by time</h2>
    <${LoadStatus} answer=${data} error=${error} what="Counting" />
    ${data && !data.total && html`<p class="quiet">${data.loading
      ? "The posts are being matched." : html`A number of matches is not a number of posts on the event.
      Labels of posts that are drawn for a count, on the page ${judge}, correct it.`}</p>`}
    ${data?.total && html`<${Counted} data=${data} event=${event} setStep=${setStep} />`}`;
}

function Counted({ data, event, setStep }) {
  const { periods, total, confidence, has_times: hasTimes } = data;
  const rows = periods.slice(-MAX_ROWS).map((each) => [
    each.period, number(each.matches), number(each.near), number(Math.round(each.count)),
    number(Math.floor(each.low)), number(each.high && Math.ceil(each.high)), number(each.labels),
  ]);
  const save = () => download("/api/counts/frame", { event, step: data.step, by: userName() })
    .catch((failure) => notify(failure.message, true));
  const figure = html`<${Figure} periods=${periods} />
    <p class="quiet legend"><span><i class="key background"></i> matches</span>
      <span><i class="key interval"></i> posts on the event, ${total.high === null
        ? "at least" : `with the ${100 * confidence} % interval`}</span></p>`;
  return html`<p><b>${bounds(total)}</b> posts on the event, of ${number(total.matches)} matches and
      ${" "}${number(total.near)} near misses; ${number(total.labels)} of ${number(data.planned)} drawn
      posts are labelled.</p>
    ${data.warnings.map((line) => paragraph("refused", sentence(line)))}
    ${hasTimes ? figure : paragraph("quiet", periods.length > 0 &&
      "The posts have no time, so only all of them are counted.")}
    ${paragraph("quiet", data.notes.map(sentence).join(" "))}
    <div class="row"><${Select} label="By" options=${STEPS} value=${data.step} set=${setStep} />
      <${Button} run=${save}>Save the posts, for R or Python<//></div>
    <details><summary>As a table</summary>
      <${Table} name="Posts on the event as a table" heads=${HEADS} rows=${rows} /></details>`;
}

// At most five rules with round numbers.
function ticksOf(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [0.2, 0.5, 1, 2].map((part) => part * power).find((each) => most / each <= 5);
  const from = Math.max(1, Math.round(step));
  return Array.from({ length: Math.floor(most / from) + 1 }, (_, n) => n * from);
}

function Figure({ periods }) {
  const [box, width] = useWidth();
  if (!width) return html`<div ref=${box} class="figure still"></div>`;
  const most = Math.max(1, ...periods.map(({ matches, count, high }) => Math.max(matches, high ?? count)));
  const space = (width - LEFT - RIGHT) / periods.length;
  const x = (n) => LEFT + n * space;
  const y = (posts) => FLOOR - (posts / most) * (FLOOR - TOP);
  const bar = Math.max(space * 0.8, 1);
  const path = (shape) => periods.map((period, n) => shape(period, x(n) + (space - bar) / 2)).join("");
  const area = (left, low, high) => `M${left} ${y(low)}h${bar}V${y(high)}h${-bar}z`;
  const every = Math.ceil(TICK_PX / space);
  const level = (posts) => html`<line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(posts)} y2=${y(posts)} />
    <text x=${LEFT - 6} y=${y(posts) + 4} text-anchor="end">${number(posts)}</text>`;
  const tick = ({ period }, n) => n % every === 0 && (n === 0 || x(n) + TICK_PX / 2 < width) &&
    html`<text x=${x(n) + space / 2} y=${FLOOR + 16} text-anchor="middle">${short(period)}</text>`;
  return html`<div ref=${box} class="figure still"><svg width=${width} height=${HEIGHT} role="img"
    aria-label="Matches and posts on the event by period; the table has the numbers">
    <g class="axis">${ticksOf(most).map(level)}${periods.map(tick)}
      <text x=${(LEFT + width - RIGHT) / 2} y=${HEIGHT - 6} text-anchor="middle">UTC</text></g>
    <path class="bins background" d=${path(({ matches }, left) => area(left, 0, matches))} />
    <path class="interval" d=${path(({ low, high }, left) => (high === null ? "" : area(left, low, high)))} />
    <path class="estimate" d=${path(({ low, count, high }, left) =>
      `M${left} ${y(high === null ? low : count)}h${bar}`)} />
  </svg></div>`;
}
