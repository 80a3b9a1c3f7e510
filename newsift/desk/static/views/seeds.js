// Seeds: the articles that posts are compared with, by event; those that are refused stand on top.
import { html, useEffect, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Do, Out, Refused, Waiting, eventPage, number, plural } from "/lib/ui.js";
import { Add, dropped } from "/views/seeds/add.js";
import { Feeds } from "/views/seeds/feeds.js";
import { One } from "/views/seeds/one.js";
import { Confirm } from "/lib/confirm.js";
import { Ends, State, pause, remove, seedPage, threshold, undo } from "/views/seeds/parts.js";

const PAGE = 100, MOST = 1000; // seeds that are shown at once

export default function Seeds({ rest, session }) {
  const [where = "", id = ""] = rest;
  useEffect(() => (session.read_only ? undefined : takingFiles()), [session.read_only]);
  return html`<div class="seeds">
    ${where === "add" && !session.read_only ? html`<${Add} />`
    : where === "feeds" ? html`<${Feeds} session=${session} />`
    : where === "seed" ? html`<${One} key=${id} id=${id} session=${session} />`
    : html`<${List} session=${session} />`}
  </div>`;
}

// Take the files that are dropped anywhere on the page, so that the browser opens none of them.
function takingFiles() {
  const over = (event) => event.dataTransfer.types.includes("Files") && event.preventDefault();
  const drop = (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    dropped([...event.dataTransfer.files]);
    location.hash = "#/seeds/add";
  };
  addEventListener("dragover", over);
  addEventListener("drop", drop);
  return () => {
    removeEventListener("dragover", over);
    removeEventListener("drop", drop);
  };
}

function List({ session }) {
  const [search, find] = useState("");
  const [most, more] = useState(PAGE);
  const [answer, error] = useAnswer("/api/seeds", { search, most }, ["seeds"]);
  const [last, keep] = useState(null);
  if (answer && answer !== last) keep(answer);
  const shown = answer ?? last;
  const [doomed, doom] = useState(null);
  const acts = session.read_only ? null : doom;
  return html`<div class="row head"><h1>Seeds</h1>
      ${!session.read_only && html`<a class="button main" href="#/seeds/add">Add an article</a>`}
      <a class="button" href="#/seeds/feeds">Feeds</a>
      <input type="search" class="search" aria-label="Search seeds" placeholder="Search id, title, event, address" value=${search} onInput=${(event) => find(event.target.value)} maxlength="200" />
    </div>
    <${Refused} error=${error} />
    ${!shown ? !error && html`<${Waiting} />` : html`<${Around} answer=${shown} session=${session} acts=${acts} />
      <${Groups} answer=${shown} acts=${acts} />
      ${shown.found > shown.rows.length && html`<p>${most < MOST && html`<${Do} run=${() => more(most + PAGE)}>Show more<//> `}<span class="quiet">${number(shown.rows.length)} of ${number(shown.found)} are shown; search for the others</span></p>`}`}
    ${doomed && html`<${Confirm} kind="bad" title=${`Remove the seed ${doomed.id}? Posts are no longer compared with it.`} yes="Remove it" run=${() => remove(doomed)} close=${() => doom(null)} />`}`;
}

// What stands above the list: what is away, what can be undone, what is refused.
function Around({ answer, session, acts }) {
  const { removed, refused, states } = answer;
  const told = Object.entries(states).map(([state, n]) => `${number(n)} ${state}`).join(", ");
  const hidden = (states.refused ?? 0) + (states.stale ?? 0) - refused.length;
  return html`${answer.away && html`<p class="refused" role="status">The seeds are not up to date: ${answer.away}</p>`}
    ${answer.left_out > 0 && html`<p class="refused">${plural(answer.left_out, "record")} had no room here.</p>`}
    ${removed && !session.read_only && html`<p class="card row" role="status"><span class="said">${removed.id} was removed by ${removed.by}.</span> <${Do} run=${() => undo(removed)}>Undo<//></p>`}
    ${refused.length > 0 && html`<section aria-label="Refused" class="card warn"><h2>Refused or stale: ${plural(refused.length + hidden, "record")}</h2>
      <ul class="plain">${refused.map((row) => html`<li key=${row.id} class="row"><${State} row=${row} /> <a class="said" href=${seedPage(row.id)}>${row.id || "(no id)"}</a> <span class="said">${row.reason}</span>${acts && row.mark && html`<${Do} kind="small" run=${() => acts(row)}>Remove<//>`}</li>`)}</ul>
      ${hidden > 0 && html`<p class="quiet">and ${number(hidden)} more</p>`}</section>`}
    <p class="quiet">${answer.total ? `${plural(answer.total, "seed")}: ${told}.` : "No seeds yet: posts are compared with nothing."}
      ${answer.total > 0 && answer.common === null && ` An automatic threshold is the score that 1 in ${number(answer.one_in)} everyday posts reaches.`} ${answer.model}</p>`;
}

function Groups({ answer, acts }) {
  const groups = new Map();
  const above = new Set(answer.refused.map((row) => row.id));
  for (const row of answer.rows.filter((each) => !above.has(each.id))) {
    const name = row.event ?? "";
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups].map(([name, rows]) => html`<section key=${name}>
    <h2>${name ? html`<a class="said" href=${eventPage(name)}>${name}</a>` : "Refused"}</h2>
    <ul class="plain">${rows.map((row) => html`<${Row} key=${row.id} row=${row} common=${answer.common} acts=${acts} />`)}</ul>
  </section>`);
}

function Row({ row, common, acts }) {
  const name = row.is_profile ? `Profile of ${row.event}` : row.title || row.id;
  const href = row.is_profile && row.event ? eventPage(row.event, "learned") : seedPage(row.id);
  return html`<li class="card seed">
    <div class="what"><a class="said" href=${href}>${name}</a> <${State} row=${row} />
      <div class="quiet"><span class="said">${row.id}</span>${row.url && html` · <${Out} href=${row.url}><span class="said">${row.url}</span><//>`}</div>
      ${row.reason && html`<div class="said bad">${row.reason}</div>`}</div>
    <dl><div><dt>Threshold</dt><dd>${threshold(row, common)}</dd></div>
      <div><dt>Ends</dt><dd><${Ends} at=${row.expires_at} /></dd></div></dl>
    ${acts && !row.is_profile && html`<div class="row acts">
      ${row.state !== "refused" && html`<${Do} run=${() => pause(row)} aria-label=${`${row.state === "paused" ? "Resume" : "Pause"} ${row.id}`}>${row.state === "paused" ? "Resume" : "Pause"}<//>`}
      <${Do} run=${() => acts(row)} aria-label=${`Remove ${row.id}`}>Remove<//></div>`}
  </li>`;
}
