// A dialog that says what will be done, does it when that is agreed to, and gives the focus back.
import { html, useEffect, useRef } from "/vendor/preact.js";
import { Do } from "/lib/ui.js";

export function Confirm({ title, yes, run, close, kind = "main", children }) {
  const dialog = useRef();
  useEffect(() => dialog.current.showModal(), []);
  const done = async () => {
    await run();
    dialog.current?.close();
    close();
  };
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="confirm"><h2 id="confirm">${title}</h2>${children}
    <p class="row"><${Do} run=${() => dialog.current.close()}>Cancel<//><${Do} kind=${kind} run=${done}>${yes}<//></p></dialog>`;
}
