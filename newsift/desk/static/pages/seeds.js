// All seeds by event, with refused ones on top, and the page of one seed.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { useAnswer } from "/lib/api.js";
import { Button, Confirm, ConfirmButton, eventAddress, ExternalLink, Facts, Field } from "/lib/ui.js";
import { fieldInputs, HighlightedText, isMissing, LoadStatus, notify, number } from "/lib/ui.js";
import { paragraph, perform, plural, quoted, Time, useDroppedFiles, useMounted } from "/lib/ui.js";
import { defaultThreshold, ENDS_NOTE, EventNames, heaviestWords } from "/lib/seeds.js";
import { seedAddress, thresholdOf } from "/lib/seeds.js";
import { Add, dropFiles } from "/pages/add.js";

const PAGE = 100;
const MAX_SEEDS = 1000;
const FIRST_TEXT_CHARS = 4000;
const STATES = {
  live: ["live", "good"],
  paused: ["paused", ""],
  expired: ["expired", ""],
  refused: ["refused", "bad"],
  stale: ["stale", "bad"],
  replaced: ["in its event’s profile", "good"],
  unknown: ["unknown", ""],
};

const undoRemoval = ({ number, id }) =>
  perform("/api/seeds/undo", { number }, `${id} is back`);

const removeSeed = ({ id, etag }) =>
  perform("/api/seeds/remove", { id, etag }, `${id} is removed`);

function pauseSeed({ id, etag, state }) {
  const paused = state !== "paused";
  const done = `${id} ${paused ? "is paused" : "goes on"}`;
  return perform("/api/seeds/set", { id, etag, paused }, done);
}

export default function Seeds({ rest, session }) {
  const [page = "", id = ""] = rest;
  const take = (files) => {
    dropFiles(files);
    location.hash = "#/seeds/add";
  };
  useDroppedFiles(take, session.read_only);
  const views = {
    add: !session.read_only && html`<${Add} session=${session} />`,
    seed: html`<${Seed} key=${id} id=${id} session=${session} />`,
  };
  return html`<div class="seeds">
    ${(Object.hasOwn(views, page) && views[page]) || html`<${List} session=${session} />`}</div>`;
}

function List({ session }) {
  const [search, setSearch] = useState("");
  const [most, setMost] = useState(PAGE);
  const [rowToRemove, setRowToRemove] = useState(null);
  const [answer, error] = useAnswer("/api/seeds", { search, most }, ["seeds"]);
  const last = useRef();
  if (answer) last.current = answer;
  const data = last.current;
  const remove = session.read_only ? null : setRowToRemove;
  const more = html`<${Button} run=${() => setMost(most + PAGE)}>Show more<//> `;
  const rest = html`<p>${most < MAX_SEEDS && more}<span class="quiet">${number(data?.rows.length)}
    ${" "}of ${number(data?.matching)} are shown; search for the others</span></p>`;
  const confirm = () =>
    html`<${Confirm} kind="bad" yes="Remove it" title=${removalTitle(rowToRemove)}
      run=${() => removeSeed(rowToRemove)} close=${() => setRowToRemove(null)} />`;
  return html`<div class="row head"><h1>Seeds</h1>
      ${!session.read_only && html`<a class="button main" href="#/seeds/add">Add an article</a>`}
      <input type="search" class="search" aria-label="Search seeds" value=${search} maxlength="200"
        placeholder="Search id, title, event, address"
        onInput=${(event) => setSearch(event.target.value)} />
    </div>
    <${LoadStatus} answer=${data} error=${error} />
    ${data && html`<${Overview} data=${data} session=${session} remove=${remove} />`}
    ${data && html`<${Groups} data=${data} remove=${remove} />`}
    ${data?.matching > data?.rows.length && rest}${rowToRemove && confirm()}`;
}

const removalTitle = ({ id }) => `Remove the seed ${id}? Posts are no longer compared with it.`;

// Above the list: counts, the last removal, and refused seeds.
function Overview({ data, session, remove }) {
  const { removed, refused, states } = data;
  const counts = Object.entries(states).map(
    ([state, n]) => `${number(n)} ${STATES[state]?.[0] ?? state}`,
  );
  const total = `${plural(data.total, "seed")}: ${counts.join(", ")}. Posts are compared with them.`;
  const share = `1 in ${number(data.one_in)} everyday posts`;
  const rate = data.rate_of_all
    ? ` Automatic thresholds are raised together, until at most ${share} match any seed.`
    : ` An automatic threshold is the score that ${share} reaches.`;
  const undo = html`<p class="card row" role="status">
    <span class="quoted">${removed?.id} was removed by ${removed?.by}.</span>
    <${Button} run=${() => undoRemoval(removed)}>Undo<//></p>`;
  const leftOut = `${plural(data.left_out, "record")} had no room here.`;
  const warning = data.error && `The seeds are not up to date: ${data.error}`;
  return html`${paragraph("refused", warning, "status")}
    ${paragraph("refused", data.left_out > 0 && leftOut)}
    ${removed && !session.read_only && undo}
    ${refused.length > 0 && html`<${RefusedSeeds} data=${data} remove=${remove} />`}
    <p class="quiet">${data.total ? total : "No seeds yet: posts are compared with nothing."}
      ${data.total > 0 && data.configured === null && rate} ${data.model}</p>`;
}

function RefusedSeeds({ data: { refused, states }, remove }) {
  const all = (states.refused ?? 0) + (states.stale ?? 0);
  const more = `and ${number(all - refused.length)} more`;
  const button = (each) => html`<${Button} kind="small" run=${() => remove(each)}>Remove<//>`;
  const row = (each) =>
    html`<li key=${each.id} class="row"><${State} row=${each} />
      <a class="quoted" href=${seedAddress(each.id)}>${each.id || "(no id)"}</a>
      ${quoted(each.reason)}${remove && each.etag && button(each)}</li>`;
  return html`<section aria-label="Refused" class="card warn">
    <h2>Refused or stale: ${plural(all, "record")}</h2>
    <ul class="plain">${refused.map(row)}</ul>
    ${paragraph("quiet", all > refused.length && more)}</section>`;
}

function Groups({ data, remove }) {
  const groups = new Map();
  const above = new Set(data.refused.map((row) => row.id));
  for (const row of data.rows.filter((each) => !above.has(each.id))) {
    const name = row.event ?? "";
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  const seed = (row) =>
    html`<${Row} key=${row.id} row=${row} configured=${data.configured} remove=${remove} />`;
  const link = (name) => html`<a class="quoted" href=${eventAddress(name)}>${name}</a>`;
  const group = ([name, rows]) =>
    html`<section key=${name}><h2>${name ? link(name) : "Refused"}</h2>
      <ul class="plain">${rows.map(seed)}</ul></section>`;
  return [...groups].map(group);
}

function Row({ row, configured, remove }) {
  const name = row.is_profile ? `Profile of ${row.event}` : row.title || row.id;
  const hasPage = row.is_profile && row.event;
  const href = hasPage ? eventAddress(row.event, "learned") : seedAddress(row.id);
  const pause = row.state === "paused" ? "Resume" : "Pause";
  const pauseButton = html`<${Button} run=${() => pauseSeed(row)} aria-label=${`${pause} ${row.id}`}>
    ${pause}<//>`;
  const link = html` · <${ExternalLink} href=${row.url}>${quoted(row.url)}<//>`;
  const actions = html`<div class="row acts">${row.state !== "refused" && pauseButton}
    <${Button} run=${() => remove(row)} aria-label=${`Remove ${row.id}`}>Remove<//></div>`;
  return html`<li class="card seed">
    <div class="what"><a class="quoted" href=${href}>${name}</a> <${State} row=${row} />
      <div class="quiet">${quoted(row.id)}${row.url && link}</div>
      ${row.reason && html`<div class="quoted bad">${row.reason}</div>`}</div>
    <dl><div><dt>Threshold</dt><dd>${thresholdWords(row, configured)}</dd></div>
      <div><dt>Ends</dt><dd><${Ends} at=${row.expires_at} /></dd></div></dl>
    ${remove && !row.is_profile && actions}</li>`;
}

function State({ row }) {
  const [word, kind] = STATES[row.state] ?? [row.state, ""];
  return html`<span class=${`badge ${kind}`}>${word}</span>`;
}

// The threshold in force: the seed's own, the configured one, or the automatic one.
function thresholdWords(row, configured) {
  if (row.state === "refused") return "–";
  if (!isMissing(row.threshold)) return `${row.threshold} (its own)`;
  if (!isMissing(configured)) return `${configured} (matching.threshold)`;
  return row.threshold_in_force ? `auto ${row.threshold_in_force.toFixed(4)}` : "auto";
}

const Ends = ({ at }) => (at ? html`<${Time} at=${at} />` : html`<span>never</span>`);

function Seed({ id, session }) {
  const [row, error] = useAnswer("/api/seed", { id }, ["seeds"]);
  const mayChange = row && !session.read_only && !row.is_profile;
  const mounted = useMounted();
  const remove = async () =>
    (await removeSeed(row)) && mounted.current && (location.hash = "#/seeds");
  const pause = html`<${Button} run=${() => pauseSeed(row)}>
    ${row?.state === "paused" ? "Resume" : "Pause"}<//>`;
  const actions = () => html`<div class="row acts">${row.state !== "refused" && pause}
    <${ConfirmButton} text="Remove" kind="bad" title=${removalTitle(row)} yes="Remove it"
      yesKind="bad" run=${remove} /></div>`;
  return html`<p><a href="#/seeds">All seeds</a></p>
    <${LoadStatus} answer=${row} error=${error} />
    ${row && html`<h1 class="quoted">${row.title || row.id}</h1><${Details} row=${row} />`}
    ${mayChange && actions()}
    ${mayChange && row.state !== "refused" && html`<${Settings} row=${row} />`}
    ${row && html`<${Text} row=${row} />`}`;
}

function Details({ row }) {
  const rows = [
    ["Id", quoted(row.id)],
    ["State", html`<${State} row=${row} /> ${quoted(row.reason)}`],
    row.event && ["Event", html`<a href=${eventAddress(row.event)}>${quoted(row.event)}</a>`],
    ["Threshold", thresholdWords(row, row.configured)],
    row.state !== "refused" && ["Ends", html`<${Ends} at=${row.expires_at} />`],
    row.url && ["Address", html`<${ExternalLink} href=${row.url}>${quoted(row.url)}<//>`],
    row.seed_version && ["Version", html`<code>${row.seed_version}</code>`],
    row.published_at && ["Published", html`<${Time} at=${row.published_at} />`],
  ];
  return html`<${Facts} kind="facts card" rows=${rows} />`;
}

const fieldsOf = (row) => ({
  event: row.event,
  title: row.title,
  threshold: row.threshold ?? "",
  expires_at: row.expires_at ?? "",
});

function changeOf(name, value) {
  if (name === "threshold") return thresholdOf(value);
  return name === "expires_at" && !value.trim() ? null : value.trim();
}

// Without whether it is paused: that takes nothing from what is typed.
const contentOf = (row) => JSON.stringify([fieldsOf(row), row.text, row.url]);

// The fields of a seed; what was typed stays when another person changes the seed.
function Settings({ row }) {
  const [{ etag, fields }, setState] = useState({ etag: row.etag, fields: fieldsOf(row) });
  const [base, setBase] = useState(row); // when the fields were taken of it
  const before = fieldsOf(base);
  const [list] = useAnswer("/api/seeds", { most: 0 });
  const changed = Object.keys(fields).filter(
    (name) => String(fields[name]) !== String(before[name]),
  );
  const take = () => {
    setBase(row);
    setState({ etag: row.etag, fields: fieldsOf(row) });
  };
  const isSame = contentOf(row) === contentOf(base);
  useEffect(() => {
    if (row.etag === etag) return;
    if (!changed.length) take();
    else if (isSame) setState({ etag: row.etag, fields });
  }, [row.etag, etag]);
  const field = fieldInputs(fields, (next) => setState({ etag, fields: next }));
  const save = async () => {
    const changes = Object.fromEntries(changed.map((name) => [name, changeOf(name, fields[name])]));
    if (typeof changes.threshold === "string") {
      return notify("threshold: give a score above 0, at most 1, or nothing for automatic", true);
    }
    const question = { id: row.id, etag, ...changes };
    const done = await perform("/api/seeds/set", question, `${row.id} is saved`);
    if (done) setState({ etag: "", fields: before });
  };
  const conflict = html`Somebody has changed this seed since you began.
    ${" "}<${Button} run=${take}>Show it as it is now<//>`;
  return html`<form class="card form" onSubmit=${(event) => event.preventDefault()}>
    ${paragraph("refused", row.etag !== etag && !isSame && changed.length > 0 && conflict, "alert")}
    <${EventNames} names=${list?.events} />
    <div class="fields">
      <${Field} label="Title" note="another title makes another version">
        <input maxlength="1024" ...${field("title")} /><//>
      <${Field} label="Event"><input list="events" maxlength="240" ...${field("event")} /><//>
      <${Field} label="Threshold" note=${defaultThreshold(null, row.configured)}>
        <input inputmode="decimal" ...${field("threshold")} /><//>
      <${Field} label="Ends" note=${ENDS_NOTE}><input maxlength="64" ...${field("expires_at")} /><//>
    </div>
    <${Button} kind="main" run=${save} disabled=${!changed.length}>Save<//></form>`;
}

function Text({ row }) {
  const [isWhole, setWhole] = useState(false);
  const text = row.text ?? row.value ?? "";
  const isCut = !isWhole && text.length > FIRST_TEXT_CHARS;
  const all = html`<${Button} run=${() => setWhole(true)}>
    Show all ${number(text.length)} letters<//>`;
  return html`<section class="card"><h2>Text</h2>
    ${row.words?.length > 0 && heaviestWords(row.words)}
    <${HighlightedText} why=${row.words ?? []}
      text=${isCut ? text.slice(0, FIRST_TEXT_CHARS) : text} />
    ${paragraph("", isCut && all)}</section>`;
}
