-- A question of the daemon: may it do this? The change is shown as a diff, and the answer is a key in that window.
-- Parts of a change can be refused, or edited first. The change of a selection is shown beside the file itself.
--
-- No answer is chosen beforehand and Enter answers nothing. Where the user is writing, the cursor stays where it is;
-- a key counts only once the question has been there for a moment, so that nobody answers by typing on.

local M = {}

local api = vim.api
local hunks = require("sidecar.hunks")
M.settle_ms = 400
local KEYS = { allow_once = "y", allow_always = "a", reject_once = "n" }

local open = {} ---@type table<string, table> by the id of the question

local function scratch(lines, name, like)
  local buffer = api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = "wipe"
  api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  pcall(api.nvim_buf_set_name, buffer, name)
  vim.bo[buffer].modifiable = false
  local filetype = like and vim.filetype.match({ filename = like })
  if filetype then
    vim.bo[buffer].syntax = filetype -- not the filetype: no language server is to read it
  end
  return buffer
end

--- End a question: close its windows, and answer it unless that was done elsewhere.
local function close(id, outcome)
  local question = open[id]
  if not question then
    return
  end
  open[id] = nil
  for _, window in ipairs(question.windows) do
    if api.nvim_win_is_valid(window) and window == question.file_window then
      api.nvim_win_call(window, function()
        vim.cmd.diffoff()
        vim.wo.winbar = question.former_winbar
        vim.fn.winrestview(question.former_view)
      end)
    elseif api.nvim_win_is_valid(window) then
      api.nvim_win_close(window, true)
    end
  end
  require("sidecar.prompt").fit(question.project)
  if api.nvim_win_is_valid(question.came_from) and question.entered then
    api.nvim_set_current_win(question.came_from)
  end
  question.params.answer(outcome)
  require("sidecar.chat").end_question(question.project, id, M.outcome_name(question.params, outcome))
  local _, next_question = next(open)
  if next_question and #next_question.windows == 0 then
    M.show(next_question)
  end
end

--- Return what was chosen, in words.
function M.outcome_name(params, outcome)
  for _, option in ipairs(params.options) do
    if option.optionId == outcome.optionId then
      return option.name
    end
  end
  return outcome.outcome
end

--- Remember the text that a user made of the proposed one which is shown.
local function keep_text(question)
  local second = question.windows[2]
  if second and api.nvim_win_is_valid(second) then
    question.texts[question.at] = api.nvim_buf_get_lines(api.nvim_win_get_buf(second), 0, -1, false)
  end
end

--- Give an answer; one that allows a change says which of its parts are refused or edited.
function M.answer(question, option)
  local outcome = { outcome = "selected", optionId = option.optionId }
  keep_text(question)
  if vim.startswith(option.kind, "allow") then
    outcome.hunks = {}
    for at, diff in ipairs(question.params.subject.diffs) do
      local lines = question.texts[at]
      local answers = lines and #(diff.hunks or {}) > 0 and hunks.answers(diff, at - 1, lines) or {}
      if not answers then
        local why = "only the lines of the change can be edited here; undo what was done to others"
        return require("sidecar.daemon").tell(why, vim.log.levels.WARN)
      end
      vim.list_extend(outcome.hunks, answers)
    end
  end
  close(question.params.permissionId, outcome)
end

local function answer_soon(question, option)
  return function()
    if vim.uv.now() - question.shown_at >= M.settle_ms then
      M.answer(question, option)
    end
  end
end

--- Refuse the part of the change under the cursor, or take it back in.
local function toggle(question, buffer)
  local diff = question.params.subject.diffs[question.at]
  local lines = api.nvim_buf_get_lines(buffer, 0, -1, false)
  vim.bo[buffer].modifiable = true
  api.nvim_buf_set_lines(buffer, 0, -1, false, hunks.toggle(diff, lines, api.nvim_win_get_cursor(0)[1] - 1))
  vim.bo[buffer].modifiable = false
  vim.cmd.diffupdate()
end

--- Map the keys of a question; `has_parts` says that the buffer has a text whose parts can be refused or edited.
local function map_keys(question, buffer, has_parts)
  local mapped = {}
  local function map(key, run, desc)
    table.insert(mapped, key)
    vim.keymap.set("n", key, run, { buffer = buffer, nowait = true, desc = desc })
  end
  for at, option in ipairs(question.params.options) do
    map(tostring(at), answer_soon(question, option), option.name)
    if KEYS[option.kind] then
      map(KEYS[option.kind], answer_soon(question, option), option.name)
    end
  end
  map("<Tab>", function()
    M.show_next_diff(question)
  end, "The next changed file")
  if not has_parts then
    return
  end
  map("x", function()
    toggle(question, buffer)
  end, "Refuse this part of the change, or take it back in")
  map("e", function()
    for _, key in ipairs(mapped) do
      vim.keymap.del("n", key, { buffer = buffer })
    end
    for _, option in ipairs(question.params.options) do
      local key = ({ allow_once = "ZZ", reject_once = "ZQ" })[option.kind]
      if key then
        vim.keymap.set("n", key, answer_soon(question, option), { buffer = buffer, desc = option.name })
      end
    end
    vim.bo[buffer].modifiable = true
    vim.wo.winbar = " [ZZ] Allow, as edited  [ZQ] Reject"
  end, "Edit the change before it is made")
end

--- Return a line for each answer: its key and what it means, whole.
local function legend(question)
  local lines = {}
  for at, option in ipairs(question.params.options) do
    table.insert(lines, ("[%s] %s"):format(KEYS[option.kind] or at, option.name))
  end
  return lines
end

local function short_legend(question)
  return table.concat(vim.tbl_map(function(line)
    return #line > 24 and line:sub(1, 22) .. "…" or line
  end, legend(question)), "  ")
end

local function bar(text)
  return " " .. text:gsub("%%", "%%%%"):gsub("\n", " ")
end

--- Return whether a proposed change has parts outside of the lines that were to be changed.
local function is_outside(change, diff)
  return vim.iter(diff.hunks):any(function(hunk)
    return hunk.oldStart < change.first - 1 or hunk.oldEnd > change.last
  end)
end

--- Fill the windows of a question with one changed file, or with what is to be run.
local function fill(question)
  local subject = question.params.subject
  local diff = subject.diffs[question.at]
  local first, second = question.windows[1], question.windows[2]
  local why = question.params.description
  if not diff then
    local lines = hunks.lines_of(subject.detail)
    if question.params.title ~= "Run " .. subject.detail then -- where and how it runs, of which a bar may show the end alone
      table.insert(lines, 1, (question.params.title:gsub("\n", " ")))
      table.insert(lines, 2, "")
    end
    if why then
      vim.list_extend(lines, { "", why })
    end
    local buffer = scratch(lines, "sidecar-question://" .. question.params.permissionId)
    map_keys(question, buffer)
    api.nvim_win_set_buf(first, buffer)
    vim.wo[first].winbar = bar(question.params.title .. "   " .. short_legend(question))
    return
  end
  local name = vim.fn.fnamemodify(diff.path, ":.")
  local many = #subject.diffs > 1 and (" (%d of %d, Tab shows the next)"):format(question.at, #subject.diffs) or ""
  local has_parts = #(diff.hunks or {}) > 0
  local keys = short_legend(question)
  if has_parts then -- half a screen is narrow; the conversation has the answers whole
    keys = keys:gsub("(%[.%] %S+)[^%[]*", "%1 ") .. "[x] Refuse a part [e] Edit"
  end
  local state = diff.oldText == nil and ", a new file" or ", as it is"
  if question.file_window and is_outside(question.change, diff) then
    state = state .. "; the change goes beyond the selection"
  end
  local sides = {
    { first, hunks.lines_of(diff.oldText), "now", bar(name .. state .. many) },
    { second, question.texts[question.at] or hunks.lines_of(diff.newText), "then", bar(keys) },
  }
  for _, side in ipairs(sides) do
    local window, lines, word, shown = unpack(side)
    if window ~= question.file_window then
      local address = ("sidecar-question://%s/%d/%s/%s"):format(question.params.permissionId, question.at, word, name)
      local buffer = scratch(lines, address, diff.path)
      map_keys(question, buffer, word == "then" and has_parts)
      api.nvim_win_set_buf(window, buffer)
    end
    vim.wo[window].winbar = shown
    vim.wo[window].foldlevel = 0
    api.nvim_win_call(window, vim.cmd.diffthis)
  end
  api.nvim_win_call(second, function()
    api.nvim_win_set_cursor(second, { 1, 0 })
    if vim.fn.diff_hlID(1, 1) == 0 then
      pcall(vim.cmd.normal, { "]c", bang = true })
    end
  end)
end

function M.show_next_diff(question)
  local n = #question.params.subject.diffs
  if n > 1 then
    keep_text(question)
    question.at = question.at % n + 1
    for _, window in ipairs(question.windows) do
      api.nvim_win_call(window, vim.cmd.diffoff)
    end
    fill(question)
  end
end

--- Return the window of the file whose selection is to be changed, if that is what is asked and it is shown here.
local function file_window(question)
  local change, diffs = question.change, question.params.subject.diffs
  if not change or #diffs ~= 1 or not api.nvim_buf_is_valid(change.buffer) then
    return
  end
  local is_same = vim.fs.normalize(diffs[1].path) == vim.fs.normalize(api.nvim_buf_get_name(change.buffer))
  return is_same and vim.iter(api.nvim_tabpage_list_wins(0)):find(function(window)
    return api.nvim_win_get_buf(window) == change.buffer and not vim.wo[window].diff
  end) or nil
end

--- Open the windows of a question; the cursor goes there unless the user is writing or the question is not theirs.
function M.show(question)
  local is_writing = vim.fn.mode():match("^[icRsS\22]") ~= nil
  local is_change = #question.params.subject.diffs > 0
  local n_lines = #hunks.lines_of(question.params.subject.detail)
  local height = is_change and math.max(8, math.floor(vim.o.lines / 3)) or math.min(12, n_lines + 5)
  question.came_from = api.nvim_get_current_win()
  question.shown_at = vim.uv.now()
  local buffer = api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = "wipe"
  local first = file_window(question)
  question.file_window = first
  if first then
    question.former_winbar = vim.wo[first].winbar
    question.former_view = api.nvim_win_call(first, vim.fn.winsaveview)
  end
  first = first or api.nvim_open_win(buffer, false, { split = "below", win = -1, height = height })
  question.windows = { first }
  if is_change then
    question.windows[2] = api.nvim_open_win(buffer, false, { split = "right", win = first })
  end
  fill(question)
  local lines = legend(question)
  table.insert(lines, question.params.description)
  local here = vim.b.sidecar_root == question.project.root or question.came_from == question.file_window
  if here and not is_writing then
    question.entered = true
    api.nvim_set_current_win(question.windows[#question.windows])
  else
    table.insert(lines, ":Sidecar answer goes to the question")
    require("sidecar.daemon").tell(question.params.title .. "? :Sidecar answer goes to it", vim.log.levels.WARN)
  end
  require("sidecar.chat").show_question(question.project, question.params.permissionId, question.params.title, lines)
end

--- Ask; `params` is the daemon's question with its `answer`.
function M.ask(project, params)
  local question = { project = project, params = params, windows = {}, at = 1, texts = {} }
  if project.change and project.change.turn_id == params.turnId then
    question.change = project.change
    project.change.is_asked = true
  end
  local is_first = next(open) == nil
  open[params.permissionId] = question
  if is_first then
    M.show(question)
  end
end

--- Take back a question that is over: answered elsewhere, or too late.
function M.withdraw(params)
  close(params.permissionId, { outcome = "cancelled" })
end

--- Take back every question of a project.
function M.withdraw_all(project)
  for id, question in pairs(open) do
    if question.project == project then
      close(id, { outcome = "cancelled" })
    end
  end
end

--- Put the cursor into the question that is open, and return whether there is one.
function M.enter()
  for _, question in pairs(open) do
    local window = question.windows[#question.windows]
    if window and api.nvim_win_is_valid(window) then
      question.entered = true
      vim.cmd.stopinsert()
      api.nvim_set_current_win(window)
      return true
    elseif #question.windows > 0 then -- its windows were closed
      M.show(question)
      return true
    end
  end
  return false
end

return M
