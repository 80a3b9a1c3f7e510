// All events: their thresholds, matches of the last day, and refused seeds.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { ErrorText, eventAddress, lastPage, LoadingText, LoadStatus, number } from "/lib/ui.js";
import { paragraph, percent, plural, rate, scores, Time } from "/lib/ui.js";

const REFRESH_MS = 2000;
const PAGE = 50;
const WIDTH = 144;
const HEIGHT = 36;
const PARTS = ["events", "seeds", "matches"];
const STATES = {
  live: ["active", "good"],
  paused: ["paused", ""],
  expired: ["expired", ""],
  refused: ["refused", "bad"],
  none: ["no active seed", ""],
};

export default function Events({ session }) {
  const [text, setText] = useState("");
  const [skip, setSkip] = useState(0);
  const [answer, error] = useAnswer("/api/events", { text, skip }, PARTS, REFRESH_MS);
  const last = useRef();
  const isLong = useRef(false);
  const isBeyond = skip > 0 && answer && skip >= answer.total; // There are fewer by now.
  useEffect(() => void (isBeyond && setSkip(lastPage(answer.total, PAGE))), [isBeyond]);
  if (answer) last.current = answer;
  const data = last.current;
  if (!data) return html`<h1>Events</h1><${LoadStatus} error=${error} />`;
  isLong.current ||= data.total > PAGE; // The search stays while its result is short.
  const search = (event) => {
    setSkip(0);
    setText(event.target.value);
  };
  const row = (each) => html`<${Event} key=${each.event} row=${each} model=${data.model}
    isFile=${session.is_file} />`;
  const find = html`<p><label>Find an event <input type="search" value=${text} maxlength="100"
    onInput=${search} /></label></p>`;
  const pages = html`<div class="row">
    <button type="button" disabled=${!skip} onClick=${() => setSkip(skip - PAGE)}>Before</button>
    <button type="button" disabled=${skip + PAGE >= data.total}
      onClick=${() => setSkip(skip + PAGE)}>After</button>
    <span class="quiet">${plural(data.total, "event")}</span></div>`;
  const ofStream = html`Matches are counted since <${Time} at=${data.since} />
    ${data.ready ? "." : "; they are still being read."}`;
  const ofFile = html`The posts of the file are from <${Time} at=${data.since} /> to${" "}
    <${Time} at=${data.until} />.`;
  const since = !session.is_file ? ofStream : data.until && ofFile;
  return html`<h1>Events</h1>
    <${ErrorText} error=${error} />
    ${paragraph("refused", data.error && `Not up to date: ${data.error}`)}
    ${isLong.current && find}
    <ul class="plain events">${data.events.map(row)}</ul>
    ${!data.total && html`<${Empty} data=${data} text=${text} />`}
    ${(skip > 0 || data.total > skip + PAGE) && pages}
    <${RefusedSeeds} data=${data} />
    ${data.events.length > 0 && paragraph("quiet", since)}`;
}

function Empty({ data, text }) {
  if (text) return paragraph("card", `No event has “${text}” in its name.`);
  if (!data.ready) return data.error ? null : html`<${LoadingText} what="Reading the topics" />`;
  return html`<div class="card"><h2>No event yet</h2>
    <p>An event begins with a seed: an article about it. Posts about the same are its matches,
      which appear here as they arrive.</p>
    <p><a href="#/seeds">Add the first seed</a></p></div>`;
}

function Event({ row, model, isFile }) {
  const [state, kind] = STATES[row.state];
  const { profile, promise, hourly } = row;
  const words = { replaced: "in the profile" };
  const seeds = Object.entries(row.seeds).map(
    ([name, n]) => `${plural(n, "seed")} ${words[name] ?? name}`,
  );
  const learned = html`<span class=${`badge ${profile?.state === "in force" ? "good" : "bad"}`}
    title=${profile?.why}>profile ${profile?.state}</span>`;
  const pace = () => html`<span>about <strong>${rate(hourly.rate)}</strong> an hour
    ${` ${hourly.window}`}</span>`;
  return html`<li class="card event">
    <div class="row"><h2><a href=${eventAddress(row.event)}><bdi>${row.event}</bdi></a></h2>
      <span class=${`badge ${kind}`}>${state}</span>${profile && learned}
      <${Promise} promise=${promise} /></div>
    <div class="row numbers"><${Hours} row=${row} isFile=${isFile} />
      ${!isFile && html`<span><strong>${number(row.posts.at(-1))}</strong> this hour</span>`}
      ${hourly && pace()}
      <span>${plural(row.all_posts, "match", "matches")} and${" "}
        ${plural(row.all_stories, "story", "stories")} in ${isFile ? "the file" : "24 h"}</span>
      ${row.last && html`<span class="quiet">last <${Time} at=${row.last} /></span>`}</div>
    <p class="quiet"><${Threshold} row=${row} model=${model} /> · ${seeds.join(", ") || "no seed"}
      </p>
    ${paragraph("quiet", profile?.why && `The profile is ${profile.state}: ${profile.why}`)}
    ${paragraph("quiet", promise?.lapsed && `The promise has lapsed: ${promise.lapsed}`)}</li>`;
}

function Promise({ promise }) {
  if (!promise) return html`<span class="badge">nothing proven</span>`;
  const { precision, confidence, lapsed } = promise;
  return html`<span class=${`badge ${lapsed ? "bad" : "good"}`}>
    promise ${lapsed ? "lapsed" : "holds"}: ${percent(precision)} on the event,${" "}
    ${percent(confidence)} sure</span>`;
}

function Threshold({ row, model }) {
  const { thresholds } = row; // rising
  const ends = scores([thresholds[0], thresholds.at(-1)]);
  if (thresholds.length) return `threshold${thresholds.length > 1 ? "s" : ""} ${ends}`;
  if (row.state !== "live") return "no threshold";
  return model ? html`<span title=${model}>threshold automatic</span>` : "threshold unknown";
}

// Matches by hour of the last day, the last bar being the present hour; or of all days of a file.
function Hours({ row: { posts: hours, hours_each: each, event }, isFile }) {
  if (!hours.length) return null; // No post of the file has a time.
  const most = Math.max(...hours, 1);
  const step = WIDTH / hours.length;
  const spans = `${plural(hours.length, "step")} of ${plural(each, "hour")}`;
  const time = isFile ? `the file, in ${spans}` : `the last ${hours.length} hours`;
  const label =
    `${event}: matches over ${time}, ${number(Math.max(...hours))} at most, ` +
    `${number(hours.at(-1))} in the last`;
  const bar = (n, at) => {
    const height = n ? Math.max(2, (n / most) * (HEIGHT - 1)) : 1;
    return html`<rect class=${n ? "" : "none"} x=${at * step} y=${HEIGHT - height}
      width=${step - 1} height=${height} />`;
  };
  return html`<svg class="hours" width=${WIDTH} height=${HEIGHT} role="img" aria-label=${label}
    viewBox=${`0 0 ${WIDTH} ${HEIGHT}`}>${hours.map(bar)}</svg>`;
}

function RefusedSeeds({ data }) {
  if (!data.refused.length) return null;
  const row = (each) => html`<li class="refused"><bdi>${each.id}</bdi>: ${each.reason}</li>`;
  return html`<h2>Refused seeds</h2><ul class="plain">${data.refused.map(row)}</ul>
    <p>${data.more_refused > 0 && `and ${number(data.more_refused)} more; `}
      <a href="#/seeds">see the seeds</a></p>`;
}
