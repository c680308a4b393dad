-- Where prompts are written: a few lines below the conversation, with completion of commands and files.
--
-- Enter sends; while the model works, what is sent waits its turn. Nothing is lost when the window is closed.

local M = {}

local api = vim.api
local daemon = require("sidecar.daemon")
local HEIGHT = 4 -- with the line above it
local LEGEND = " Enter sends · / commands · @ files · Ctrl-J new line · Ctrl-S steers · Ctrl-C stops%<"

local function text_of(buffer)
  return table.concat(api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
end

local function set_text(buffer, text)
  local lines = vim.split(text, "\n")
  api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  local window = vim.fn.win_findbuf(buffer)[1]
  if window then
    api.nvim_win_set_cursor(window, { #lines, #lines[#lines] })
  end
end

local function send(project, buffer, steer)
  local text = vim.trim(text_of(buffer))
  if text == "" then
    return
  end
  project.history = project.history or {}
  table.insert(project.history, text)
  project.history_at = nil
  set_text(buffer, "")
  require("sidecar").send(project, text, steer)
end

--- Put an earlier prompt into the buffer; `step` is -1 for the one before.
local function recall(project, buffer, step)
  local history = project.history or {}
  local at = (project.history_at or #history + 1) + step
  if at >= 1 and at <= #history + 1 then
    project.history_at = at
    set_text(buffer, history[at] or "")
  end
end

--- Ask the daemon for completions of what is before the cursor, and offer them.
local function complete(project, buffer)
  local row, col = unpack(api.nvim_win_get_cursor(0))
  local line = api.nvim_get_current_line()
  local word = line:sub(1, col):match("%S*$")
  if not (word:match("^@") or line:match("^/") and row == 1) then
    return
  end
  local before = api.nvim_buf_get_lines(buffer, 0, row, false)
  before[row] = line:sub(1, col)
  local offset = #table.concat(before, "\n")
  local params = { text = text_of(buffer), position = offset, encoding = "utf-8", cwd = project.root, sid = project.sid }
  daemon.request(project, "sidecar/complete", params, function(result)
    local now = api.nvim_win_get_cursor(0)
    if api.nvim_get_current_buf() ~= buffer or vim.fn.mode() ~= "i" or now[1] ~= row or now[2] ~= col then
      return
    end
    local items = {}
    for _, item in ipairs(result.items) do
      local abbr = item.label ~= item.insertText and item.label or nil
      table.insert(items, { word = item.insertText, abbr = abbr, menu = item.detail, start = item.start })
    end
    if #items > 0 then
      vim.fn.complete(col - (offset - items[1].start) + 1, items)
    end
  end, function() end)
end

local function new_buffer(project)
  local buffer = api.nvim_create_buf(false, true)
  api.nvim_buf_set_name(buffer, "sidecar-prompt://" .. project.root)
  vim.bo[buffer].filetype = "sidecarprompt"
  vim.b[buffer].sidecar_root = project.root
  local function map(modes, keys, run, desc)
    vim.keymap.set(modes, keys, run, { buffer = buffer, desc = desc })
  end
  map("i", "<CR>", function()
    local line = api.nvim_get_current_line()
    if vim.fn.pumvisible() == 1 and vim.fn.complete_info({ "selected" }).selected >= 0 then
      api.nvim_feedkeys(vim.keycode("<C-y>"), "n", false)
    elseif line:match("\\$") then
      api.nvim_set_current_line(line:sub(1, -2))
      api.nvim_feedkeys(vim.keycode("<C-j>"), "n", false)
    else
      send(project, buffer)
    end
  end, "Send the prompt")
  map("n", "<CR>", function()
    send(project, buffer)
  end, "Send the prompt")
  map({ "i", "n" }, "<C-s>", function()
    send(project, buffer, true)
  end, "Add the prompt to the running turn")
  map("n", "<C-c>", function()
    require("sidecar").stop()
  end, "Stop the answer")
  map("i", "<C-c>", function()
    require("sidecar").stop()
  end, "Stop the answer")
  map({ "i", "n" }, "<C-Up>", function()
    recall(project, buffer, -1)
  end, "The prompt before")
  map({ "i", "n" }, "<C-Down>", function()
    recall(project, buffer, 1)
  end, "The prompt after")
  map("i", "<Up>", function()
    if vim.fn.pumvisible() == 0 and api.nvim_win_get_cursor(0)[1] == 1 then
      recall(project, buffer, -1)
    else
      api.nvim_feedkeys(vim.keycode("<Up>"), "n", false)
    end
  end, "The prompt before")
  local usual -- the option is global before Neovim 0.11
  api.nvim_create_autocmd("InsertEnter", {
    buffer = buffer,
    callback = function()
      usual, vim.o.completeopt = vim.o.completeopt, "menuone,noinsert,noselect"
    end,
  })
  api.nvim_create_autocmd({ "InsertLeave", "BufLeave" }, {
    buffer = buffer,
    callback = function()
      vim.o.completeopt, usual = usual or vim.o.completeopt, nil
    end,
  })
  api.nvim_create_autocmd("TextChangedI", {
    buffer = buffer,
    callback = function()
      complete(project, buffer)
    end,
  })
  return buffer
end

--- Give the window of prompts its height again, after windows around it were opened or closed.
function M.fit(project)
  local window = project.prompt and vim.fn.win_findbuf(project.prompt)[1]
  if window then
    api.nvim_win_set_height(window, HEIGHT)
  end
end

--- Show the window where prompts of a project are written; with `is_writing`, begin to write.
function M.open(project, is_writing)
  local chat = require("sidecar.chat")
  local above = chat.open(project)
  if not (project.prompt and api.nvim_buf_is_valid(project.prompt)) then
    project.prompt = new_buffer(project)
  end
  local window = vim.fn.win_findbuf(project.prompt)[1]
  if not window then
    window = api.nvim_open_win(project.prompt, false, { split = "below", win = above, height = HEIGHT })
    vim.wo[window].winbar, vim.wo[window].winfixheight = LEGEND, true
    vim.wo[window].number, vim.wo[window].relativenumber, vim.wo[window].signcolumn = false, false, "no"
    vim.wo[window].wrap, vim.wo[window].linebreak = true, true
  end
  if is_writing then
    api.nvim_set_current_win(window)
    vim.cmd.startinsert({ bang = true })
  end
end

return M
