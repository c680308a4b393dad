-- A question of the daemon: may it do this? The change is shown as a diff, and the answer is a key in that window.
--
-- No answer is chosen beforehand and Enter answers nothing. Where the user is writing, the cursor stays where it is;
-- a key counts only once the question has been there for a moment, so that nobody answers by typing on.

local M = {}

local api = vim.api
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

local function lines_of(text)
  local lines = vim.split(text or "", "\n")
  if lines[#lines] == "" then
    table.remove(lines)
  end
  return lines
end

--- End a question: close its windows, and answer it unless that was done elsewhere.
local function close(id, outcome)
  local question = open[id]
  if not question then
    return
  end
  open[id] = nil
  for _, window in ipairs(question.windows) do
    if api.nvim_win_is_valid(window) then
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

function M.answer(id, option)
  close(id, { outcome = "selected", optionId = option.optionId })
end

local function map_keys(question, buffer)
  for at, option in ipairs(question.params.options) do
    local function answer()
      if vim.uv.now() - question.shown_at >= M.settle_ms then
        M.answer(question.params.permissionId, option)
      end
    end
    for _, key in ipairs({ KEYS[option.kind] or tostring(at), tostring(at) }) do
      vim.keymap.set("n", key, answer, { buffer = buffer, nowait = true, desc = option.name })
    end
  end
  vim.keymap.set("n", "<Tab>", function()
    M.show_next_diff(question)
  end, { buffer = buffer, desc = "The next changed file" })
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

--- Fill the windows of a question with one changed file, or with what is to be run.
local function fill(question)
  local subject = question.params.subject
  local diff = subject.diffs[question.at]
  local first, second = question.windows[1], question.windows[2]
  local why = question.params.description
  if not diff then
    local lines = lines_of(subject.detail)
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
  local sides = {
    { first, diff.oldText, "now", bar(name .. (diff.oldText == nil and ", a new file" or ", as it is") .. many) },
    { second, diff.newText, "then", bar(short_legend(question)) },
  }
  for _, side in ipairs(sides) do
    local window, text, word, shown = unpack(side)
    local address = ("sidecar-question://%s/%d/%s/%s"):format(question.params.permissionId, question.at, word, name)
    local buffer = scratch(lines_of(text), address, diff.path)
    map_keys(question, buffer)
    api.nvim_win_set_buf(window, buffer)
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
    question.at = question.at % n + 1
    for _, window in ipairs(question.windows) do
      api.nvim_win_call(window, vim.cmd.diffoff)
    end
    fill(question)
  end
end

--- Open the windows of a question; the cursor goes there unless the user is writing or the question is not theirs.
function M.show(question)
  local is_writing = vim.fn.mode():match("^[icRsS\22]") ~= nil
  local is_change = #question.params.subject.diffs > 0
  local n_lines = #lines_of(question.params.subject.detail)
  local height = is_change and math.max(8, math.floor(vim.o.lines / 3)) or math.min(12, n_lines + 5)
  question.came_from = api.nvim_get_current_win()
  question.shown_at = vim.uv.now()
  local buffer = api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = "wipe"
  local first = api.nvim_open_win(buffer, false, { split = "below", win = -1, height = height })
  question.windows = { first }
  if is_change then
    question.windows[2] = api.nvim_open_win(buffer, false, { split = "right", win = first })
  end
  fill(question)
  local lines = legend(question)
  table.insert(lines, question.params.description)
  local here = vim.b.sidecar_root == question.project.root
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
  local question = { project = project, params = params, windows = {}, at = 1 }
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
