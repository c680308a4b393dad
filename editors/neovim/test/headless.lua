-- Drives the plugin in a real Neovim against a real daemon: nvim --clean --headless -l headless.lua DAEMON...
-- The current folder has an a.py with `answer = 42`. Ends with 0, with 77 where this Neovim is too old.

if vim.fn.has("nvim-0.11") == 0 then
  print("needs Neovim 0.11")
  os.exit(77)
end

local here = vim.fs.dirname(debug.getinfo(1, "S").source:sub(2))
vim.cmd("filetype plugin off") -- some packages of Neovim come without a parser for markdown
vim.opt.swapfile = false
vim.opt.runtimepath:prepend(vim.fs.dirname(here))
vim.cmd.source(vim.fs.dirname(here) .. "/plugin/sidecar.lua")
vim.lsp.config("sidecar", { cmd = _G.arg })
vim.lsp.enable("sidecar")

local said = {}
vim.notify = function(text)
  table.insert(said, text)
end

local function wait_for(what, condition)
  if not vim.wait(20000, condition, 20) then
    print("waited in vain for " .. what .. "; said: " .. vim.inspect(said))
    vim.cmd("cquit 1")
  end
end

local function says(pattern)
  wait_for(pattern, function()
    return table.concat(said, "\n"):find(pattern) ~= nil
  end)
end

local function text_of(buffer)
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
end

local function count(pattern)
  local n = 0
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    n = n + select(2, text_of(buffer):gsub(pattern, ""))
  end
  return n
end

vim.cmd.edit("a.py")
local file = vim.api.nvim_get_current_buf()
wait_for("the daemon", function()
  local client = vim.lsp.get_clients({ name = "sidecar" })[1]
  return client and client.initialized
end)

vim.cmd("SidecarPrompt what is in a.py?")
wait_for("an answer", function()
  return count("`a.py:1` answer = 42") == 1
end)
vim.cmd("1SidecarPrompt and in a.py here?")
wait_for("an answer about a range", function()
  return count("`a.py:1` answer = 42") == 2
end)

vim.cmd("SidecarNew")
says("begins a new conversation")
vim.ui.select = function(items, options, choose)
  table.insert(said, options.format_item(items[1]))
  choose(items[1])
end
vim.cmd("SidecarResume")
says("what is in a.py%? %(%d+ turns%)")
says("goes on: what is in a.py")

vim.cmd("SidecarContext")
says("a.py: %d+ tokens")
vim.cmd("SidecarCompact")
says("compact")
vim.cmd("SidecarUndo")
says("tokens are back")
vim.cmd("SidecarInterrupt")
says("nothing runs")

vim.cmd("SidecarTranscript")
wait_for("the transcript", function()
  return vim.bo.filetype == "markdown" and text_of(0):find("what is in a.py?", 1, true) ~= nil
end)
vim.cmd("SidecarCompare")
wait_for("both sides of the compaction", function()
  local n = 0
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    n = n + (vim.wo[window].diff and text_of(vim.api.nvim_win_get_buf(window)) ~= "" and 1 or 0)
  end
  return n == 2
end)

vim.api.nvim_buf_set_lines(file, 0, 1, false, { "answer = 43" })
wait_for("a hint that the file changed", function()
  local hint = vim.diagnostic.get(file)[1]
  return hint and hint.message == "changed since the model read it"
end)
print("done")
vim.cmd("qall!")
