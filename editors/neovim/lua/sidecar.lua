-- Conversations of the sidecar daemon, over Neovim's own language client. Needs Neovim 0.11.
--
-- The daemon is one more language server of the buffers; each client has one conversation, which begins with
-- the first prompt. Everything goes through workspace/executeCommand, so nothing here knows the daemon's wire.

local M = {}

local sids = {} ---@type table<integer, string> client id -> conversation
local answers ---@type integer? the buffer that shows them

-- Three slashes: with one Neovim takes the name for a path below the current folder.
local SCHEME = "sidecar-session:///"

--- Return the configuration for `vim.lsp.config`.
function M.config()
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  -- Neovim can do both and does not say so: the first opens documents of ours (see read_document), the second
  -- lets an edit land in a buffer with unsaved changes, where it can be undone.
  capabilities.workspace.textDocumentContent = vim.empty_dict()
  capabilities.workspace.workspaceEdit.documentChanges = true
  return {
    cmd = { "sidecar" },
    root_markers = { ".git" },
    capabilities = capabilities,
    on_exit = function(_, _, client_id)
      sids[client_id] = nil
    end,
    handlers = {
      ["workspace/textDocumentContent/refresh"] = function(_, params)
        local name = params.uri:gsub("^sidecar%-session:/+", SCHEME)
        local buffer = vim.fn.bufnr(name)
        if buffer > 0 then
          vim.schedule(function()
            M.read_document(buffer, name)
          end)
        end
        return vim.NIL
      end,
    },
  }
end

local function tell(text, level)
  vim.notify(text, level or vim.log.levels.INFO, { title = "sidecar" })
end

local function tell_error(error)
  local hint = type(error.data) == "table" and error.data.hint or nil
  tell(error.message .. (hint and "; " .. hint or ""), vim.log.levels.ERROR)
end

--- Call `run` with the client of this buffer, or any.
local function with_client(run)
  local found = vim.lsp.get_clients({ name = "sidecar", bufnr = 0 })
  local client = found[1] or vim.lsp.get_clients({ name = "sidecar" })[1]
  if client then
    run(client)
  else
    tell('no sidecar is running here: vim.lsp.enable("sidecar"), then open a file', vim.log.levels.ERROR)
  end
end

local function request(client, method, params, run)
  client:request(method, params, function(error, result)
    if error then
      tell_error(error)
    else
      run(result)
    end
  end)
end

local function execute(client, command, params, run)
  request(client, "workspace/executeCommand", { command = command, arguments = { params } }, run)
end

--- Call `run` with the client and its conversation, which is begun where there is none.
local function with_session(run)
  with_client(function(client)
    if sids[client.id] then
      return run(client, sids[client.id])
    end
    local cwd = client.root_dir or vim.fn.getcwd()
    execute(client, "sidecar.new", { cwd = cwd }, function(session)
      sids[client.id] = session.sid
      run(client, session.sid)
    end)
  end)
end

--- Add `text` to the buffer of answers, and show it.
local function show(text)
  if not (answers and vim.api.nvim_buf_is_valid(answers)) then
    answers = vim.api.nvim_create_buf(false, true)
    vim.bo[answers].filetype = "markdown"
  end
  vim.api.nvim_buf_set_lines(answers, -1, -1, false, vim.split(text, "\n"))
  local window = vim.fn.win_findbuf(answers)[1] or vim.api.nvim_open_win(answers, false, { split = "below" })
  vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(answers), 0 })
end

local function selection(given)
  if given.range == 0 then
    return ""
  end
  local lines = vim.api.nvim_buf_get_lines(0, given.line1 - 1, given.line2, false)
  local where = ("%s, lines %d to %d"):format(vim.fn.expand("%:."), given.line1, given.line2)
  return ("\n\n%s:\n```\n%s\n```"):format(where, table.concat(lines, "\n"))
end

--- Ask; `given` is what nvim_create_user_command hands over.
function M.prompt(given)
  local text = given.args .. selection(given)
  with_session(function(client, sid)
    show("\n> " .. given.args .. "\n")
    local input = { { type = "text", text = text } }
    execute(client, "sidecar.prompt", { sid = sid, input = input }, function(ran)
      show(ran.stopReason == "end_turn" and ran.text or ("(%s)"):format(ran.stopReason))
    end)
  end)
end

--- Let the next prompt begin another conversation; the last one stays stored.
function M.new()
  with_client(function(client)
    sids[client.id] = nil
    tell("the next prompt begins a new conversation")
  end)
end

--- Go on with a stored conversation of this folder.
function M.resume()
  with_client(function(client)
    local cwd = client.root_dir or vim.fn.getcwd()
    execute(client, "sidecar.sessions", { cwd = cwd }, function(list)
      local options = {
        prompt = "Conversations of this folder",
        format_item = function(session)
          return ("%s (%d turns)"):format(session.title ~= "" and session.title or "untitled", session.messages)
        end,
      }
      vim.ui.select(list.sessions, options, function(chosen)
        if not chosen then
          return
        end
        request(client, "sidecar/session/load", { sid = chosen.sid }, function()
          sids[client.id] = chosen.sid
          tell("goes on: " .. chosen.title)
        end)
      end)
    end)
  end)
end

function M.interrupt()
  with_session(function(client, sid)
    execute(client, "sidecar.interrupt", { sid = sid }, function(done)
      tell(done.accepted and "stopped" or "nothing runs")
    end)
  end)
end

function M.compact()
  with_session(function(client, sid)
    execute(client, "sidecar.compact", { sid = sid }, function(begun)
      tell(begun.disposition == "noop" and ("nothing to compact: " .. begun.reason) or "compacting")
    end)
  end)
end

function M.undo()
  with_session(function(client, sid)
    execute(client, "sidecar.uncompact", { sid = sid }, function(done)
      tell(("undone: %d tokens are back"):format(done.restoredTokens))
    end)
  end)
end

function M.context()
  with_session(function(client, sid)
    execute(client, "sidecar.context", { sid = sid }, function(usage)
      request(client, "sidecar/context/files", { sid = sid }, function(context)
        local size = ("%d of %d tokens (%d%%)"):format(usage.used, usage.window, usage.pct)
        local lines = { usage.window > 0 and size or ("%d tokens, window unknown"):format(usage.used) }
        for _, file in ipairs(context.files) do
          local name = vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ":.")
          local stale = file.stale and ", changed since it was read" or ""
          table.insert(lines, ("%s: %d tokens%s"):format(name, file.tokens, stale))
        end
        tell(table.concat(lines, "\n"))
      end)
    end)
  end)
end

function M.transcript()
  with_session(function(_, sid)
    vim.cmd.split({ args = { SCHEME .. sid .. "/transcript.md" }, magic = { file = false } })
  end)
end

function M.compare()
  with_session(function(client, sid)
    request(client, "sidecar/compact/list", { sid = sid }, function(list)
      local last = list.compactions[#list.compactions]
      if not last then
        return tell("nothing was compacted yet")
      end
      local base = ("%s%s/compaction/%s/"):format(SCHEME, sid, last.compactionId)
      vim.cmd.tabedit({ args = { base .. "before.md" }, magic = { file = false } })
      vim.cmd.diffsplit({ args = { base .. "after.md" }, magic = { file = false }, mods = { vertical = true } })
      vim.cmd.split({ args = { base .. "facts.md" }, magic = { file = false }, mods = { split = "botright" } })
      vim.cmd.diffoff()
      vim.cmd.wincmd("p")
    end)
  end)
end

--- Fill `buffer` with the document `uri` of a conversation.
function M.read_document(buffer, uri)
  with_client(function(client)
    request(client, "workspace/textDocumentContent", { uri = uri }, function(content)
      vim.bo[buffer].modifiable = true
      vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(content.text, "\n"))
      vim.bo[buffer].modifiable = false
      vim.bo[buffer].modified = false
      vim.bo[buffer].buftype = "nofile"
      vim.bo[buffer].filetype = "markdown"
    end)
  end)
end

return M
