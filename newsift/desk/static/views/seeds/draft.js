// One article as it was read: what may be said otherwise of it, what speaks against it, the words that carry it.
import { html } from "/vendor/preact.js";
import { Do, Lit, Out, number, plural } from "/lib/ui.js";
import { Field } from "/views/seeds/parts.js";

const SHOWN = 4000; // letters with their words lit

export function Draft({ draft, event, common, change, leave }) {
  const { id, record, edits, check, doubt, source } = draft;
  const now = { ...record, ...edits };
  const edit = (name, value) => {
    const { [name]: _, ...rest } = edits;
    const same = name in record ? String(record[name]) === value : value === "";
    change({ edits: same ? rest : { ...rest, [name]: value } });
  };
  const text = String(now.text ?? "");
  const field = (name) => ({ value: now[name] ?? "", onInput: (event) => edit(name, event.target.value) });
  return html`<article class="card form" aria-label=${`Draft of ${source}`}>
    <h2 class="said">${now.title || id}</h2>
    <p class="quiet">from <span class="said">${source}</span>${record.url && html` · <${Out} href=${record.url}><span class="said">${record.url}</span><//>`} · ${plural(text.trim().split(/\s+/).length, "word")} · event <span class="said">${event || record.event || id}</span></p>
    <${Doubts} check=${check} doubt=${doubt} ignored=${draft.ignored} />
    <div class="fields">
      <${Field} label="Title"><input maxlength="1024" ...${field("title")} /><//>
      <${Field} label="Id"><input maxlength="256" value=${id} onInput=${(event) => change({ id: event.target.value })} /><//>
      <${Field} label="Threshold" note=${automatic(check, common)}><input inputmode="decimal" ...${field("threshold")} /><//>
      <${Field} label="Ends" note="7d, or a moment as 2026-12-31T12:00:00Z; nothing: never"><input maxlength="64" ...${field("expires_at")} /><//>
    </div>
    <details><summary>Change the text</summary><${Field} label="Text"><textarea rows="12" value=${text} onInput=${(event) => edit("text", event.target.value)}></textarea><//></details>
    <section aria-label="Text"><${Lit} text=${text.slice(0, SHOWN)} why=${check?.words ?? []} />${text.length > SHOWN && html`<span class="quiet"> … and ${number(text.length - SHOWN)} letters more</span>`}</section>
    ${check?.words?.length > 0 && html`<p class="quiet">Lit are the words that carry it: ${check.words.slice(0, 12).map(([word]) => word).join(", ")}.</p>`}
    <div class="row"><${Do} run=${leave} aria-label=${`Leave ${id} out`}>Leave it out<//></div>
  </article>`;
}

function automatic(check, common) {
  if (common !== null && common !== undefined) return `nothing: ${common} (matching.threshold)`;
  return check?.auto_threshold ? `nothing: automatic, ${check.auto_threshold.toFixed(4)}` : "nothing: automatic";
}

// What stands in the way of it, and what is worth a second look.
function Doubts({ check, doubt, ignored }) {
  const looks = check ? check.doubt : doubt;
  return html`${check?.refused && html`<p class="refused" role="alert">${check.refused}</p>`}
    ${looks && html`<p class="refused" role="alert">This ${/^\d/.test(looks) ? "has" : "looks like"} ${looks}. Correct the text, or publish it all the same below.</p>`}
    ${check?.notes?.map((note) => html`<p class="warn">It ${note}.</p>`)}
    ${check?.published === "replaced" && html`<p class="warn">A seed of this id is there already: this would take its place.</p>`}
    ${check?.published === "unchanged" && html`<p class="quiet">This very seed is on the topic already.</p>`}
    ${ignored?.length > 0 && html`<p class="quiet said">Left out, as a seed has no such keys: ${ignored.join(", ")}</p>`}
    ${check?.away && html`<p class="quiet">${check.away}</p>`}`;
}
