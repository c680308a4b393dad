// Drives the compiled extension against a real daemon, with a stand-in for the editor's API:
//   NODE_PATH=../node_modules node stand_in.js OUT_FOLDER PROJECT_FOLDER DAEMON...
// PROJECT_FOLDER has an a.py with `answer = 42`. Prints what the user would have seen, as one JSON object.
// With STAND_IN_ONLY_STARTS set it only starts.
"use strict";
const Module = require("node:module");
const path = require("node:path");

const [outFolder, projectFolder, daemon, ...daemonArguments] = process.argv.slice(2);
const seen = { html: "", gauge: [], bar: [], messages: [], picks: [], opened: [], executed: [], documents: {}, said: [] };
const commands = new Map();
const contents = new Map();

class Disposable {
  constructor(dispose = () => {}) {
    this.dispose = dispose;
  }
  static from(...all) {
    return new Disposable(() => all.forEach((one) => one.dispose()));
  }
}

class EventEmitter {
  constructor() {
    this.listeners = [];
    this.event = (listener) => (this.listeners.push(listener), new Disposable());
  }
  fire(value) {
    this.listeners.forEach((listener) => listener(value));
  }
  dispose() {}
}

class Uri {
  constructor(text) {
    const url = new URL(text);
    this.scheme = url.protocol.slice(0, -1);
    this.path = this.fsPath = decodeURIComponent(url.pathname);
    this.toString = () => text;
  }
  static parse(text) {
    return new Uri(text);
  }
  static file(name) {
    return new Uri(`file://${name}`);
  }
  static from(parts) {
    return new Uri(`${parts.scheme}:${parts.path}`);
  }
  static joinPath(uri, ...parts) {
    return new Uri(`${uri}/${parts.join("/")}`);
  }
}

const token = { isCancellationRequested: false, onCancellationRequested: () => new Disposable() };
const look = (input) => [{ toolCall: { name: "code", input: { path: "a.py", symbol: "answer", ...input } } }];
const asking = [look({ kind: "definition" }), look({ kind: "hover" }), look({ kind: "rename", new_name: "reply" }), [{ text: "I see." }]];
const settings = { command: daemon, arguments: daemonArguments, model: "", models: { asking: { scripted: asking } } };
const channel = (name) => ({
  name,
  ...Object.fromEntries(["append", "appendLine", "show", "dispose", "trace", "debug", "info", "warn", "error"].map((key) => [key, () => {}])),
  onDidChangeLogLevel: () => new Disposable(),
});
const statusBarItem = (texts) => ({
  show() {},
  hide: () => void texts.push(""),
  dispose() {},
  set text(text) {
    texts.push(text);
  },
});

// The view, and a panel in it that only asks.
let provider;
const panel = {
  last: 0,
  waiting: new Map(),
  heard: new EventEmitter(),
  receive(message) {
    if (message.method === undefined) {
      const { resolve, reject } = this.waiting.get(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
      return;
    }
    seen.said.push([message.method, message.params]);
    this.heard.fire(message);
  },
  say: (method, params = {}) => fromPanel.fire({ method, params }),
  ask(method, params) {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      fromPanel.fire({ id, method, params });
    });
  },
  hears: (method) =>
    new Promise((resolve) => {
      panel.heard.event((message) => message.method === method && resolve(message.params));
    }),
};
const fromPanel = new EventEmitter();
const view = {
  webview: {
    cspSource: "vscode-webview://x",
    asWebviewUri: (uri) => uri,
    onDidReceiveMessage: fromPanel.event,
    postMessage: async (message) => panel.receive(message),
    set html(text) {
      seen.html = text;
    },
  },
  onDidDispose: () => new Disposable(),
};

// Whatever the client library asks for and nobody looks at here: events and registrations that do nothing.
const withDefaults = (known) =>
  new Proxy(known, { get: (target, key) => (key in target ? target[key] : () => new Disposable()) });

// A language extension that knows one name.
const span = (start, end) => ({ start, end });
const providers = {
  "vscode.executeDefinitionProvider": async (uri, at) => [{ uri, range: span(at, at) }],
  "vscode.executeHoverProvider": async () => [{ contents: [{ value: "**answer**" }, "an int"] }],
  "vscode.executeDocumentRenameProvider": async (_uri, at, name) => {
    throw new Error(`${name} at line ${at.line + 1} is taken`);
  },
};

const vscode = {
  __esModule: true,
  Disposable,
  EventEmitter,
  Uri,
  version: "1.91.0",
  env: { appName: "Visual Studio Code", language: "en" },
  Range: class {},
  Position: class {
    constructor(line, character) {
      Object.assign(this, { line, character });
    }
  },
  TabInputText: class {},
  ThemeColor: class {},
  ProgressLocation: { Notification: 15 },
  ViewColumn: { Beside: -2 },
  StatusBarAlignment: { Left: 1, Right: 2 },
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  CancellationTokenSource: class {
    token = token;
    cancel() {}
    dispose() {}
  },
  workspace: withDefaults({
    workspaceFolders: [{ uri: Uri.file(projectFolder), name: "project", index: 0 }],
    textDocuments: [],
    openTextDocument: async (uri) => ({ uri }),
    notebookDocuments: [],
    getConfiguration: () => ({ get: (key, otherwise) => settings[key] ?? otherwise }),
    asRelativePath: (given) => path.relative(projectFolder, path.resolve(projectFolder, given.fsPath ?? given)),
    registerTextDocumentContentProvider: (scheme, provider) => (contents.set(scheme, provider), new Disposable()),
    createFileSystemWatcher: () => withDefaults({}),
  }),
  window: withDefaults({
    visibleTextEditors: [],
    tabGroups: withDefaults({ all: [] }),
    createOutputChannel: channel,
    createStatusBarItem: (side) => statusBarItem(side === 1 ? seen.bar : seen.gauge),
    registerWebviewViewProvider: (_id, given) => ((provider = given), new Disposable()),
    showInformationMessage: async (text) => void seen.messages.push(text),
    showErrorMessage: async (text) => void seen.messages.push(`error: ${text}`),
    showQuickPick: async (items, { title }) => {
      seen.picks.push([title, items.map((item) => item.label)]);
      return items.at(-1);
    },
    showTextDocument: async (uri) => {
      seen.opened.push(String(uri));
      await read(uri);
    },
    withProgress: (_options, run) => run({ report() {} }, token),
  }),
  languages: withDefaults({ match: () => 10, getDiagnostics: () => [], createDiagnosticCollection: () => withDefaults({}) }),
  commands: {
    registerCommand: (name, run) => {
      if (commands.has(name)) throw new Error(`command '${name}' already exists`);
      commands.set(name, run);
      return new Disposable(() => commands.delete(name));
    },
    executeCommand: async (name, ...given) => {
      if (name in providers) return providers[name](...given);
      seen.executed.push([name, ...given.map(String)]);
      await Promise.all(given.filter((one) => one instanceof Uri).map(read));
    },
  },
};
// Any other class or enum of the API, by its capital letter.
const api = new Proxy(vscode, {
  get: (target, key) => {
    if (!(key in target) && typeof key === "string" && /^[A-Z]/.test(key)) target[key] = class {};
    return target[key];
  },
});

async function read(uri) {
  seen.documents[String(uri)] = await contents.get(uri.scheme)?.provideTextDocumentContent(uri, token);
}

const load = Module._load;
Module._load = (request, ...rest) => (request === "vscode" ? api : load.call(Module, request, ...rest));

async function main() {
  const extension = require(path.resolve(outFolder, "extension.js"));
  const state = new Map();
  const places = { extensionUri: Uri.file(path.resolve(outFolder, "..")), globalStorageUri: Uri.file(path.join(projectFolder, "storage")) };
  const workspaceState = { get: (key, otherwise) => state.get(key) ?? otherwise, update: async (key, value) => void state.set(key, value) };
  await extension.activate({ subscriptions: [], ...places, workspaceState });
  if (!process.env.STAND_IN_ONLY_STARTS) await useAll();
  await extension.deactivate();
  console.log(JSON.stringify({ ...seen, commands: [...commands.keys()] }));
}

async function useAll() {
  const run = (name) => commands.get(`sidecar.ui.${name}`)();
  const connected = panel.hears("panel/connected");
  provider.resolveWebviewView(view);
  panel.say("panel/ready");
  await connected;
  const { sid } = await panel.ask("sidecar/session/new", { cwd: projectFolder });
  panel.say("panel/follow", { sid });
  const prompt = (text) => panel.ask("sidecar/turn/run", { sid, input: [{ type: "text", text }] });
  await prompt("what is in a.py?");
  const answered = prompt("run `touch made-by-the-model`");
  await panel.hears("panel/permission");
  await run("permission");
  await answered;
  await prompt("what is in a.py?");
  const compacted = new Promise((resolve) => panel.heard.event(({ params }) => params.kind === "compaction" && params.data.status !== "in_progress" && resolve()));
  await run("compact");
  await compacted;
  await run("compare");
  await run("undo");
  await run("transcript");
  const asked = await panel.ask("sidecar/session/new", { cwd: projectFolder, model: "asking" });
  await panel.ask("sidecar/turn/run", { sid: asked.sid, input: [{ type: "text", text: "where?" }] });
  seen.told = (await panel.ask("sidecar/session/read", { sid: asked.sid })).nodes;
  panel.say("panel/openDiff", { path: "a.py", before: "old", after: "new" });
  panel.say("panel/openFile", { path: "a.py", line: 1 });
  const { pid } = await panel.ask("sidecar/status", {});
  const [lost, back] = [panel.hears("panel/disconnected"), panel.hears("panel/connected")];
  process.kill(pid, "SIGKILL");
  await lost;
  seen.back = await back;
  seen.loaded = (await panel.ask("sidecar/session/load", { sid })).snapshot.messages;
  const again = panel.hears("panel/connected");
  await run("restart");
  await again;
  await panel.ask("sidecar/session/load", { sid });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
