// The lag of the last minutes as a small line; a break where nobody looked.
import { html } from "/vendor/preact.js";
import { number } from "/lib/ui.js";

const WIDTH = 320, HEIGHT = 64, PAUSE_MS = 20000;

export function LagLine({ line }) {
  if (line.length < 2) return html`<p class="quiet">A line of the last minutes begins with the second look.</p>`;
  const first = line[0][0], span = Math.max(line.at(-1)[0] - first, 1);
  const most = Math.max(...line.map(([, lag]) => lag));
  const place = ([at, lag]) => `${(((at - first) / span) * WIDTH).toFixed(1)} ${(HEIGHT - 2 - (lag / Math.max(most, 1)) * (HEIGHT - 6)).toFixed(1)}`;
  const path = line.map((each, n) => (n && each[0] - line[n - 1][0] < PAUSE_MS ? "L" : "M") + place(each)).join("");
  const minutes = Math.max(1, Math.round(span / 60000));
  const said = `${number(line[0][1])} to ${number(line.at(-1)[1])} posts waiting over the last ${minutes === 1 ? "minute" : `${minutes} minutes`}, ${number(most)} at most`;
  return html`<svg class="lag" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${said} preserveAspectRatio="none"><path d=${path} /></svg>
    <p class="quiet">${said}.</p>`;
}
