-- The daemon of a project and its conversation: started once, started again when it dies, never asked to wait.
--
-- A project is a root folder with at most one daemon and one conversation. The daemon is one more language server of
-- the project's buffers, so that it knows unsaved text and its edits land in open buffers, where `u` takes them back.
-- What a conversation shows is told to the project's chat (sidecar.chat); nothing is drawn here.

local M = {}

local code = require("sidecar.code")

---@class sidecar.Project
---@field root string
---@field client_id integer?
---@field sid string?
---@field is_ready boolean whether the daemon has answered its handshake
---@field waiting function[] what to do once there is a conversation
---@field ends integer[] when the daemon ended by itself, in seconds
---@field usage table? how full the window is
---@field phase string
---@field queued integer how many prompts wait
---@field options table[] the config options of the conversation
---@field commands table[] its slash commands
---@field title string
---@field turn_id string?

local projects = {} ---@type table<string, sidecar.Project>
local IS_OLD = vim.fn.has("nvim-0.11") == 0
local AGAIN_WITHIN_S, AGAIN_AT_MOST = 60, 3

-- Three slashes: with one Neovim takes the name for a path below the current folder.
M.SCHEME = "sidecar-session:///"

M.config = { cmd = { "sidecar" }, init_options = nil, model = nil }

--- Called with (project, kind, data, event) for each event, and with the kinds "started" and "died".
--- Questions come as "permission" and "form", and their ends as "permissionResolved" and "formResolved".
M.on_event = function() end

function M.tell(text, level)
  vim.notify(text, level or vim.log.levels.INFO, { title = "sidecar" })
end

local function tell_error(problem)
  local hint = type(problem.data) == "table" and problem.data.hint
  M.tell(problem.message .. (hint and "; " .. hint or ""), vim.log.levels.ERROR)
end

local function project_of(ctx)
  for _, project in pairs(projects) do
    if project.client_id == ctx.client_id then
      return project
    end
  end
end

--- Return the project of the current buffer: its repository, else the current folder.
function M.project()
  local chat = vim.b.sidecar_root
  local name = vim.api.nvim_buf_get_name(0)
  local is_file = vim.bo.buftype == "" and name ~= ""
  local root = chat or vim.fs.root(is_file and 0 or vim.fn.getcwd(), ".git") or vim.fn.getcwd()
  projects[root] = projects[root]
    or { root = root, waiting = {}, ends = {}, phase = "idle", queued = 0, options = {}, commands = {}, title = "" }
  return projects[root]
end

function M.project_at(root)
  return projects[root]
end

function M.client(project)
  return project.client_id and vim.lsp.get_client_by_id(project.client_id)
end

--- Send a request; `run` gets its result. Problems are told unless `on_problem` takes them.
function M.request(project, method, params, run, on_problem)
  local client = M.client(project)
  if not client then
    return
  end
  local function answered(problem, result)
    if not problem then
      run(result)
    elseif on_problem then
      on_problem(problem)
    else
      tell_error(problem)
    end
  end
  if IS_OLD then
    client.request(method, params, answered, 0)
  else
    client:request(method, params, answered)
  end
end

function M.notify(project, method, params)
  local client = M.client(project)
  if client and project.is_ready then
    if IS_OLD then
      client.notify(method, params)
    else
      client:notify(method, params)
    end
  end
end

local function on_event(_, params, ctx)
  local project = project_of(ctx)
  if not project or params.sid ~= project.sid then
    return
  end
  local data = params.data
  if params.kind == "usage" then
    project.usage = data
  elseif params.kind == "phase" then
    project.phase = data.phase
    project.turn_id = params.turnId
  elseif params.kind == "settled" or params.kind == "faulted" then
    project.phase = "idle"
  elseif params.kind == "queue" then
    project.queued = math.max(data.total or 0, #data.items)
  elseif params.kind == "configChanged" then
    project.options = data.configOptions
  elseif params.kind == "commandsChanged" then
    project.commands = data.commands
  elseif params.kind == "infoChanged" then
    project.title = data.title
  end
  M.on_event(project, params.kind, data, params)
end

--- Take in what the conversation does, or waits for.
local function on_list(_, params, ctx)
  local project = project_of(ctx)
  for _, line in ipairs(project and params.sessions or {}) do
    if line.sid == project.sid then
      project.work = line
      M.on_event(project, "work", line)
    end
  end
end

--- Answer a request of the daemon later: the language client runs a handler as a coroutine of its own.
local function asker(kind, cancelled)
  return function(_, params, ctx)
    local project, co = project_of(ctx), coroutine.running()
    if not project then
      return cancelled
    end
    params.answer = function(outcome)
      vim.schedule(function()
        coroutine.resume(co, outcome)
      end)
    end
    M.on_event(project, kind, params)
    return coroutine.yield()
  end
end

--- Answer a question about code by the other language servers of the project, likewise later.
local function on_query(_, params, ctx)
  local own, co = vim.lsp.get_client_by_id(ctx.client_id), coroutine.running()
  vim.schedule(function()
    local function reply(answer)
      vim.schedule(function()
        coroutine.resume(co, answer)
      end)
    end
    local ok, problem = pcall(code.answer, params, own, reply)
    if not ok then
      reply({ problem = tostring(problem) })
    end
  end)
  return coroutine.yield()
end

--- Pass a notification of the daemon on as an event.
local function reporter(kind)
  return function(_, params, ctx)
    local project = project_of(ctx)
    if project then
      M.on_event(project, kind, params)
    end
  end
end

local function on_refresh(_, params)
  local name = params.uri:gsub("^sidecar%-session:/+", M.SCHEME)
  local buffer = vim.fn.bufnr(name)
  if buffer > 0 then
    vim.schedule(function()
      M.read_document(buffer, name)
    end)
  end
  return vim.NIL
end

local function take_snapshot(project, result)
  local snapshot = result.snapshot
  project.sid, project.title, project.phase = snapshot.sid, snapshot.title, snapshot.phase
  project.options, project.usage = result.configOptions, result.usage
  project.queued, project.work = #(snapshot.queue or {}), snapshot
  M.on_event(project, "started", {})
  local waiting = project.waiting
  project.waiting = {}
  for _, run in ipairs(waiting) do
    run()
  end
end

--- Say why the daemon ended, start it again, and go on with the conversation; give up when that does not help.
local function on_exit(project, code, signal)
  project.client_id, project.is_ready = nil, false
  if project.is_restarting then
    project.is_restarting = false
    return M.start(project)
  elseif vim.v.exiting ~= vim.NIL or project.is_stopped then
    return
  end
  local why = signal ~= 0 and ("was ended by signal %d"):format(signal) or ("ended with code %d"):format(code)
  local was_busy = project.phase ~= "idle" and project.phase ~= "settled"
  project.phase, project.queued = "idle", 0
  local now = os.time()
  project.ends = vim.tbl_filter(function(at)
    return now - at < AGAIN_WITHIN_S
  end, project.ends)
  table.insert(project.ends, now)
  local lost = was_busy and "; the answer in progress is lost" or ""
  if #project.ends > AGAIN_AT_MOST or not project.had_answer then
    project.waiting = {}
    M.on_event(project, "died", { why = ("The daemon %s%s. :Sidecar log has its last words"):format(why, lost) })
    return
  end
  M.on_event(project, "died", { why = ("The daemon %s%s. It is started again"):format(why, lost) })
  M.start(project)
end

--- Let the daemon have the text of the project's files, also unsaved.
function M.attach(project, buffer)
  if not M.client(project) or not vim.api.nvim_buf_is_loaded(buffer) or vim.bo[buffer].buftype ~= "" then
    return
  end
  local name = vim.api.nvim_buf_get_name(buffer)
  if name ~= "" and not name:match("^%a[%w+.-]+://") and vim.startswith(vim.fs.normalize(name), project.root) then
    vim.lsp.buf_attach_client(buffer, project.client_id)
  end
end

local function attach_all(project)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    M.attach(project, buffer)
  end
end

local function capabilities()
  local declared = vim.lsp.protocol.make_client_capabilities()
  -- Neovim can do both and does not say so: the first opens documents of ours, the second lets an edit land in a
  -- buffer with unsaved changes, where it can be undone.
  declared.workspace.textDocumentContent = vim.empty_dict()
  declared.workspace.workspaceEdit.documentChanges = true
  local events = { coalesceMs = 30 }
  local has = vim.empty_dict()
  local forms = { form = has, url = has }
  local sidecar = { protocol = { 1 }, events = events, permission = has, elicitation = forms }
  sidecar.editor = { query = code.KINDS }
  declared.experimental = { sidecar = sidecar }
  return declared
end

--- Start the process, and learn how it ends: Neovim itself would only say that it did, and ask for Enter.
local function spawn(project, dispatchers)
  local ended = dispatchers.on_exit
  local with_reason = vim.tbl_extend("force", dispatchers, {
    on_exit = function(code, signal)
      ended(0, 0)
      vim.schedule(function()
        on_exit(project, code, signal)
      end)
    end,
  })
  return vim.lsp.rpc.start(M.config.cmd, with_reason, { cwd = project.root })
end

--- Start the daemon of a project; its conversation goes on if it had one.
function M.start(project)
  local config = {
    name = "sidecar",
    cmd = function(dispatchers)
      return spawn(project, dispatchers)
    end,
    root_dir = project.root,
    init_options = M.config.init_options,
    capabilities = capabilities(),
    flags = { debounce_text_changes = 0 }, -- a prompt must not come before the text that it is about
    on_init = function()
      project.is_ready, project.had_answer = true, true
      attach_all(project)
      local ready = project.when_ready or {}
      project.when_ready = nil
      M.open_session(project)
      for _, run in ipairs(ready) do
        run()
      end
    end,
    handlers = {
      ["sidecar/event"] = on_event,
      ["sidecar/sessions/changed"] = on_list,
      ["sidecar/editor/query"] = on_query,
      ["sidecar/permission/request"] = asker("permission", { outcome = "cancelled" }),
      ["sidecar/permission/resolved"] = reporter("permissionResolved"),
      ["sidecar/elicit"] = asker("form", { action = "cancel" }),
      ["sidecar/elicitResolved"] = reporter("formResolved"),
      ["sidecar/gap"] = reporter("gap"),
      ["workspace/textDocumentContent/refresh"] = on_refresh,
    },
  }
  local program = M.config.cmd[1]
  if vim.fn.executable(program) == 0 then
    project.waiting = {}
    local hint = 'require("sidecar").setup({ cmd = { "/path/to/sidecar" } }) names it'
    return M.tell(('there is no program "%s"; %s'):format(program, hint), vim.log.levels.ERROR)
  end
  project.is_stopped = false
  if IS_OLD then
    project.client_id = vim.lsp.start_client(config)
  else
    project.client_id = vim.lsp.start(config, { attach = false, reuse_client = function() return false end })
  end
end

--- Begin a conversation, or go on with the one that there was.
function M.open_session(project)
  local function opened(result)
    take_snapshot(project, result)
  end
  if project.sid then
    M.request(project, "sidecar/session/load", { sid = project.sid }, opened, function(problem)
      project.sid = nil
      M.on_event(project, "notice", { severity = "error", title = problem.message })
      M.open_session(project)
    end)
  elseif #project.waiting > 0 then
    local wanted = { cwd = project.root, model = M.config.model }
    M.request(project, "sidecar/session/new", wanted, opened, function(problem)
      project.waiting = {}
      tell_error(problem)
    end)
  end
end

--- Call `run` once the project has a conversation.
function M.with_session(project, run)
  if project.sid and project.is_ready and #project.waiting == 0 then
    return run()
  end
  table.insert(project.waiting, run)
  if not project.client_id then
    M.start(project)
  elseif project.is_ready and #project.waiting == 1 then
    M.open_session(project)
  end
end

--- Call `run` once the daemon of a project has answered its handshake.
function M.when_ready(project, run)
  if project.is_ready then
    return run()
  end
  project.when_ready = vim.list_extend(project.when_ready or {}, { run })
end

--- Go on with a stored conversation; its last turns are told again.
function M.load(project, sid)
  project.sid = sid
  M.request(project, "sidecar/session/load", { sid = sid, replay = { lastTurns = 30 } }, function(result)
    take_snapshot(project, result)
  end)
end

--- Let the next prompt begin another conversation; the last one stays stored.
function M.forget(project)
  project.sid, project.usage, project.title, project.phase = nil, nil, "", "idle"
end

--- End the daemon of a project.
function M.stop(project)
  project.is_stopped = true
  local client = M.client(project)
  if client then
    if IS_OLD then
      client.stop()
    else
      client:stop()
    end
  end
end

--- End the daemon of a project and start it again; the conversation goes on.
function M.restart(project)
  local client = M.client(project)
  if not client then
    return M.start(project)
  end
  project.is_restarting = true
  M.stop(project)
end

--- Call `run` with each project that has a daemon.
function M.each(run)
  for _, project in pairs(projects) do
    if project.client_id then
      run(project)
    end
  end
end

--- Fill `buffer` with the document `uri` of a conversation.
function M.read_document(buffer, uri)
  local project
  M.each(function(each)
    if not project or (each.sid and uri:find(each.sid, 1, true)) then
      project = each
    end
  end)
  if not project then
    return M.tell("no daemon runs here; :Sidecar starts one", vim.log.levels.ERROR)
  end
  M.request(project, "workspace/textDocumentContent", { uri = uri }, function(content)
    if not vim.api.nvim_buf_is_valid(buffer) then
      return
    end
    vim.bo[buffer].modifiable = true
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(content.text, "\n"))
    vim.bo[buffer].modifiable, vim.bo[buffer].modified = false, false
    vim.bo[buffer].buftype, vim.bo[buffer].swapfile = "nofile", false
    require("sidecar.chat").highlight(buffer)
  end)
end

return M
