// The desk: which page is shown, and what stands around it.
import { html, render, useEffect, useState } from "/vendor/preact.js";
import { iam, listen, login, read, useOnline, whoami } from "/lib/api.js";
import { Do, Fetched, News, Refused, tell } from "/lib/ui.js";
import { Badge } from "/views/health/badge.js";

// The pages by the first word of the address after #/; each is fetched when it is first opened.
const PAGES = {
  __proto__: null,
  "": ["Events", () => import("/views/events.js")],
  event: [null, () => import("/views/event.js")],
  seeds: ["Seeds", () => import("/views/seeds.js")],
  health: ["Health", () => import("/views/health.js")],
};

function place() {
  const parts = location.hash.replace(/^#\//, "").split("/");
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return [""]; // no address of ours
  }
}

function usePlace() {
  const [now, set] = useState(place());
  useEffect(() => {
    const moved = () => set(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return now;
}

let arrived = false;

function Page({ name, rest, session }) {
  const [title, load] = PAGES[name] ?? PAGES[""];
  useEffect(() => {
    document.title = `${title || rest[0] || "Event"} – newsift`;
    if (arrived) document.querySelector("main").focus({ preventScroll: true }); // at first the keyboard begins at the top
    arrived = true;
  }, [name, rest[0]]);
  return html`<${Fetched} load=${load} rest=${rest} session=${session} />`;
}

function Who({ session }) {
  const named = (event) => iam(event.target.value.trim() || session.you);
  return html`<label class="who">You are <input value=${whoami()} maxlength="80" onChange=${named} autocomplete="off" /></label>`;
}

function Head({ now, session }) {
  const online = useOnline();
  return html`<header>
    <a class="brand" href="#/"><img src="/icon.svg" alt="" width="24" height="24" /> newsift</a>
    <nav aria-label="Pages">
      ${Object.entries(PAGES).map(([name, [title]]) => title && html`<a href=${`#/${name}`} aria-current=${now === name ? "page" : undefined}>${title}</a>`)}
    </nav>
    ${session.read_only && html`<span class="badge">read-only</span>`}
    ${online ? html`<${Badge} />` : html`<span class="badge bad" role="alert">the desk does not answer</span>`}
    <${Who} session=${session} />
  </header>`;
}

function Login({ again }) {
  const [token, set] = useState("");
  const enter = async () => {
    try {
      await login(token);
      again();
    } catch (error) {
      tell(error.message, true);
    }
  };
  return html`<main class="login"><h1>newsift</h1>
    <label>The desk's token <input type="password" value=${token} onInput=${(event) => set(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && enter()} /></label>
    <p>It is in the address that was printed when the desk was started, or the one that its operator has set.</p>
    <${Do} kind="main" run=${enter}>Enter<//>
  </main><${News} />`;
}

// The name is of all tabs: whoever goes by it hears of another one.
function useName() {
  const [, set] = useState(whoami());
  useEffect(() => {
    const hear = () => set(whoami());
    addEventListener("storage", hear);
    return () => removeEventListener("storage", hear);
  }, []);
}

function Desk() {
  useName();
  const [session, set] = useState(null);
  const [error, fail] = useState(null);
  const [name, ...rest] = usePlace();
  const begin = () =>
    read("/api/session").then((found) => {
      if (!localStorage.getItem("newsift.by")) iam(found.you);
      fail(null);
      set(found);
      listen();
    }, fail);
  useEffect(() => {
    begin();
    addEventListener("newsift-token", () => fail({ status: 401 }));
  }, []);
  if (error?.status === 401) return html`<${Login} again=${begin} />`;
  if (error) return html`<main><${Refused} error=${error} /><${Do} run=${begin}>Try again<//></main>`;
  if (!session) return null;
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.querySelector("main").focus())}>Skip to the page</a>
    <${Head} now=${PAGES[name] ? name : ""} session=${session} />
    <main id="main" tabindex="-1"><${Page} name=${name} rest=${rest} session=${session} /></main>
    <${News} />`;
}

render(html`<${Desk} />`, document.getElementById("desk"));
