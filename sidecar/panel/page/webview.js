/** The panel as a view of VS Code: the extension has the connection to the daemon, and passes messages on. */

import { Panel } from "./panel.js";
import { Rpc } from "./rpc.js";

/** @typedef {{ postMessage: (message: object) => void, getState: () => object | undefined, setState: (state: object) => void }} Api */

const api = /** @type {{ acquireVsCodeApi: () => Api }} */ (/** @type {unknown} */ (globalThis)).acquireVsCodeApi();

/** What the commands of the editor do in the panel. @type {Record<string, (panel: Panel, params: { text?: string }) => void>} */
const ACTIONS = {
  focus: (panel) => panel.composer.input.focus(),
  begin: (panel) => void panel.begin().catch((error) => panel.fail(error)),
  send: (panel, { text = "" }) => void panel.send(text, [], "send").catch((error) => (panel.composer.setText(text), panel.fail(error))),
  sessions: (panel) => panel.sessions.toggle(true),
  context: (panel) => panel.gauge.element.click(),
  preview: (panel) => void panel.preview().catch((error) => panel.fail(error)),
  permission: (panel) => (panel.permissions.count > 0 ? panel.permissions : panel.forms).focus(),
};

const rpc = new Rpc((message) => api.postMessage(message), {
  notified: (method, params) => {
    if (method === "panel/connected") void panel.connected(params);
    else if (method === "panel/disconnected") panel.disconnected(params.reason);
    else if (method === "panel/permission") panel.askPermission(params);
    else if (method === "panel/form") panel.askForm(params);
    else if (method === "panel/chips") panel.setChips(params.chips);
    else if (method === "panel/act") ACTIONS[params.action]?.(panel, params);
    else panel.receive(method, params);
  },
  asked: (id, method) => rpc.refuse(method, id),
});

const root = /** @type {HTMLElement} */ (document.getElementById("panel"));
const panel = new Panel(root, {
  kind: "editor",
  request: (method, params) => rpc.request(method, params),
  answer: (questionId, answer) => rpc.notify("panel/answer", { questionId, answer }),
  recall: () => api.getState() ?? {},
  keep: (state) => api.setState(state),
  follow: (sid) => rpc.notify("panel/follow", { sid }),
  join: undefined, // an editor has the daemon that it has
  openFile: (path, line) => rpc.notify("panel/openFile", { path, line }),
  openLink: (url) => rpc.notify("panel/openLink", { url }),
  openComparison: (sid, compactionId) => rpc.notify("panel/openComparison", { sid, compactionId }),
  openDiff: (path, before, after) => rpc.notify("panel/openDiff", { path, before, after }),
  dropChip: (id) => rpc.notify("panel/dropChip", { id }),
});
window.addEventListener("message", (event) => rpc.receive(event.data));
rpc.notify("panel/ready", {});
