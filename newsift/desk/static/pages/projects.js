// The projects of a desk, each made of a file of one's own; a new one, from a file to its columns.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { act, base64, useAnswer, useLatest } from "/lib/api.js";
import { Button, Confirm, ConfirmButton, ErrorText, Field, LoadingText } from "/lib/ui.js";
import { LoadStatus, notify, number, paragraph, percent, perform, plural, quoted } from "/lib/ui.js";
import { Table, Time, useDroppedFiles, useMounted } from "/lib/ui.js";

const PIECE_BYTES = 4 * 2 ** 20;
const UPLOAD = { signal: null }; // A slow network may take its time.
const ACCEPT = ".csv,.tsv,.tab,.json,.jsonl,.ndjson,.txt,.parquet,.gz,.zst";
const ROLES = [
  ["text", "Text", "choose a column"],
  ["id", "Id", "none: named by a digest of the text"],
  ["time", "Time", "none"],
  ["author", "Author", "none"],
  ["link", "Link to the post", "none"],
];
const POST_HEADS = ["id", "time", "author", "link", "text"];
const ENDINGS = /\.(csv|tsv|tab|json|jsonl|ndjson|txt|parquet)?(\.(gz|zst))?$/i;
const NO_POSTS = "No row becomes a post, so there is nothing to make a project of: choose another file or column.";
const OPTION = / \(--[^)]*\)/; // of a warning: what helps at the command line

let wanted = null; // The project that this page has opened: it is shown once it is open.
// Says so to the frame, for which a project that nobody has asked for here is another tab's.
function want(name) {
  wanted = name;
  dispatchEvent(new CustomEvent("newsift-project", { detail: name }));
}

let sent = null; // The file that this tab sends: {name, share}, and at the end its {upload}.

function setSent(next) {
  sent = next;
  dispatchEvent(new Event("newsift-upload"));
}

const size = (bytes) =>
  bytes < 2 ** 20 ? `${number(Math.ceil(bytes / 2 ** 10))} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;

// Sends a file in pieces; resolves to the name by which the desk knows it.
async function upload(file, onShare) {
  const { answer: name } = await act("/api/projects/upload", { name: file.name, size: file.size });
  for (let offset = 0; offset < file.size; offset += PIECE_BYTES) {
    const content = await base64(file.slice(offset, offset + PIECE_BYTES));
    await act("/api/projects/piece", { upload: name, offset, content }, UPLOAD);
    onShare(Math.min(1, (offset + PIECE_BYTES) / file.size));
  }
  return name;
}

export default function Projects({ rest, session }) {
  const [page = "", name = ""] = rest;
  const isOpen = wanted !== null && session.project === wanted;
  useEffect(() => {
    if (!isOpen) return;
    wanted = null;
    location.hash = "#/";
  }, [isOpen]);
  useEffect(() => () => (wanted = null), []);
  if (page === "new") return html`<${NewProject} key=${name} upload=${name} />`;
  return html`<${List} />`;
}

function List() {
  const [data, error] = useAnswer("/api/projects", {}, ["projects"]);
  const under = useLatest("newsift-upload", () => sent);
  const [problem, setProblem] = useState(null);
  const mounted = useMounted();
  const take = async ([file]) => {
    if (!file || sent) return;
    setProblem(null);
    setSent({ name: file.name, share: 0 });
    try {
      const token = await upload(file, (share) => setSent({ name: file.name, share }));
      setSent({ name: file.name, share: 1, upload: token });
      if (!mounted.current) notify(`${file.name} is sent: its columns are to be chosen in Projects`);
    } catch (failure) {
      setSent(null);
      if (mounted.current) setProblem(failure);
      else notify(`${file.name}: ${failure.message}`, true);
    }
  };
  useEffect(() => {
    if (!under?.upload) return;
    setSent(null);
    location.hash = `#/projects/new/${under.upload}`;
  }, [under]);
  useDroppedFiles(take);
  const state = under && html`<${LoadingText} what=${`${under.name}: ${percent(under.share)} sent`} />`;
  const row = (each) => html`<${Row} key=${each.name} row=${each} data=${data} />`;
  return html`<h1>Projects</h1>
    <section class="card drop"><h2>A file of your own</h2>
      <p>Drop a table of posts anywhere on this page, or choose one: CSV, TSV, JSON lines, or an
        export that <code>newsift filter</code> reads. The desk keeps a copy on its own machine and
        sends it nowhere.</p>
      <input type="file" aria-label="A file of your own" accept=${ACCEPT} disabled=${!!under}
        onChange=${(event) => take([...event.target.files])} />
      <div role="status">${state}</div><${ErrorText} error=${problem} /></section>
    <${LoadStatus} answer=${data} error=${error} />
    ${paragraph("refused", data?.error, "alert")}
    <div role="status">${data?.opening && html`<${LoadingText} what=${`Opening ${data.opening}`} />`}</div>
    ${data?.projects.length > 0 && html`<h2>${plural(data.projects.length, "project")}</h2>`}
    <ul class="plain">${data?.projects.map(row)}</ul>
    ${data && paragraph("quiet", `They are kept in ${data.folder}.`)}`;
}

function Row({ row, data }) {
  const { name, files, uploaded, seeds, labels, problem } = row;
  const isOpen = data.project === name;
  const isHeld = isOpen || data.opening === name;
  const file = files.length > 1 ? `${files[0]} and ${files.length - 1} more` : files[0] ?? "no file";
  const open = () => {
    want(name);
    return perform("/api/projects/open", { name });
  };
  const remove = () => perform("/api/projects/delete", { name }, `${name} is deleted`);
  const kept = [
    seeds > 0 && plural(seeds, "article or profile", "articles and profiles"),
    labels > 0 && plural(labels, "label"),
  ].filter(Boolean);
  const copy = uploaded > 0 && `the desk’s copy of ${file}, ${size(uploaded)}`;
  const lost = [...kept, copy].filter(Boolean).join(" and ") || "its folder";
  const actions = html`${!problem && html`<${Button} kind="main" run=${open}>Open<//>`}
    <${Rename} name=${name} />
    <${ConfirmButton} text="Delete" kind="bad" yesKind="bad" title=${`Delete ${name}?`} yes="Delete"
        run=${remove} aria-label=${`Delete ${name}`}>
      <p>This deletes ${lost}. Your own file is not touched.</p><//>`;
  const close = html`<a class="button main" href="#/">Go to its events</a>
    <${Button} run=${() => perform("/api/projects/close")}>Close<//>`;
  return html`<li class="card" aria-label=${name}>
    <div class="row"><h2><bdi class="quoted">${name}</bdi></h2>
      ${isOpen && html`<span class="badge good">open</span>`}</div>
    <p class="quiet">${[file, uploaded > 0 && size(uploaded), ...kept].filter(Boolean).map((text) => html`${quoted(text)} · `)}
      ${row.changed_at && html`changed <${Time} at=${row.changed_at} />`}</p>
    ${paragraph("refused", problem)}
    <div class="row">${isOpen ? close : !isHeld && actions}</div></li>`;
}

function Rename({ name }) {
  const [fresh, setFresh] = useState(null); // null: nobody renames it
  const [problem, setProblem] = useState(null);
  const rename = async () => {
    try {
      await act("/api/projects/rename", { name, new: fresh });
      notify("Renamed");
    } catch (refusal) {
      setProblem(refusal);
      return false;
    }
  };
  const begin = () => {
    setProblem(null);
    setFresh(name);
  };
  const dialog = html`<${Confirm} title=${`Rename ${name}`} yes="Rename" run=${rename}
    close=${() => setFresh(null)}><${Field} label="New name"><input maxlength="80" value=${fresh}
      onInput=${(event) => setFresh(event.target.value)} /><//><${ErrorText} error=${problem} /><//>`;
  return html`<button type="button" aria-label=${`Rename ${name}`} onClick=${begin}>
    Rename</button>${fresh !== null && dialog}`;
}

// The first rows of a file, its columns, and what will be left out.
function NewProject({ upload: token }) {
  const [options, setOptions] = useState({});
  const [name, setName] = useState(null); // null: that of the file
  const [failure, setFailure] = useState(null);
  const mounted = useMounted();
  const question = { upload: token, options: JSON.stringify(options) };
  const [answer, error] = useAnswer("/api/projects/preview", question);
  const last = useRef();
  if (answer) last.current = answer;
  const shown = last.current;
  const head = html`<p><a href="#/projects">All projects</a></p><h1>A new project</h1>`;
  if (!shown) {
    return html`${head}<${LoadStatus} error=${error} what="Reading the file" />`;
  }
  const title = name ?? shown.name.replace(ENDINGS, "");
  const set = (key) => (event) => setOptions({ ...options, [key]: event.target.value });
  const setZone = (event) =>
    setOptions({ ...options, timezone: event.target.value.trim() || undefined });
  const create = async () => {
    setFailure(null);
    try {
      const made = await act("/api/projects/create", { upload: token, name: title, options });
      if (!mounted.current) return;
      want(made.answer);
      location.hash = "#/projects";
    } catch (refusal) {
      setFailure(refusal);
    }
  };
  const drop = async () => {
    await perform("/api/projects/drop", { upload: token });
    if (mounted.current) location.hash = "#/projects";
  };
  const choice = ([role, label, none]) => html`<${Field} label=${label}>
    <select value=${shown.columns[role] ?? ""} onChange=${set(role)}>
      <option value="" disabled=${role === "text"}>${none}</option>
      ${shown.header.map((column) => html`<option value=${column}>${column}</option>`)}</select><//>`;
  const isReady = answer && !error && shown.names_text && shown.posts > 0;
  return html`${head}
    <div class="card form"><${Field} label="Name of the project"><input maxlength="80" value=${title}
      onInput=${(event) => setName(event.target.value)} /><//></div>
    <section class="card form" aria-label="Columns"><h2>What is in ${quoted(shown.name)}</h2>
      ${!shown.names_text && paragraph("warn", "Choose the column that holds the texts.")}
      <div class="fields">${shown.header.length > 0 && ROLES.map(choice)}
        <${Field} label="Time zone" note="of times without an offset; nothing: UTC">
          <input list="zones" placeholder="UTC" maxlength="64" onChange=${setZone} /><//></div>
      <datalist id="zones">${Intl.supportedValuesOf("timeZone").map(
        (zone) => html`<option value=${zone} />`)}</datalist>
      <${ErrorText} error=${error} />
      <${FirstTime} first=${shown.first_time} />
      <${Rows} shown=${shown} /></section>
    <${LeftOut} shown=${shown} isLate=${!answer && !error} />
    ${shown.names_text && shown.posts === 0 && paragraph("refused", NO_POSTS, "alert")}
    <div class="row sticky"><${ErrorText} error=${failure} />
      <${Button} kind="main" run=${create} disabled=${!isReady}>Make the project<//>
      <${Button} run=${drop}>Cancel<//></div>`;
}

function FirstTime({ first }) {
  if (!first) return null;
  const [cell, at] = first;
  return html`<p>The first time, ${quoted(cell)}, is read as
    ${" "}<strong>${at.replace("T", " ").replace("Z", "")} UTC</strong>.</p>`;
}

function Rows({ shown: { header, columns, rows } }) {
  const roleOf = (column) => ROLES.find(([role]) => columns[role] === column)?.[1];
  const heads = header.map((name) => (roleOf(name) ? `${roleOf(name)}: ${name}` : name));
  const cells = (row) => row.map(quoted);
  return html`<${Table} name="The first rows" kind="preview-rows"
    heads=${header.length ? heads : POST_HEADS} rows=${rows.map(cells)} />`;
}

function LeftOut({ shown, isLate }) {
  const { read, is_whole, posts, without_text, bad, bad_example, other, warnings } = shown;
  if (!shown.names_text) return null;
  const line = (text) => text && html`<li>${text}</li>`;
  const rows = is_whole ? plural(read, "row") : `the first ${number(read)} rows`;
  return html`<section class="card" role="status" aria-label="What will be left out">
    <h2>What will be left out</h2>
    <p><strong>${number(posts)}</strong> of ${rows} ${posts === 1 ? "becomes a post" : "become posts"}.
      ${!is_whole && " The rest of the file is read when the project is open."}
      ${isLate && html`<${LoadingText} what="Reading again" />`}</p>
    <ul>${line(without_text > 0 && `${plural(without_text, "row")} without text`)}
      ${line(bad > 0 && `${plural(bad, "row")} that cannot be read, such as ${bad_example}`)}
      ${line(other > 0 && `${plural(other, "row that is no post", "rows that are no posts")}, such as deletions`)}
      ${warnings.map((text) => line(text.replace(OPTION, "")))}</ul></section>`;
}
