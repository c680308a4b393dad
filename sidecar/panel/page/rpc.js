/** One end of JSON-RPC 2.0 over messages that are objects already. It holds the requests that wait, and nothing else. */

/** An error that the daemon answered with. */
export class RequestError extends Error {
  /** @param {{ code?: number, message?: string, data?: { kind?: string, hint?: string, details?: { pid?: number } } }} error */
  constructor(error) {
    super(error.message ?? "the request failed");
    this.kind = error.data?.kind ?? "internal";
    this.hint = error.data?.hint ?? "";
    /** Of a session that another process has open: that process. */
    this.pid = this.kind === "busy" ? error.data?.details?.pid : undefined;
  }

  /** The message with the next step. */
  get text() {
    return this.hint ? `${this.message}; ${this.hint}` : this.message;
  }
}

/** @param {unknown} error @returns {string} */
export function explain(error) {
  if (error instanceof RequestError) return error.text;
  return error instanceof Error ? error.message : String(error);
}

export class Rpc {
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void }>} */
  #waiting = new Map();
  #last = 0;

  /**
   * @param {(message: object) => void} post
   * @param {{ notified: (method: string, params: any) => void, asked: (id: number | string, method: string, params: any) => void }} handlers
   */
  constructor(post, handlers) {
    this.post = post;
    this.handlers = handlers;
  }

  /** @param {string} method @param {object} params @returns {Promise<any>} */
  request(method, params) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.post({ jsonrpc: "2.0", id, method, params });
    });
  }

  /** @param {string} method @param {object} params */
  notify(method, params) {
    this.post({ jsonrpc: "2.0", method, params });
  }

  /** @param {number | string} id @param {unknown} result */
  respond(id, result) {
    this.post({ jsonrpc: "2.0", id, result });
  }

  /** @param {string} method @param {number | string} id */
  refuse(method, id) {
    this.post({ jsonrpc: "2.0", id, error: { code: -32601, message: `the panel does not answer ${method}` } });
  }

  /** @param {any} message */
  receive(message) {
    if (message.method === undefined) {
      const waiting = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.error) waiting?.reject(new RequestError(message.error));
      else waiting?.resolve(message.result);
    } else if (message.id === undefined) this.handlers.notified(message.method, message.params);
    else this.handlers.asked(message.id, message.method, message.params);
  }

  /** Fail every request that waits. @param {string} reason */
  close(reason) {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const each of waiting) each.reject(new Error(reason));
  }
}
