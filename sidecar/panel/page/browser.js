/**
 * The panel as a page of its own: it reads the daemon's messages from a stream, and posts its own.
 *
 * The token comes in the fragment of the address, which no server is sent. It is kept for reloads of this tab, and
 * taken out of the address, so that a copied address lets no one in. A second tab of this browser asks the first one
 * for it, and for the conversation that is open there.
 */

import { Panel } from "./panel.js";
import { Rpc } from "./rpc.js";

const RETRY_MS = [200, 1000, 3000, 5000];

/** @typedef {import("./home.js").Home} Home */

class Browser {
  /** @type {string} */
  #channel = "";
  /** @type {string[]} */
  #outgoing = [];
  #isPosting = false;
  /** The process whose daemon is joined next, empty for the shared daemon. */
  #pid = "";
  #leaving = new AbortController();
  #attempt = 0;
  /** @type {Map<string, number | string>} */
  #questions = new Map();
  /** @type {Rpc} */
  #rpc;

  /** @param {string} token @param {HTMLElement} root */
  constructor(token, root) {
    this.token = token;
    this.#rpc = this.#newRpc();
    /** @type {Home} */
    const home = {
      kind: "browser",
      request: (method, params) => this.#rpc.request(method, params),
      answer: (questionId, answer) => this.#answer(questionId, answer),
      join: (pid) => this.#join(pid),
      recall: () => JSON.parse(sessionStorage.getItem("state") ?? "{}"),
      keep: (state) => sessionStorage.setItem("state", JSON.stringify(state)),
      follow: () => {},
      openFile: undefined,
      openLink: undefined,
      openComparison: undefined,
      openDiff: undefined,
      dropChip: undefined,
    };
    this.panel = new Panel(root, home);
  }

  /** Connect, and connect again whenever the connection ends. */
  async stay() {
    for (;;) {
      const reason = await this.#connect().catch((/** @type {Error} */ error) => error.message);
      const joins = this.#leaving.signal.aborted;
      this.#channel = "";
      this.#questions.clear();
      this.#rpc.close(reason);
      this.#rpc = this.#newRpc();
      if (joins) continue;
      this.panel.disconnected(reason);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(this.#attempt++, RETRY_MS.length - 1)]));
    }
  }

  #newRpc() {
    return new Rpc((message) => this.#post(message), {
      notified: (method, params) => this.panel.receive(method, params),
      asked: (id, method, params) => {
        if (method === "sidecar/permission/request") {
          this.#questions.set(params.permissionId, id);
          this.panel.askPermission(params);
        } else if (method === "sidecar/elicit") {
          this.#questions.set(params.elicitationId, id);
          this.panel.askForm(params);
        } else this.#rpc.refuse(method, id);
      },
    });
  }

  /** @param {string} questionId @param {object} answer */
  #answer(questionId, answer) {
    const id = this.#questions.get(questionId);
    this.#questions.delete(questionId);
    if (id !== undefined) this.#rpc.respond(id, answer);
  }

  /** Leave the daemon for the one of another process. @param {number} pid */
  #join(pid) {
    this.#pid = String(pid);
    this.#leaving.abort();
  }

  /** Read one stream to its end, and return why it ended. @returns {Promise<string>} */
  async #connect() {
    const body = this.#pid;
    this.#pid = "";
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    const response = await fetch("events", { method: "POST", headers: this.#headers(), body, signal }).catch(() => {
      throw new Error("the panel's server has ended; run sidecar panel again");
    });
    if (!response.ok || response.body === null) throw new Error(await response.text());
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      return await this.#read(reader);
    } finally {
      void reader.cancel().catch(() => {});
    }
  }

  /** Take in the messages of a stream, and return why it ended. @param {ReadableStreamDefaultReader<string>} reader @returns {Promise<string>} */
  async #read(reader) {
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "the connection to the daemon has ended";
      const lines = (rest + value).split("\n");
      rest = /** @type {string} */ (lines.pop());
      for (const line of lines) {
        const message = JSON.parse(line);
        if (message.panel === undefined) {
          try {
            this.#rpc.receive(message);
          } catch (error) {
            // One message that cannot be shown: those behind it can, and the daemon is still there.
            this.panel.fail(error);
          }
          // Whoever waits for an answer goes on before the events that follow it are told.
          if (message.method === undefined) await new Promise((resolve) => setTimeout(resolve));
        } else if (message.panel.over !== undefined) return message.panel.over;
        else void this.#begin(message.panel);
      }
    }
  }

  /** @param {{ channel: string, folder: string, session: string }} greeting */
  async #begin({ channel, folder, session }) {
    this.#channel = channel;
    const sidecar = { protocol: [1], events: { coalesceMs: 33 }, permission: {}, elicitation: { form: {}, url: {} }, compaction: {} };
    const answer = await this.#rpc.request("initialize", {
      processId: null,
      rootUri: null,
      clientInfo: { name: "sidecar-panel" },
      capabilities: { experimental: { sidecar } },
    });
    this.#rpc.notify("initialized", {});
    this.#attempt = 0;
    await this.panel.connected({ folder, session, methods: answer.capabilities.experimental.sidecar.methods });
  }

  #headers() {
    return { Authorization: `Bearer ${this.token}` };
  }

  /** Messages go out in order, as many at once as have gathered. @param {object} message */
  #post(message) {
    this.#outgoing.push(JSON.stringify(message));
    if (!this.#isPosting) void this.#postAll();
  }

  async #postAll() {
    this.#isPosting = true;
    try {
      while (this.#outgoing.length > 0 && this.#channel !== "") {
        const body = this.#outgoing.splice(0).join("\n");
        await fetch(`send/${this.#channel}`, { method: "POST", headers: this.#headers(), body });
      }
    } catch {
      // The stream has ended as well, and its end is reported there.
    } finally {
      this.#outgoing.length = 0;
      this.#isPosting = false;
    }
  }
}

/** How long a new tab waits for one that is open, in milliseconds. */
const SIBLING_MS = 150;

/** @typedef {{ token: string, sid: string }} Shared */

/** What a tab at this address has; null for none. @param {BroadcastChannel} tabs @returns {Promise<Shared | null>} */
function askSibling(tabs) {
  return new Promise((resolve) => {
    tabs.onmessage = ({ data }) => data.shared && resolve(data.shared);
    tabs.postMessage({ asks: true });
    setTimeout(() => resolve(null), SIBLING_MS);
  });
}

const keptState = () => /** @type {{ sid?: string }} */ (JSON.parse(sessionStorage.getItem("state") ?? "{}"));
const given = new URLSearchParams(location.hash.slice(1)).get("token");
const tabs = new BroadcastChannel("tabs");
const isNew = sessionStorage.getItem("token") === null;
const shared = isNew ? await askSibling(tabs) : null;
if (given || shared !== null) {
  sessionStorage.setItem("token", given || (shared?.token ?? ""));
  history.replaceState(null, "", location.pathname);
}
if (shared?.sid && (given ?? shared.token) === shared.token) sessionStorage.setItem("state", JSON.stringify({ sid: shared.sid }));
const token = sessionStorage.getItem("token") ?? "";
tabs.onmessage = (/** @type {MessageEvent} */ { data }) => {
  if (data.asks && token !== "") tabs.postMessage({ shared: { token, sid: keptState().sid ?? "" } });
};
const root = /** @type {HTMLElement} */ (document.getElementById("panel"));
void new Browser(token, root).stay();
