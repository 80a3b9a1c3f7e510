// The desk's frame: which page is open, navigation, the user's name and the token.
import { html, render, useEffect, useRef, useState } from "/vendor/preact.js";
import { givenName, listen, login, read, setUserName, useAnswer, useLatest, userName } from "/lib/api.js";
import { useRestarts, useSilence } from "/lib/api.js";
import { sendNext, useUnsent } from "/lib/outbox.js";
import { Button, Facts, LazyView, Notices, percent, plural } from "/lib/ui.js";
import { ErrorText, useKeys } from "/lib/ui.js";

const HEALTH_REFRESH_MS = 2000;
const HEALTH_POLL_MS = 5000;

// Pages by the first word after #/; those with a title are in the navigation.
const PAGES = {
  __proto__: null,
  "": ["Events", () => import("/pages/events.js")],
  event: [null, () => import("/pages/event.js")],
  seeds: ["Seeds", () => import("/pages/seeds.js")],
  projects: ["Projects", () => import("/pages/projects.js")],
};

// Of a desk of projects without one that is open, there is the list of projects alone.
const isShown = (name, session) =>
  name === "projects" ? session.projects : !session.projects || session.project !== null;

function addressParts() {
  try {
    return location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  } catch {
    return [""]; // The address is not encoded as the desk does it.
  }
}

let isFirst = true;

function Page({ name, rest, session }) {
  const [title, load] = PAGES[name] ?? PAGES[""];
  useEffect(() => {
    document.title = `${title || rest[0] || "Event"} – newsift`;
    if (!isFirst) document.querySelector("main").focus({ preventScroll: true });
    isFirst = false; // On the first page the keyboard focus begins at the top.
  }, [name, rest[0]]);
  return html`<${LazyView} load=${load} rest=${rest} session=${session} />`;
}

// Broker, workers, lag and seeds: what is well, or each problem with the command that helps.
function Health({ page, session }) {
  const [health, , refresh] = useAnswer("/api/health", {}, ["health"], HEALTH_REFRESH_MS);
  useEffect(() => {
    const timer = setInterval(refresh, HEALTH_POLL_MS);
    return () => clearInterval(timer);
  }, []);
  const project = session.project && html`<${ProjectName} page=${page} name=${session.project} />`;
  if (!health) {
    return html`<section class="health" role="status" aria-label="Health">${project}</section>`;
  }
  const { file, state, facts } = health;
  // A file's desk starts its worker itself: until that has compared the posts, nothing is wrong.
  const isStarting = file && file.state !== "matched";
  const problems = isStarting ? [] : health.problems;
  const word = { good: "all well", bad: plural(problems.length, "problem") };
  const row = ({ text, command }) =>
    html`<li><span class="quoted">${text}</span> <code>${command}</code></li>`;
  return html`<section class="health" role="status" aria-label="Health">${project}
    ${!isStarting && html`<span class=${`badge ${state}`}>${word[state]}</span> `}
    ${!file && html`<span class="quiet">${facts.join(" · ")}</span>`}
    ${file && html`<${FileState} file=${file} />`}
    ${problems.length > 0 && html`<ul class="problems">${problems.map(row)}</ul>`}</section>`;
}

const ProjectName = ({ page, name }) =>
  html`<a class="badge project" href="#/projects" title=${name} aria-label=${`Projects: ${name} is open`}
    aria-current=${page === "projects" ? "page" : undefined}><bdi>${name}</bdi></a> `;

// The progress of the file whose posts are the stream; a phone has short words while it changes.
function FileState({ file }) {
  const { name, state, posts, share, seconds_left: left } = file;
  const short = { reading: percent(share, 0), matching: "comparing" }[state];
  const text = {
    waiting: "waits for the first article",
    reading: `${percent(share)} read${left === null ? "" : `, ${plural(Math.ceil(left), "second")} left`}`,
    matching: `${plural(posts, "post")} read, being compared; a first start takes a minute`,
    matched: `${plural(posts, "post")} compared`,
  }[state];
  return html`<span class=${`badge ${short ? "" : "wide"}`}><span class="long"><bdi>${name}</bdi>:
    ${" "}${text}</span><span class="short">${short}</span></span> `;
}

function Head({ page, session }) {
  const silence = useSilence();
  const [unsent, problem] = useUnsent();
  const rename = ({ target }) => {
    target.value = target.value.trim() || session.you; // The field shows what is in force.
    setUserName(target.value);
  };
  const link = ([name, [title]]) =>
    title && isShown(name, session) &&
    html`<a href=${`#/${name}`} aria-current=${page === name ? "page" : undefined}>${title}</a>`;
  return html`<header>
    <a class="brand" href="#/"><img src="/icon.svg" alt="" width="24" height="24" /> newsift</a>
    <nav aria-label="Pages">${Object.entries(PAGES).map(link)}</nav>
    ${session.read_only && html`<span class="badge">read-only</span>`}
    ${silence && html`<span class="badge bad" role="alert">${silence}</span>`}
    ${unsent > 0 && html`<span class="badge bad" role="status" title=${problem}>
      ${plural(unsent, "answer")} not saved yet</span>`}
    <label class="who">You are <input value=${userName()} maxlength="80" onChange=${rename}
      autocomplete="off" /></label>
    <button type="button" class="help" aria-label="Keys and words" title="Keys and words"
      onClick=${() => dispatchEvent(new Event("newsift-help"))}>?</button>
    ${!silence && isShown("", session) && html`<${Health} key=${session.project}
      page=${page} session=${session} />`}
  </header>`;
}

// Of a desk of projects: asks for the session anew once another project is open, and says so where
// this tab has not asked for it.
function ProjectWatch({ session, renew }) {
  const [latest] = useAnswer("/api/session", {}, ["projects"], 200);
  const [before, setBefore] = useState(null); // what another tab has replaced
  const shown = useRef(session.project);
  const wanted = useRef(null); // what this tab has asked for
  const isNew = latest && latest.project !== session.project;
  useEffect(() => {
    const ask = ({ detail: name }) => (wanted.current = name);
    addEventListener("newsift-project", ask);
    return () => removeEventListener("newsift-project", ask);
  }, []);
  useEffect(() => {
    if (!isNew) return;
    renew(latest);
    const { project } = latest;
    if (project === null) return; // The list of projects is shown meanwhile.
    setBefore([shown.current, wanted.current].includes(project) ? null : shown.current);
    shown.current = project;
    wanted.current = null;
  }, [isNew]);
  if (before === null || session.project === null) return null;
  return html`<div class="refused row" role="alert"><span>Another tab has opened
    <b> <bdi>${session.project}</bdi></b>. One project is open at a time, so this page now shows
    ${" "}<bdi>${session.project}</bdi>, no longer <bdi>${before}</bdi>: go on with it, or open
    ${" "}<bdi>${before}</bdi> again under <a href="#/projects">Projects</a>.</span>
    <${Button} run=${() => setBefore(null)}>Go on<//></div>`;
}

// It lies over the page, which keeps what was typed there.
function Login({ again }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(null);
  const dialog = useRef();
  useEffect(() => dialog.current.open || dialog.current.showModal()); // Escape may have closed it.
  const enter = async () => {
    try {
      await login(token);
      again();
    } catch (refusal) {
      setError(refusal);
    }
  };
  return html`<dialog ref=${dialog} aria-labelledby="login"><h1 id="login">newsift</h1>
    <label>The desk's token <input type="password" value=${token}
      onInput=${(event) => setToken(event.target.value)}
      onKeyDown=${(event) => event.key === "Enter" && enter()} /></label>
    <p>The address that the desk printed at its start contains the token, unless its operator has
      set another.</p>
    <${Button} kind="main" run=${enter}>Enter<//><${ErrorText} error=${error} />
  </dialog>`;
}

const KEYS = [
  ["j, k", "the next post, the previous one"],
  ["Enter", "the whole post, with its scores"],
  ["o", "open the post on its platform"],
  ["p", "pause, or resume"],
  ["y, n, u", "Matches and Judge: on the event, off, unsure"],
  ["z", "Judge: undo"],
  ["?", "this list"],
];

const WORDS = [
  ["event", "what you look for: a name for a few articles and the posts about them"],
  ["seed", "an article, or a post, that posts are compared with"],
  ["score", "how near a post comes to a seed: 1 is the same text, most posts are below 0.1"],
  ["threshold", "the score from which a post matches"],
  ["match", "a post that reaches the threshold; a near miss is just below it"],
  ["story", "matches that say the same in nearly the same words"],
  ["everyday posts", "posts about anything, the background: an automatic threshold lets 1 in 1,000 of them match, or as many as are configured"],
  ["profile", "what an event’s seeds have in common, less what everyday posts share with them; posts are then compared with it"],
  ["label", "your answer whether a post is on the event: on, off or unsure, which counts as off"],
  ["promise", "a published threshold: from it on, so many matches are on the event, as labels have proven"],
];

function KeyList() {
  const [open, setOpen] = useState(false);
  const dialog = useRef();
  const show = () => setOpen(true);
  useKeys({ "?": show });
  useEffect(() => {
    addEventListener("newsift-help", show);
    return () => removeEventListener("newsift-help", show);
  }, []);
  useEffect(() => open && dialog.current.showModal(), [open]);
  if (!open) return null;
  return html`<dialog ref=${dialog} onClose=${() => setOpen(false)} aria-labelledby="keys">
    <div class="row"><h2 id="keys" class="grow">Keys and words</h2>
      <button type="button" onClick=${() => dialog.current.close()}>Close</button></div>
    <${Facts} kind="pairs" rows=${KEYS.map(([key, does]) => [html`<kbd>${key}</kbd>`, does])} />
    <h3>Words</h3><${Facts} kind="pairs" rows=${WORDS} /></dialog>`;
}

function Desk() {
  useLatest("storage", userName); // The name may change here or in another tab.
  const [session, setSession] = useState(null);
  const [error, setError] = useState(null);
  const [asked, ...rest] = useLatest("hashchange", addressParts);
  const begin = () =>
    read("/api/session").then((answer) => {
      if (!givenName()) setUserName(answer.you);
      setError(null);
      setSession(answer);
      listen();
      sendNext();
    }, setError);
  const restarts = useRestarts();
  useEffect(() => void begin(), [restarts]);
  useEffect(() => addEventListener("newsift-token", () => setError({ status: 401 })), []);
  const form = error?.status === 401 && html`<${Login} again=${begin} />`;
  if (!session && error && !form) {
    return html`<main><${ErrorText} error=${error} /><${Button} run=${begin}>Try again<//></main>`;
  }
  if (!session) return form || null;
  const known = PAGES[asked] && isShown(asked, session) ? asked : "";
  const name = isShown(known, session) ? known : "projects";
  const skip = (event) => {
    event.preventDefault();
    document.querySelector("main").focus();
  };
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
    <${Head} page=${name} session=${session} />
    <main id="main" tabindex="-1">
      ${session.projects && html`<${ProjectWatch} session=${session} renew=${setSession} />`}
      <${Page} key=${name === "projects" ? "" : session.project}
        name=${name} rest=${rest} session=${session} /></main>
    <${KeyList} /><${Notices} />${form}`;
}

render(html`<${Desk} />`, document.getElementById("desk"));
