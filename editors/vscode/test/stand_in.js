// Drives the compiled extension against a real daemon, with a stand-in for the editor's API:
//   NODE_PATH=../node_modules node stand_in.js OUT_FOLDER PROJECT_FOLDER DAEMON...
// PROJECT_FOLDER has an a.py with `answer = 42`. Prints what the user would have seen, as one JSON object.
// With STAND_IN_ONLY_STARTS set it runs no command.
"use strict";
const Module = require("node:module");
const path = require("node:path");

const [outFolder, projectFolder, daemon, ...daemonArguments] = process.argv.slice(2);
const seen = { output: "", gauge: [], messages: [], picks: [], opened: [], executed: [], documents: {} };
const COMMANDS = ["prompt", "prompt", "new", "resume", "context", "compact", "compare", "undo", "interrupt", "transcript"];
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
}

const token = { isCancellationRequested: false, onCancellationRequested: () => new Disposable() };
const settings = { command: daemon, arguments: daemonArguments, model: "" };
const channel = (name) => ({
  name,
  append: (text) => void (name === "Sidecar" && (seen.output += text)),
  appendLine: (text) => void (name === "Sidecar" && (seen.output += `${text}\n`)),
  ...Object.fromEntries(["show", "dispose", "trace", "debug", "info", "warn", "error"].map((key) => [key, () => {}])),
  onDidChangeLogLevel: () => new Disposable(),
});
const statusBarItem = {
  show() {},
  dispose() {},
  set text(text) {
    seen.gauge.push(text);
  },
};

// Whatever the client library asks for and nobody looks at here: events and registrations that do nothing.
const withDefaults = (known) =>
  new Proxy(known, { get: (target, key) => (key in target ? target[key] : () => new Disposable()) });

const vscode = {
  __esModule: true,
  Disposable,
  EventEmitter,
  Uri,
  version: "1.91.0",
  env: { appName: "Visual Studio Code", language: "en" },
  ViewColumn: { Beside: -2 },
  CancellationTokenSource: class {
    token = token;
    cancel() {}
    dispose() {}
  },
  workspace: withDefaults({
    workspaceFolders: [{ uri: Uri.file(projectFolder), name: "project", index: 0 }],
    textDocuments: [],
    notebookDocuments: [],
    getConfiguration: () => ({ get: (key, otherwise) => settings[key] ?? otherwise }),
    asRelativePath: (uri) => path.relative(projectFolder, uri.fsPath),
    registerTextDocumentContentProvider: (scheme, provider) => (contents.set(scheme, provider), new Disposable()),
    createFileSystemWatcher: () => withDefaults({}),
  }),
  window: withDefaults({
    visibleTextEditors: [],
    tabGroups: withDefaults({ all: [] }),
    createOutputChannel: channel,
    createStatusBarItem: () => statusBarItem,
    showInputBox: async () => "what is in a.py?",
    showInformationMessage: async (text) => void seen.messages.push(text),
    showErrorMessage: async (text) => void seen.messages.push(`error: ${text}`),
    showQuickPick: async (items, { title }) => {
      seen.picks.push([title, items.map((item) => item.label)]);
      return title.startsWith("Conversations") ? items[0] : undefined;
    },
    showTextDocument: async (uri) => {
      seen.opened.push(String(uri));
      await read(uri);
    },
    withProgress: (_options, run) => run({ report() {} }, token),
  }),
  languages: withDefaults({ match: () => 10, createDiagnosticCollection: () => withDefaults({}) }),
  commands: {
    registerCommand: (name, run) => {
      if (commands.has(name)) throw new Error(`command '${name}' already exists`);
      commands.set(name, run);
      return new Disposable();
    },
    executeCommand: async (name, ...given) => {
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
  await extension.activate({ subscriptions: [] });
  const names = process.env.STAND_IN_ONLY_STARTS ? [] : COMMANDS;
  for (const name of names) {
    await commands.get(`sidecar.ui.${name}`)();
  }
  await extension.deactivate();
  console.log(JSON.stringify({ ...seen, commands: [...commands.keys()] }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
