/**
 * Where a panel lives: a page of its own in a browser, or the view of an editor. The panel is the same in both.
 *
 * @typedef {import("../../../clients/typescript/src/protocol").Methods} Methods
 * @typedef {import("../../../clients/typescript/src/protocol").PermissionAnswer} PermissionAnswer
 * @typedef {import("../../../clients/typescript/src/protocol").ElicitationAnswer} ElicitationAnswer
 *
 * @typedef {object} Chip something of the editor that goes with the next prompt
 * @property {string} id
 * @property {string} label
 * @property {string} [detail]
 *
 * @typedef {object} Connected what a home knows when the daemon is there
 * @property {string} folder the folder of new conversations
 * @property {string} session the conversation to open: the start of its id, "last", or empty
 * @property {string[]} methods the requests that this daemon knows
 * @property {string} [model] the model of new conversations
 *
 * @typedef {object} Home
 * @property {"browser" | "editor"} kind
 * @property {<M extends keyof Methods>(method: M, params: Methods[M]["params"]) => Promise<Methods[M]["result"]>} request
 * @property {(questionId: string, answer: PermissionAnswer | ElicitationAnswer) => void} answer
 * @property {((pid: number) => void) | undefined} join connects with the daemon of that process instead
 * @property {() => object} recall what this page kept over a reload
 * @property {(state: object) => void} keep
 * @property {(sid: string) => void} follow says which conversation is shown
 * @property {((path: string, line?: number) => void) | undefined} openFile
 * @property {((url: string) => void) | undefined} openLink absent where the page may follow a link itself
 * @property {((sid: string, compactionId: string) => void) | undefined} openComparison
 * @property {((path: string, before: string, after: string) => void) | undefined} openDiff
 * @property {((id: string) => void) | undefined} dropChip
 */

export {};
