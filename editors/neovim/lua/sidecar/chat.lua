-- The buffer of a conversation: text as it is written, calls and their output folded below one line each.
--
-- The last line of the buffer is always empty: everything is put in before it, its virtual text says what is going
-- on, and a window whose cursor is there follows the end. Lines that are shown are only ever added, so that nothing
-- flickers and marks stay; what a call has to show are virtual lines of the extmark on its own line.

local M = {}

local api = vim.api
local ns = api.nvim_create_namespace("sidecar")
local FOLDED, OPENED = 3, 400
local FRAMES = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" }
local WORDS = { invoking = "asking the model", streaming = "answering", dispatching = "using tools", compacting = "compacting" }

---@class sidecar.Chat
---@field buffer integer
---@field items table<string, table> what is shown, by its id
---@field at_mark table<integer, table> the items with something to open, by their extmark
local chats = {} ---@type table<string, sidecar.Chat> by the root of the project

for name, link in pairs({
  SidecarPrompt = "Title",
  SidecarTool = "Identifier",
  SidecarDetail = "Comment",
  SidecarAdded = "DiffAdd",
  SidecarRemoved = "DiffDelete",
  SidecarNotice = "WarningMsg",
  SidecarDone = "DiagnosticOk",
  SidecarFailed = "DiagnosticError",
  SidecarStatus = "NonText",
}) do
  api.nvim_set_hl(0, name, { link = link, default = true })
end

--- Show `buffer` as Markdown, with the parser where this Neovim has it.
function M.highlight(buffer)
  if not pcall(vim.treesitter.start, buffer, "markdown") then
    vim.bo[buffer].syntax = "markdown"
  end
end

local function new_buffer(project)
  local buffer = api.nvim_create_buf(false, true)
  api.nvim_buf_set_name(buffer, "sidecar-chat://" .. project.root)
  vim.bo[buffer].modifiable, vim.bo[buffer].undolevels = false, -1
  vim.bo[buffer].filetype = "sidecar"
  vim.b[buffer].sidecar_root = project.root
  M.highlight(buffer)
  local function map(keys, run, desc)
    vim.keymap.set("n", keys, run, { buffer = buffer, desc = desc })
  end
  map("<Tab>", function()
    M.toggle(project)
  end, "Open or fold what is below this line")
  map("<C-c>", function()
    require("sidecar").stop()
  end, "Stop the answer")
  for _, key in ipairs({ "i", "a", "o", "<CR>" }) do
    map(key, function()
      require("sidecar.prompt").open(project, true)
    end, "Write a prompt")
  end
  return buffer
end

--- Return the chat of a project, made at the first call.
function M.of(project)
  local chat = chats[project.root]
  if not (chat and api.nvim_buf_is_valid(chat.buffer)) then
    chat = { buffer = new_buffer(project), items = {}, at_mark = {} }
    chats[project.root] = chat
  end
  return chat
end

--- Return the window that shows the conversation, nil for none.
function M.window(project)
  local chat = chats[project.root]
  return chat and vim.fn.win_findbuf(chat.buffer)[1]
end

--- Show the conversation beside the current window, and return its window.
function M.open(project)
  local window = M.window(project)
  if not window then
    local chat = M.of(project)
    local split = vim.o.columns >= 120 and "right" or "below"
    window = api.nvim_open_win(chat.buffer, false, { split = split, win = 0 })
    vim.wo[window].winbar = "%{%v:lua.require'sidecar'.winbar()%}"
    vim.wo[window].wrap, vim.wo[window].linebreak, vim.wo[window].breakindent = true, true, true
    vim.wo[window].number, vim.wo[window].relativenumber, vim.wo[window].signcolumn = false, false, "no"
    vim.wo[window].conceallevel, vim.wo[window].concealcursor = 2, "n"
    vim.wo[window].foldenable, vim.wo[window].spell = false, false
    api.nvim_win_set_cursor(window, { api.nvim_buf_line_count(chat.buffer), 0 })
  end
  return window
end

--- Change the buffer by `change`, and keep the windows at the end that were there.
local function edit(chat, change)
  local last = api.nvim_buf_line_count(chat.buffer)
  local following = vim.tbl_filter(function(window)
    return api.nvim_win_get_cursor(window)[1] == last
  end, vim.fn.win_findbuf(chat.buffer))
  vim.bo[chat.buffer].modifiable = true
  change()
  vim.bo[chat.buffer].modifiable = false
  last = api.nvim_buf_line_count(chat.buffer)
  for _, window in ipairs(following) do
    api.nvim_win_set_cursor(window, { last, 0 })
    api.nvim_win_call(window, function()
      vim.cmd.normal({ "zb", bang = true }) -- virtual lines do not scroll by themselves
    end)
  end
end

local function clean(text)
  return (text:gsub("\r\n?", "\n"):gsub("%z", ""))
end

--- Put lines before the last one, after an empty line where `is_apart`, and return the row of the first.
local function add_lines(chat, lines, is_apart)
  local row = api.nvim_buf_line_count(chat.buffer) - 1
  local before = row > 0 and api.nvim_buf_get_lines(chat.buffer, row - 1, row, false)[1] or ""
  is_apart = is_apart and before ~= ""
  if is_apart then
    table.insert(lines, 1, "")
  end
  edit(chat, function()
    api.nvim_buf_set_lines(chat.buffer, row, row, false, lines)
  end)
  return row + (is_apart and 1 or 0)
end

local function row_of(chat, item)
  return api.nvim_buf_get_extmark_by_id(chat.buffer, ns, item.mark, {})[1]
end

--- Return `text` in pieces of at most `width` cells, cut between words where that can be.
local function wrap(text, width)
  local pieces = {}
  while vim.fn.strdisplaywidth(text) > width do
    local piece = vim.fn.strcharpart(text, 0, width)
    local at = piece:match(".*()%s") or #piece + 1
    table.insert(pieces, text:sub(1, at - 1))
    text = vim.trim(text:sub(at))
  end
  table.insert(pieces, text)
  return pieces
end

--- Draw the line of an item again: its state behind it, and what it has to show below it.
local function draw(chat, item)
  local lines, shown = {}, item.is_open and OPENED or item.folded or FOLDED
  local window = vim.fn.win_findbuf(chat.buffer)[1]
  local width = window and api.nvim_win_get_width(window) - 4 or 76
  for at, detail in ipairs(item.details or {}) do
    if at > shown then
      local more = ("  … %d more lines, Tab opens them"):format(#item.details - shown)
      table.insert(lines, { { more, "SidecarStatus" } })
      break
    end
    local text = detail[1]:gsub("\t", "    ")
    for _, piece in ipairs(item.is_prose and wrap(text, width) or { text }) do
      table.insert(lines, { { "  " .. piece, detail[2] or "SidecarDetail" } })
    end
  end
  edit(chat, function()
    api.nvim_buf_set_extmark(chat.buffer, ns, row_of(chat, item), 0, {
      id = item.mark,
      virt_text = item.state and { item.state },
      virt_lines = #lines > 0 and lines or nil,
      line_hl_group = item.highlight,
    })
  end)
end

--- Add an item with a line of its own.
local function add_item(chat, id, line, fields, is_apart)
  local row = add_lines(chat, { (line:gsub("\n", " ")) }, is_apart)
  local item = vim.tbl_extend("force", { mark = api.nvim_buf_set_extmark(chat.buffer, ns, row, 0, {}) }, fields)
  chat.items[id], chat.at_mark[item.mark], chat.open = item, item, nil
  draw(chat, item)
  return item
end

local function details_of(text, highlight)
  local lines = vim.split((clean(text):gsub("%s+$", ""):gsub("^\n+", "")), "\n")
  return vim.tbl_map(function(line)
    return { line, highlight }
  end, lines[1] == "" and #lines == 1 and {} or lines)
end

--- Return the lines of a change of a file, as a diff.
local function diff_details(diff)
  local make = vim.text and vim.text.diff or vim.diff
  local before = diff.oldText or ""
  local details = {}
  for _, line in ipairs(vim.split(vim.trim(make(before, diff.newText, { ctxlen = 2 })), "\n")) do
    local first = line:sub(1, 1)
    table.insert(details, { line, first == "+" and "SidecarAdded" or first == "-" and "SidecarRemoved" or nil })
  end
  return details
end

--- Add text to the message `id`, which grows where it is.
local function add_text(chat, id, text)
  text = clean(text)
  local item = chat.items[id]
  if not item then
    local row = add_lines(chat, { "" }, chat.open ~= id)
    item = { start = api.nvim_buf_set_extmark(chat.buffer, ns, row, 0, { right_gravity = false }), text = "" }
    item.finish = api.nvim_buf_set_extmark(chat.buffer, ns, row, 0, { right_gravity = true })
    chat.items[id], chat.open = item, id
  end
  item.text = item.text .. text
  local at = api.nvim_buf_get_extmark_by_id(chat.buffer, ns, item.finish, {})
  edit(chat, function()
    api.nvim_buf_set_text(chat.buffer, at[1], at[2], at[1], at[2], vim.split(text, "\n"))
  end)
end

--- Let the message `id` be `text`, whatever of it came before.
local function set_text(chat, id, text)
  text = clean(text)
  local item = chat.items[id]
  if item and item.text ~= text:sub(1, #item.text) then
    local from = api.nvim_buf_get_extmark_by_id(chat.buffer, ns, item.start, {})
    local to = api.nvim_buf_get_extmark_by_id(chat.buffer, ns, item.finish, {})
    edit(chat, function()
      api.nvim_buf_set_text(chat.buffer, from[1], from[2], to[1], to[2], {})
    end)
    item.text = ""
  end
  local rest = text:sub(#(item and item.text or "") + 1)
  if rest ~= "" then
    add_text(chat, id, rest)
  end
end

local function content_text(content, kind)
  local parts = {}
  for _, block in ipairs(content) do
    if block.type == kind then
      table.insert(parts, block.text)
    elseif kind == "text" and block.type ~= "thinking" then
      table.insert(parts, ("[%s]"):format(block.uri or block.name or block.type))
    end
  end
  return table.concat(parts, "\n")
end

local function set_thinking(chat, id, text)
  if text == "" then
    return
  end
  local item = chat.items["thinking " .. id]
    or add_item(chat, "thinking " .. id, "· thinking", { highlight = "SidecarDetail", folded = 1, is_prose = true }, true)
  item.details = details_of(text)
  item.text = text
  draw(chat, item)
end

--- Add a line about the conversation.
function M.say(project, text, highlight)
  local first, rest = text:match("^([^\n]*)\n?(.*)$")
  local chat = M.of(project)
  chat.n_said = (chat.n_said or 0) + 1
  local fields = { highlight = highlight or "SidecarDetail", details = details_of(rest), folded = 8, is_prose = true }
  add_item(chat, "said " .. chat.n_said, first, fields, true)
end

local TODO = { completed = "✓", in_progress = "▸", pending = "·" }

local function show_plan(chat, entries)
  local done, details = 0, {}
  for _, entry in ipairs(entries) do
    done = done + (entry.status == "completed" and 1 or 0)
    local sign = TODO[entry.status] or "·"
    table.insert(details, { sign .. " " .. entry.content, entry.status == "completed" and "SidecarDone" or nil })
  end
  local item = chat.items.plan or add_item(chat, "plan", "· todo", { folded = 12 }, true)
  item.details, item.state = details, { ("  %d of %d"):format(done, #entries), "SidecarStatus" }
  draw(chat, item)
end

local COMPACTIONS = {
  in_progress = "at work",
  completed = "done",
  failed = "failed",
  cancelled = "cancelled",
  noop = "nothing to compact",
  undone = "undone",
}

local function show_compaction(chat, data)
  local id = "compaction " .. data.compactionId .. (data.status == "undone" and " undone" or "")
  local title = data.trigger == "expand" and "· expansion" or "· compaction"
  local item = chat.items[id] or add_item(chat, id, title, { folded = 4, is_prose = true }, true)
  local sizes = ""
  if data.postTokens then -- not of one that is undone
    sizes = (", %d → %d tokens"):format(data.preTokens, data.postTokens)
  end
  item.state = { ("  %s%s"):format(COMPACTIONS[data.status] or data.status, sizes), "SidecarStatus" }
  local details = details_of(data.error or data.reason or "")
  if data.loss and data.status ~= "undone" then
    local counts = ("facts: %d kept, %d shortened, %d let go"):format(data.loss.kept, data.loss.shortened, data.loss.gone)
    table.insert(details, { counts .. " (/loss lists them, :Sidecar compare shows both sides)" })
  end
  vim.list_extend(details, details_of(data.status == "completed" and data.summary or ""))
  item.details = details
  draw(chat, item)
end

local show = {}

function show.userMessage(chat, data)
  local lines = vim.split(clean(content_text(data.content, "text")), "\n")
  for at, line in ipairs(lines) do
    lines[at] = (at == 1 and "» " or "  ") .. line
  end
  local n = #lines
  local row = add_lines(chat, lines, true)
  for at = 0, n - 1 do
    api.nvim_buf_set_extmark(chat.buffer, ns, row + at, 0, { line_hl_group = "SidecarPrompt" })
  end
  chat.open, chat.items.plan = nil, nil
end

function show.textDelta(chat, data)
  add_text(chat, data.messageId, data.delta)
end

function show.thinkingDelta(chat, data)
  local item = chat.items["thinking " .. data.messageId]
  set_thinking(chat, data.messageId, (item and item.text or "") .. data.delta)
end

function show.message(chat, data)
  set_thinking(chat, data.messageId, content_text(data.content, "thinking"))
  set_text(chat, data.messageId, content_text(data.content, "text"))
end

function show.toolStarted(chat, data)
  local state = { "  …", "SidecarStatus" }
  add_item(chat, data.toolCallId, "· " .. data.title, { highlight = "SidecarTool", state = state }, true)
end

function show.toolProgress(chat, data)
  local item = chat.items[data.toolCallId]
  if item then
    item.output = ((item.output or "") .. data.content):sub(-4000)
    item.details = vim.list_slice(details_of(item.output), -FOLDED)
    draw(chat, item)
  end
end

function show.toolFinished(chat, data)
  if not chat.items[data.toolCallId] then
    show.toolStarted(chat, data)
  end
  local item = chat.items[data.toolCallId]
  item.state = data.isError and { "  ✗", "SidecarFailed" } or { "  ✓", "SidecarDone" }
  item.details = details_of(type(data.content) == "string" and data.content or "")
  if #(data.diffs or {}) > 0 then
    item.details, item.folded = {}, 16
    for _, diff in ipairs(data.diffs) do
      vim.list_extend(item.details, diff_details(diff))
    end
  end
  draw(chat, item)
end

function show.plan(chat, data)
  show_plan(chat, data.entries)
end

show.compaction = show_compaction

local function said(make)
  return function(_, data, project)
    local text, highlight = make(data)
    if text then
      M.say(project, text, highlight)
    end
  end
end

local function short(uri)
  return vim.fn.fnamemodify(vim.uri_to_fname(uri), ":.")
end

local function names(uris)
  return table.concat(vim.tbl_map(short, uris), ", ")
end

show.notice = said(function(data)
  local title = data.severity == "info" and data.title or data.severity .. ": " .. data.title
  return title .. "\n" .. (data.description or ""), data.severity ~= "info" and "SidecarNotice" or nil
end)
show.retry = said(function(data)
  return ("the model did not answer, again in %d s (%d of %d)\n%s"):format(
    math.ceil(data.delayMs / 1000), data.attempt, data.max, data.error), "SidecarNotice"
end)
show.rehydrated = said(function(data)
  local uris = vim.tbl_map(function(file)
    return file.uri
  end, data.files)
  return #uris > 0 and ("· restored as %s now: %s"):format(#uris == 1 and "it is" or "they are", names(uris)) or nil
end)
show.fileStale = said(function(data)
  return ("· %s changed since the model read it"):format(short(data.uri))
end)
show.compactionNear = said(function()
  return "· a compaction is near; /compact with a wish decides what the summary stresses"
end)
show.budgetNear = said(function(data)
  return ("· four fifths of the budget of this %s are spent; /budget shows it"):format(data.per), "SidecarNotice"
end)
show.headMoved = said(function(data)
  return data.cause == "rewind" and ("· went back; %d messages left the conversation"):format(#data.removed) or nil
end)
show.gap = said(function(data)
  return ("· %d events were lost on the way; :Sidecar transcript has everything"):format(data.to - data.from + 1)
end)
show.faulted = said(function(data)
  return "failed: " .. data.message, "SidecarFailed"
end)
show.settled = said(function(data)
  return data.stopReason ~= "end_turn" and ("(%s)"):format((data.stopReason:gsub("_", " "))) or nil
end)
show.died = said(function(data)
  return data.why, "SidecarNotice"
end)

--- Show one event.
function M.show(project, kind, data)
  local row = show[kind]
  if row then
    row(M.of(project), data, project)
  end
  M.show_status(project)
end

--- Open or fold the item of the line under the cursor.
function M.toggle(project)
  local chat = M.of(project)
  local row = api.nvim_win_get_cursor(0)[1] - 1
  for _, mark in ipairs(api.nvim_buf_get_extmarks(chat.buffer, ns, { row, 0 }, { row, -1 }, {})) do
    local item = chat.at_mark[mark[1]]
    if item then
      item.is_open = not item.is_open
      draw(chat, item)
    end
  end
end

function M.is_busy(project)
  return WORDS[project.phase] ~= nil
end

--- Return whether the conversation waits for its user.
function M.is_waiting(project)
  return project.work ~= nil and project.work.state == "waiting"
end

--- Say on the last line what is going on; once a second while something is.
function M.show_status(project)
  local chat = chats[project.root]
  if not chat or not api.nvim_buf_is_loaded(chat.buffer) then
    return
  end
  local parts = {}
  local is_waiting = chat.question or M.is_waiting(project)
  if is_waiting then
    table.insert(parts, "? waiting for you")
  elseif M.is_busy(project) then
    chat.since = chat.since or vim.uv.now()
    local seconds = math.floor((vim.uv.now() - chat.since) / 1000)
    local frame = FRAMES[math.floor(vim.uv.now() / 120) % #FRAMES + 1]
    table.insert(parts, ("%s %s, %d s"):format(frame, WORDS[project.phase], seconds))
    chat.timer = chat.timer or vim.uv.new_timer()
    if not chat.timer:is_active() then
      chat.timer:start(200, 200, vim.schedule_wrap(function()
        M.show_status(project)
      end))
    end
  end
  if not M.is_busy(project) then
    chat.since = nil
    if chat.timer then
      chat.timer:stop()
    end
  end
  if project.queued > 0 then
    table.insert(parts, ("%d queued"):format(project.queued))
  end
  local text = table.concat(parts, " · ")
  local last = api.nvim_buf_line_count(chat.buffer) - 1
  chat.status = api.nvim_buf_set_extmark(chat.buffer, ns, last, 0, {
    id = chat.status,
    virt_text = text ~= "" and { { text, is_waiting and "SidecarNotice" or "SidecarStatus" } } or nil,
    virt_text_pos = "overlay",
  })
end

--- Show a question and its answers; the last line says that it waits.
function M.show_question(project, id, title, lines)
  local chat = M.of(project)
  local item = chat.items["question " .. id]
    or add_item(chat, "question " .. id, "? " .. title, { highlight = "SidecarNotice", folded = 8, is_prose = true }, true)
  item.details = vim.tbl_map(function(line)
    return { line }
  end, lines)
  draw(chat, item)
  chat.question = true
  M.show_status(project)
end

--- Say how a question ended.
function M.end_question(project, id, outcome)
  local chat = M.of(project)
  local item = chat.items["question " .. id]
  if item then
    item.details, item.state = {}, { "  " .. outcome, "SidecarStatus" }
    draw(chat, item)
  end
  chat.question = nil
  M.show_status(project)
end

--- Empty the chat, for another conversation.
function M.clear(project)
  local chat = M.of(project)
  api.nvim_buf_clear_namespace(chat.buffer, ns, 0, -1)
  chat.items, chat.at_mark, chat.open, chat.status, chat.question = {}, {}, nil, nil, nil
  edit(chat, function()
    api.nvim_buf_set_lines(chat.buffer, 0, -1, false, { "" })
  end)
end

return M
