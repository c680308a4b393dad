import { expect, test, vi } from "vitest";
import { Colours, layRuns } from "../../../../sidecar/panel/page/colours.js";
import { diffView } from "../../../../sidecar/panel/page/diff.js";
import { codeBlock } from "../../../../sidecar/panel/page/markdown.js";

const element = (/** @type {string} */ text) => Object.assign(document.createElement("code"), { textContent: text });

test.each([
  ["runs become spans", "x = 1", [{ start: 4, length: 1, kind: "number" }], 0, 'x = <span class="code-number">1</span>'],
  ["a run of several lines is cut", "b' c", [{ start: 0, length: 4, kind: "string" }], 2, '<span class="code-string">b\'</span> c'],
  ["text stays text", "<b>", [{ start: 0, length: 3, kind: "name" }], 0, '<span class="code-name">&lt;b&gt;</span>'],
  ["an unknown kind stays plain", "x", [{ start: 0, length: 1, kind: "x y" }], 0, "x"],
  ["runs that overlap or are out of place add nothing", "ab", [{ start: 0, length: 2, kind: "name" }, { start: 1, length: 9, kind: "string" }, { start: 7, length: 1, kind: "name" }], 0, '<span class="code-name">ab</span>'],
])("%s", (_, text, runs, from, html) => {
  const shown = element(text);
  layRuns(shown, runs, from);
  expect(shown.innerHTML).toBe(html);
  expect(shown.textContent).toBe(text);
});

test("code is asked for by language, a diff without what is removed by its path, a long text not at all", async () => {
  const ask = vi.fn(async () => ({ runs: [{ start: 0, length: 1, kind: "name" }] }));
  new Colours(ask);
  const diff = diffView([{ kind: "-", text: "old" }, { kind: "+", text: "a" }, { kind: " ", text: "b" }], "Changes", "/p/a.py");
  document.body.append(codeBlock("x".repeat(100_001), "python", true), codeBlock("open", "python"), codeBlock("x = 1", "python", true), diff);
  await vi.waitFor(() => expect(ask.mock.calls).toEqual([["x = 1", { language: "python" }], ["a\nb", { path: "/p/a.py" }]]));
  await vi.waitFor(() => expect(diff.querySelector(".added .code-name")?.textContent).toBe("a"));
  expect(diff.querySelector(".removed span span")).toBe(null);
});
