-- Conversations of the sidecar daemon in Neovim 0.10 or later. `:help sidecar` has the manual.
--
-- sidecar.daemon starts the daemon and knows the conversation, sidecar.chat shows it, sidecar.prompt is where one
-- writes, sidecar.question asks, sidecar.context says what the user sees. Here are the commands.

local M = {}

local api = vim.api
local chat = require("sidecar.chat")
local context = require("sidecar.context")
local daemon = require("sidecar.daemon")
local prompt = require("sidecar.prompt")
local form = require("sidecar.form")
local question = require("sidecar.question")

--- Go on with the conversation `sid`.
local function open(project, sid)
  chat.clear(project)
  prompt.open(project)
  daemon.load(project, sid)
end

daemon.on_event = function(project, kind, data, params)
  if kind == "permission" then
    return question.ask(project, data)
  elseif kind == "permissionResolved" then
    return question.withdraw(data)
  elseif kind == "form" then
    return form.ask(project, data)
  elseif kind == "formResolved" then
    return form.withdraw(data)
  elseif kind == "started" then
    return context.report()
  elseif kind == "sessionChosen" then
    if params.turnId == project.sent then -- else another window has sent the command
      open(project, data.sid)
    end
    return
  elseif kind == "died" then
    question.withdraw_all(project)
    form.withdraw_all(project)
    daemon.tell(data.why, vim.log.levels.WARN)
  end
  if (kind == "settled" or kind == "faulted") and project.change and params.turnId == project.change.turn_id then
    if not project.change.is_asked then
      daemon.tell("nothing was asked; :Sidecar shows the answer")
    end
    project.change = nil
  end
  chat.show(project, kind, data)
  vim.cmd.redrawstatus({ bang = true }) -- the gauge is above the conversation, mostly not the current window
end

--- Set the daemon's command and the model; both have defaults, so that nobody needs to call it.
---@param options {cmd: string[]?, model: string?, init_options: table?}?
function M.setup(options)
  daemon.config = vim.tbl_extend("force", daemon.config, options or {})
end

local is_following = false

--- Follow buffers and what the user sees, from the first use on.
local function follow()
  if is_following then
    return
  end
  is_following = true
  local group = api.nvim_create_augroup("sidecar.follow", {})
  context.follow(group)
  api.nvim_create_autocmd({ "BufReadPost", "BufNewFile", "BufFilePost", "BufWritePost" }, {
    group = group,
    callback = function(event)
      daemon.each(function(project)
        daemon.attach(project, event.buf)
      end)
    end,
  })
end

local function with_session(project, run)
  follow()
  daemon.with_session(project, run)
end

--- Send a prompt, or a command such as /compact; with `steer` to the turn that runs, if one does. `run` gets the turn.
function M.send(project, text, steer, run)
  with_session(project, function()
    local params = { sid = project.sid, input = { { type = "text", text = text } } }
    params.whenBusy = steer and "steer" or "queue"
    daemon.request(project, "sidecar/turn/start", params, function(started)
      project.sent = started.turnId
      if run then
        run(started.turnId)
      end
    end, function(problem)
      chat.say(project, "not sent: " .. problem.message .. "\n" .. text, "SidecarFailed")
    end)
  end)
end

--- Stop the running turn.
function M.stop()
  local project = daemon.project()
  if not project.sid then
    return daemon.tell("nothing runs")
  end
  daemon.request(project, "sidecar/turn/interrupt", { sid = project.sid }, function(done)
    daemon.tell(done.accepted and "stopped" or "nothing runs")
  end)
end

local function gauge(usage)
  if usage.window == 0 then
    return ("%d tokens"):format(usage.used)
  end
  local cells, trigger = 10, math.floor(usage.limit / usage.window * 10 + 0.5)
  local full, bar = math.floor(usage.used / usage.window * cells + 0.5), ""
  for at = 1, cells do
    bar = bar .. (at <= full and "█" or at == trigger and "┃" or "░")
  end
  local size = usage.window >= 1000 and ("%dk"):format(math.floor(usage.window / 1000)) or usage.window
  return ("%s %d%% of %s"):format(bar, math.floor(usage.pct + 0.5), size)
end

local function option_value(project, id)
  for _, option in ipairs(project.options) do
    if option.id == id then
      return option.currentValue
    end
  end
end

--- Return the state of the conversation of the current buffer's project, for a status line; empty without one.
function M.status()
  local project = daemon.project()
  if not project.usage then
    return ""
  end
  local busy = chat.is_busy(project) and project.phase or nil
  if chat.is_waiting(project) then
    busy = "waiting for you"
  end
  return table.concat(vim.tbl_filter(function(part)
    return part
  end, { gauge(project.usage), busy or false }), " ")
end

--- Return what the window of the chat says above it.
function M.winbar()
  local root = vim.b.sidecar_root -- the window whose bar is drawn is the current one
  local project = root and daemon.project_at(root)
  if not project then
    return ""
  end
  local function part(text)
    return text ~= "" and " · %<" .. text:gsub("%%", "%%%%") or "" -- the last one is cut where room is short
  end
  local model = option_value(project, "model") or ""
  local right = project.usage and gauge(project.usage):gsub("%%", "%%%%") or ""
  right = (chat.is_waiting(project) and "waiting for you · " or "") .. right
  return " Sidecar" .. (part(model):gsub("%%<", "")) .. part(project.title) .. "%= " .. right .. " "
end

local function ask(text, given)
  local project = daemon.project()
  local is_about = given and given.range > 0 and vim.bo.buftype == ""
  if is_about then
    local name = vim.fn.fnamemodify(api.nvim_buf_get_name(0), ":.")
    local lines = api.nvim_buf_get_lines(0, given.line1 - 1, given.line2, false)
    local where = ("%s, lines %d to %d"):format(name, given.line1, given.line2)
    text = ("%s\n\n%s:\n```\n%s\n```"):format(text, where, table.concat(lines, "\n"))
  end
  with_session(project, function()
    context.report(is_about and context.lines(given.line1, given.line2) or nil)
    prompt.open(project)
    M.send(project, text)
  end)
end

--- Let the model change the lines of a range, or the current one; its proposal is shown beside them.
local function change(text, given)
  local project, buffer = daemon.project(), api.nvim_get_current_buf()
  local first, last = given.line1, given.line2
  local name = vim.fs.normalize(api.nvim_buf_get_name(buffer))
  if vim.bo.buftype ~= "" or name == "" then
    return daemon.tell("only lines of a file can be changed; this is none", vim.log.levels.WARN)
  end
  if vim.startswith(name, project.root .. "/") then
    name = name:sub(#project.root + 2)
  end
  local where = first == last and ("line %d"):format(first) or ("lines %d to %d"):format(first, last)
  local function begin(instruction)
    if vim.trim(instruction or "") == "" then
      return
    end
    local lines = context.lines(first, last)
    with_session(project, function()
      context.report(lines)
      local prompt_text = ('Change only %s, @"%s:%d-%d", and do it by an edit: %s'):format(where, name, first, last, instruction)
      M.send(project, prompt_text, false, function(turn_id)
        project.change = { turn_id = turn_id, buffer = buffer, first = first, last = last }
      end)
    end)
  end
  if text ~= "" then
    return begin(text)
  end
  vim.ui.input({ prompt = ("Change %s: "):format(where) }, begin)
end

--- Choose one of the values of a config option.
local function choose_option(id)
  local project = daemon.project()
  with_session(project, function()
    for _, option in ipairs(project.options) do
      if option.id == id then
        local settings = {
          prompt = option.name,
          format_item = function(value)
            return (value.value == option.currentValue and "* " or "  ") .. value.name
          end,
        }
        vim.ui.select(option.options, settings, function(chosen)
          if chosen then
            local params = { sid = project.sid, configId = id, value = chosen.value }
            daemon.request(project, "sidecar/session/setConfigOption", params, function(result)
              project.options = result.configOptions
              daemon.tell(("%s: %s"):format(option.name, chosen.name))
            end)
          end
        end)
      end
    end
  end)
end

--- Let the user choose one of the conversations that the daemon lists by `method`; `find_sid` gets it and passes its sid on.
local function choose_session(method, titles, format_item, find_sid)
  local project = daemon.project()
  follow()
  if not project.client_id then
    daemon.start(project)
  end
  local function choose(list)
    if #list.sessions == 0 then
      return daemon.tell(titles.none)
    end
    vim.ui.select(list.sessions, { prompt = titles.some, format_item = format_item }, function(chosen)
      if chosen then
        find_sid(chosen, function(sid)
          open(project, sid)
        end, project)
      end
    end)
  end
  daemon.when_ready(project, function()
    daemon.request(project, method, { cwd = project.root, listOnly = titles.list_only }, choose)
  end)
end

local function resume()
  local titles = { some = "Conversations of this folder", none = "there is no conversation about this folder yet; :Sidecar begins one" }
  choose_session("sidecar/session/list", titles, function(session)
    return ("%s (%d messages)"):format(session.title ~= "" and session.title or "untitled", session.messages)
  end, function(session, open)
    open(session.sid)
  end)
end

--- Go on with a conversation of another agent.
local function import()
  local titles = { some = "Conversations of other agents", none = "there is no conversation of another agent about this folder", list_only = true }
  choose_session("sidecar/session/import", titles, function(found)
    return ("%s (%s)"):format(found.title ~= "" and found.title or found.id, found.source)
  end, function(found, open, project)
    local params = { path = found.path, id = found.id, source = found.source }
    daemon.request(project, "sidecar/session/import", params, function(made)
      open(made.sid)
    end)
  end)
end

--- Return the prompts of a conversation, the newest first, each with the node before it and what came with it.
local function prompts_of(nodes, kinds)
  local before, prompts = nil, {}
  for _, node in ipairs(nodes) do
    local kind = kinds[node.id]
    if kind == "user" then
      table.insert(prompts, 1, { text = node.blocks[1].text or "an image", before = before })
    end
    if kind ~= "note" and kind ~= "branch" then
      before = node.id
    end
  end
  return prompts
end

local function restore(project, node, files)
  local params = { sid = project.sid, toNode = node or vim.NIL, expectHead = vim.NIL, files = files }
  daemon.request(project, "sidecar/session/rewind", params, function(done)
    for _, file in ipairs(done.restoredFiles or {}) do
      local name = vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ":.")
      chat.say(project, ("· %s: %s"):format(name, file.reason or file.outcome))
    end
    vim.cmd.checktime()
  end)
end

local function choose_prompt(project, prompts)
  if #prompts == 0 then
    return daemon.tell("there is no prompt to go back to yet")
  end
  local settings = {
    prompt = "Go back to before",
    format_item = function(item)
      return (item.text:gsub("%s+", " "):sub(1, 70))
    end,
  }
  vim.ui.select(prompts, settings, function(chosen)
    if not chosen then
      return
    end
    local ways = { "take the changes of files back too", "leave the files as they are" }
    vim.ui.select(ways, { prompt = "And the files?" }, function(way, at)
      if way then
        restore(project, chosen.before, at == 1 and "restore" or "keep")
      end
    end)
  end)
end

--- Go back to before one of the prompts; the files that later turns changed come back too, if the user wants that.
local function rewind()
  local project = daemon.project()
  with_session(project, function()
    daemon.request(project, "sidecar/session/tree", { sid = project.sid }, function(tree)
      local kinds = {}
      for _, node in ipairs(tree.nodes) do
        kinds[node.id] = node.kind
      end
      daemon.request(project, "sidecar/session/read", { sid = project.sid, limit = 1000 }, function(read)
        choose_prompt(project, prompts_of(read.nodes, kinds))
      end)
    end)
  end)
end

--- Open the conversation before and after the last compaction as a diff, and below it the facts.
local function compare()
  local project = daemon.project()
  with_session(project, function()
    daemon.request(project, "sidecar/compact/list", { sid = project.sid }, function(list)
      local last = list.compactions[#list.compactions]
      if not last then
        return daemon.tell("nothing was compacted yet; :Sidecar compact does it")
      end
      local base = ("%s%s/compaction/%s/"):format(daemon.SCHEME, project.sid, last.compactionId)
      vim.cmd.tabedit({ args = { base .. "before.md" }, magic = { file = false } })
      vim.cmd.diffsplit({ args = { base .. "after.md" }, magic = { file = false }, mods = { vertical = true, split = "rightbelow" } })
      vim.cmd.split({ args = { base .. "facts.md" }, magic = { file = false }, mods = { split = "botright" } })
      vim.cmd.diffoff()
      vim.cmd.wincmd("p")
    end)
  end)
end

local function transcript()
  local project = daemon.project()
  with_session(project, function()
    vim.cmd.split({ args = { daemon.SCHEME .. project.sid .. "/transcript.md" }, magic = { file = false } })
  end)
end

local function new()
  local project = daemon.project()
  daemon.forget(project)
  chat.clear(project)
  prompt.open(project, true)
end

local function slash(name)
  return function()
    local project = daemon.project()
    with_session(project, function()
      prompt.open(project)
      M.send(project, "/" .. name)
    end)
  end
end

--- What `:Sidecar NAME` does. A name that is followed by more words is the beginning of a prompt.
M.commands = {
  open = function()
    local project = daemon.project()
    prompt.open(project, true)
    with_session(project, function() end)
  end,
  new = new,
  resume = resume,
  import = import,
  stop = M.stop,
  answer = function()
    if not question.enter() and not form.enter() then
      daemon.tell("nothing is asked")
    end
  end,
  compact = slash("compact"),
  preview = slash("preview"),
  undo = slash("undo"),
  compare = compare,
  context = slash("context"),
  diff = slash("diff"),
  rewind = rewind,
  rules = slash("rules"),
  transcript = transcript,
  model = function()
    choose_option("model")
  end,
  mode = function()
    choose_option("permissions")
  end,
  log = function()
    vim.cmd.split(vim.lsp.get_log_path())
    vim.cmd.normal({ "G", bang = true })
  end,
  restart = function()
    local project = daemon.project()
    daemon.restart(project)
  end,
}

--- Run `:Sidecar`; `given` is what nvim_create_user_command hands over.
function M.run(given)
  local text = vim.trim(given.args)
  local first, rest = text:match("^(%S*)%s*(.*)$")
  if text == "" then
    M.commands.open()
  elseif first == "steer" and rest ~= "" then
    M.send(daemon.project(), rest, true)
  elseif first == "change" and (rest == "" or given.range > 0) then
    change(rest, given)
  elseif rest == "" and M.commands[first] then
    M.commands[first]()
  else
    ask(text, given)
  end
end

--- Complete `:Sidecar`: its own words, and the slash commands of the conversation.
function M.complete(lead, line)
  if line:match("^%S*%s+%S*%s") then
    return {}
  end
  local names = vim.tbl_keys(M.commands)
  vim.list_extend(names, { "change", "steer" })
  for _, command in ipairs(daemon.project().commands) do
    table.insert(names, "/" .. command.name)
  end
  names = vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, names)
  table.sort(names)
  return names
end

M.read_document = daemon.read_document

return M
