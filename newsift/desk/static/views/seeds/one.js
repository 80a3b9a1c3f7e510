// One seed: its text with the words lit that carry it, and what may be set of it.
import { html, useEffect, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Do, Lit, Out, Refused, Time, Waiting, doing, eventPage, number, tell } from "/lib/ui.js";
import { Confirm } from "/lib/confirm.js";
import { Ends, Events, Field, State, pause, remove, scoreOf, threshold } from "/views/seeds/parts.js";

const FIRST = 4000; // letters that are shown at first

export function One({ id, session }) {
  const [row, error] = useAnswer("/api/seed", { id }, ["seeds"]);
  const [doomed, doom] = useState(false);
  const acts = row && !session.read_only && !row.is_profile;
  const gone = async () => (await remove(row)) && (location.hash = "#/seeds");
  return html`<p><a href="#/seeds">All seeds</a></p>
    <${Refused} error=${error} />
    ${!row ? !error && html`<${Waiting} />` : html`<h1 class="said">${row.title || row.id}</h1>
      <${Facts} row=${row} />
      ${acts && html`<div class="row acts">
        ${row.state !== "refused" && html`<${Do} run=${() => pause(row)}>${row.state === "paused" ? "Resume" : "Pause"}<//>`}
        <${Do} kind="bad" run=${() => doom(true)}>Remove<//></div>`}
      ${acts && row.state !== "refused" && html`<${Settings} row=${row} />`}
      <${Text} row=${row} />`}
    ${doomed && html`<${Confirm} kind="bad" title=${`Remove the seed ${row.id}? Posts are no longer compared with it.`} yes="Remove it" run=${gone} close=${() => doom(false)} />`}`;
}

function Facts({ row }) {
  const facts = [
    ["Id", html`<span class="said">${row.id}</span>`],
    ["State", html`<${State} row=${row} /> <span class="said">${row.reason}</span>`],
    row.event && ["Event", html`<a class="said" href=${eventPage(row.event)}>${row.event}</a>`],
    ["Threshold", threshold(row, row.common)],
    row.state !== "refused" && ["Ends", html`<${Ends} at=${row.expires_at} />`],
    row.url && ["Address", html`<${Out} href=${row.url}><span class="said">${row.url}</span><//>`],
    row.seed_version && ["Version", html`<code>${row.seed_version}</code>`],
    row.published_at && ["Published", html`<${Time} at=${row.published_at} />`],
  ].filter(Boolean);
  return html`<dl class="facts card">${facts.map(([name, told]) => html`<div><dt>${name}</dt><dd>${told}</dd></div>`)}</dl>`;
}

const fieldsOf = (row) => ({ event: row.event, title: row.title, threshold: row.threshold ?? "", expires_at: row.expires_at ?? "" });

// What may be set; where somebody else has changed the seed meanwhile that is said, and nothing is lost.
function Settings({ row }) {
  const [{ mark, fields }, set] = useState({ mark: row.mark, fields: fieldsOf(row) });
  const [listed] = useAnswer("/api/seeds", { most: 0 });
  const [seen, see] = useState(row);
  const was = fieldsOf(seen);
  const changed = Object.keys(fields).filter((name) => String(fields[name]) !== String(was[name]));
  useEffect(() => {
    if (row.mark !== mark && !changed.length) take();
  }, [row.mark, mark]);
  const take = () => {
    see(row);
    set({ mark: row.mark, fields: fieldsOf(row) });
  };
  const field = (name) => ({ value: fields[name], onInput: (event) => set({ mark, fields: { ...fields, [name]: event.target.value } }) });
  const save = async () => {
    const changes = Object.fromEntries(changed.map((name) => [name, sent(name, fields[name])]));
    if (typeof changes.threshold === "string") return tell("threshold: give a score above 0, at most 1, or nothing for automatic", true);
    const done = await doing("/api/seeds/set", { id: row.id, mark, ...changes }, `${row.id} is saved`);
    if (done) set({ mark: "", fields: was });
  };
  return html`<form class="card form" onSubmit=${(event) => event.preventDefault()}>
    ${row.mark !== mark && changed.length > 0 && html`<p class="refused" role="alert">Somebody has changed this seed since you began. <${Do} run=${take}>Show it as it is now<//></p>`}
    <${Events} names=${listed?.events} />
    <div class="fields"><${Field} label="Title" note="another title makes another version"><input maxlength="1024" ...${field("title")} /><//>
      <${Field} label="Event"><input list="events" maxlength="240" ...${field("event")} /><//>
      <${Field} label="Threshold" note="nothing: automatic"><input inputmode="decimal" ...${field("threshold")} /><//>
      <${Field} label="Ends" note="7d, or a moment as 2026-12-31T12:00:00Z; nothing: never"><input maxlength="64" ...${field("expires_at")} /><//></div>
    <${Do} kind="main" run=${save} disabled=${!changed.length}>Save<//>
  </form>`;
}

const sent = (name, value) => {
  if (name === "threshold") return scoreOf(value);
  return name === "expires_at" && !value.trim() ? null : value.trim();
};

export function Text({ row }) {
  const [whole, open] = useState(false);
  const text = row.text ?? row.value ?? "";
  return html`<section class="card"><h2>Text</h2>
    ${row.words?.length > 0 && html`<p class="quiet">Lit are the words that carry it: ${row.words.slice(0, 12).map(([word]) => word).join(", ")}.</p>`}
    <${Lit} text=${whole ? text : text.slice(0, FIRST)} why=${row.words ?? []} />
    ${!whole && text.length > FIRST && html`<p><${Do} run=${() => open(true)}>Show all ${number(text.length)} letters<//></p>`}
  </section>`;
}
