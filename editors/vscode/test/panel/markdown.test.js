import { expect, test, vi } from "vitest";
import { MarkdownView, markdown } from "../../../../sidecar/panel/page/markdown.js";

const html = (/** @type {string} */ text, /** @type {object} */ links = {}) => markdown(text, links).innerHTML;

test.each([
  ["a heading, below those of the page", "# Title", '<h3 class="heading-1">Title</h3>'],
  ["emphasis", "a **b *c*** `d`", "<p>a <strong>b <em>c</em></strong> <code>d</code></p>"],
  ["marks inside of words", "snake_case_name and 2*3*4 * 5", "<p>snake_case_name and 2<em>3</em>4 * 5</p>"],
  ["a list in a list", "- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"],
  ["numbers that begin elsewhere", "3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
  ["a paragraph that ends at a list", "a\n- b", "<p>a</p><ul><li>b</li></ul>"],
  ["a quote", "> a\n> b", "<blockquote><p>a\nb</p></blockquote>"],
  ["a line between", "a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"],
  ["escapes", "\\*a\\*", "<p>*a*</p>"],
  ["a broken line", "a  \nb", "<p>a  <br>b</p>"],
  ["HTML as text", "<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>"],
])("it draws %s", (_what, text, expected) => {
  expect(html(text)).toBe(expected);
});

test("code keeps every character, and names its language", () => {
  const made = markdown("```js\nconst a = '<b>' // **x**\n\n```\nafter");
  expect(made.querySelector("code")?.textContent).toBe("const a = '<b>' // **x**\n");
  expect(made.querySelector(".code-head span")?.textContent).toBe("js");
  expect(made.lastElementChild?.outerHTML).toBe("<p>after</p>");
});

test("a table has its sides", () => {
  const made = markdown("| a | b |\n|---|--:|\n| 1 | `x|` |\n| \\| | 2 |");
  expect([...made.querySelectorAll("td")].map((cell) => cell.textContent)).toEqual(["1", "`x", "|", "2"]);
  expect(made.querySelectorAll(".align-right")).toHaveLength(3);
});

test.each(["javascript:alert(1)", "data:text/html,x", "vbscript:x", "JAVASCRIPT:alert(1)", "command:workbench.action"])("no link leads to %s", (target) => {
  expect(markdown(`[x](${target}) [y](<${target}>)`, { openFile: () => {} }).querySelector("a")).toBeNull();
});

test("a link to the web says where it leads, and gives nothing away", () => {
  const link = markdown("see [here](https://example.com/a_(b) \"title\").").querySelector("a");
  expect([link?.getAttribute("href"), link?.getAttribute("rel"), link?.title]).toEqual(["https://example.com/a_(b)", "noopener noreferrer", "https://example.com/a_(b)"]);
});

test("an address in the text is a link, without the point after it", () => {
  expect(markdown("go to https://example.com/x_y. Now").querySelector("a")?.getAttribute("href")).toBe("https://example.com/x_y");
});

test("a file opens where the home can open it", () => {
  const openFile = vi.fn();
  const made = markdown("[it](src/a.py#L7) and `src/b.py:12`", { openFile });
  for (const link of made.querySelectorAll("a")) link.click();
  expect(openFile.mock.calls).toEqual([["src/a.py", 7], ["src/b.py", 12]]);
  expect(markdown("`src/b.py:12`").querySelector("a")).toBeNull();
});

test("pictures are never loaded", () => {
  expect(markdown("![secret](https://evil.example/?q=1)").querySelector("img")).toBeNull();
});

const LENGTH = 120_000;
const LONG = "# A\n\nSome **bold** text with `code`.\n\n- one\n- two\n  - three\n\n```py\nx = 1\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\nThe end of [it](https://example.com).\n";

test("what streams in pieces ends as what comes at once", () => {
  for (const size of [1, 3, 7, 50]) {
    const view = new MarkdownView({});
    for (let end = size; end < LONG.length; end += size) view.update(LONG.slice(0, end), false);
    view.update(LONG, true);
    expect(view.element.innerHTML).toBe(html(LONG));
  }
});

test("blocks that are complete are never drawn again", () => {
  const view = new MarkdownView({});
  view.update("# A\n\nfirst\n\nsec", false);
  const kept = [...view.element.children].slice(0, 2);
  view.update("# A\n\nfirst\n\nsecond\n\nthird", true);
  expect([...view.element.children].slice(0, 2)).toEqual(kept);
});

test("a mark that is not closed yet is drawn as if it were", () => {
  const view = new MarkdownView({});
  view.update("so **bo", false);
  expect(view.element.innerHTML).toBe("<p>so <strong>bo</strong></p>");
  view.update("so **bo", true);
  expect(view.element.innerHTML).toBe("<p>so **bo</p>");
});

test("code that grows keeps its element", () => {
  const view = new MarkdownView({});
  view.update("```\na", false);
  const block = view.element.firstElementChild;
  view.update("```\na\nb", false);
  expect(view.element.firstElementChild).toBe(block);
  expect(block?.querySelector("code")?.textContent).toBe("a\nb");
});

const BLANKS = " ".repeat(LENGTH);

// Each shape was slow once, or would be if two parts of a pattern shared a character: at this length work that is not
// linear takes minutes, and ends at the time limit of a test.
test.each([
  ["a heading with blanks inside", `# a${BLANKS}b`],
  ["a heading with marks inside", `# a${" #".repeat(LENGTH / 2)}b`],
  ["a fence with blanks and a mark", `~~~${BLANKS}\``],
  ["a fence of many marks", `${"~".repeat(LENGTH)}\``],
  ["a rule that is none", `-${BLANKS}x`],
  ["a rule of many marks", `${"- ".repeat(LENGTH / 2)}x`],
  ["an item with blanks and two kinds of line ends", `- ${BLANKS}x\u2028y`],
  ["a line below a table's head that is none", `a|b\n-|-${BLANKS}x`],
  ["a delimiter of many parts", `a|b\n${"-|".repeat(LENGTH / 2)}x`],
  ["a table of many columns", `${"a|".repeat(1000)}\n${"-|".repeat(1000)}\n${"b|".repeat(1000)}`],
  ["a table of many columns and short rows", `${"a|".repeat(2000)}\n${"-|".repeat(2000)}\n${"b|\n".repeat(2000)}`],
  ["brackets in brackets", "[".repeat(LENGTH / 2) + "]".repeat(LENGTH / 2)],
  ["pairs of brackets", "[]".repeat(LENGTH / 2)],
  ["targets that never end", "[](".repeat(LENGTH / 3)],
  ["targets of blanks", `[](${" ".repeat(3000)}`.repeat(LENGTH / 3000)],
  ["targets with titles that never end", "[](a \"[](b '".repeat(LENGTH / 12)],
  ["targets in angles", "[](<".repeat(LENGTH / 4)],
  ["addresses in words", "xhttp://".repeat(LENGTH / 8)],
  ["an address with points in it", `http://a${".".repeat(LENGTH)}b`],
  ["an address with brackets in it", `http://a${")".repeat(LENGTH)}b)`],
  ["code that begins with a blank", `\` ${"a".repeat(LENGTH)}\``],
  ["code in runs of all lengths", Array.from({ length: 600 }, (_, at) => "`".repeat(at + 1)).join(" ")],
  ["a file that is none", `\`${"a.".repeat(LENGTH / 2)}!\``],
  ["a path that is none", `\`${"a/".repeat(LENGTH / 2)}!\``],
  ["a link with many places", `[a](<${":1".repeat(2000)}>)`.repeat(LENGTH / 4000)],
  ["quotes in quotes", `${">".repeat(LENGTH / 2)}\n`.repeat(2)],
  ["line ends in a paragraph", "a\n".repeat(LENGTH / 2)],
  ["blanks before line ends", `${" ".repeat(50)}a\n`.repeat(LENGTH / 52)],
  ["marks that alternate", "*a **b _c __d ~~e ".repeat(LENGTH / 18)],
  ["marks that close nothing", "*a _b* c_ ".repeat(LENGTH / 10)],
  ["escapes", "\\".repeat(LENGTH)],
  ["angles", "<http://a".repeat(LENGTH / 9)],
])("the work for %s is linear", (_what, text) => {
  markdown(text, { openFile: () => {} });
});

test.each([["*"], ["["], ["`"], ["_a "], ["**a "], ["![]("], ["> "], ["- "], ["~~"], ["|a|b|\n"]])("many of %s take no long time", (part) => {
  markdown(part.repeat(20_000));
  markdown(`a ${part.repeat(2000)}\n\nb`);
});

test.each([
  ["# C# #", "C#"],
  ["## a ##  ", "a"],
  ["# #", ""],
])("the marks that close %s are no part of it", (text, expected) => {
  expect(markdown(text).firstElementChild?.textContent).toBe(expected);
});

test("an address is one link, and so is one with a mark in it", () => {
  expect(markdown("<https://a.example/x> https://b.example/a_b_c").querySelectorAll("a")).toHaveLength(2);
});

test("a short row of a table ends in one wide cell", () => {
  const made = markdown("a|b|c\n-|-|-\n1|");
  expect([...made.querySelectorAll("td")].map((cell) => [cell.textContent, cell.getAttribute("colspan")])).toEqual([["1", null], ["", "2"]]);
});

test("what would move other characters is shown, and what languages are written with stays", () => {
  const made = markdown("a\u202eb `c\u2066d` \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u{1f469}\u200d\u{1f4bb}\n\n```\ne\u202ef\n```");
  expect(made.querySelector("p")?.textContent).toBe("a‹U+202E›b c‹U+2066›d \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u{1f469}\u200d\u{1f4bb}");
  expect(made.querySelector("pre")?.textContent).toBe("e‹U+202E›f");
});
