-- What the user sees, for the model: the file in front, its selection and visible part, and its diagnostics.
--
-- Sent when it changes, a moment after the last change, and never while there is no daemon.

local M = {}

local api = vim.api
local daemon = require("sidecar.daemon")
local WAIT_MS, HOLD_MS = 150, 1500

local pending, shown ---@type uv.uv_timer_t?, integer?
local held_until = 0 -- a selection that a command was given holds until its prompt has surely begun

local function is_file(buffer)
  return vim.bo[buffer].buftype == "" and api.nvim_buf_get_name(buffer) ~= ""
end

local function range(first, first_col, last, last_col)
  return { start = { line = first, character = first_col }, ["end"] = { line = last, character = last_col } }
end

--- Return the selection of the current window, or its cursor as an empty range.
local function selection()
  local mode = vim.fn.mode()
  local line, col = unpack(api.nvim_win_get_cursor(0))
  if not mode:match("^[vV\22]") then
    return range(line - 1, col, line - 1, col)
  end
  local other = vim.fn.getpos("v")
  local from, to = { other[2], other[3] - 1 }, { line, col }
  if to[1] < from[1] or (to[1] == from[1] and to[2] < from[2]) then
    from, to = to, from
  end
  local last = api.nvim_buf_get_lines(0, to[1] - 1, to[1], false)[1] or ""
  if mode == "V" then
    return range(from[1] - 1, 0, to[1] - 1, #last)
  end
  return range(from[1] - 1, from[2], to[1] - 1, math.min(to[2] + 1, #last))
end

--- Return the file in front; `selected` is a selection that a command was given, by lines.
local function active_file(selected)
  local buffer = api.nvim_get_current_buf()
  return {
    uri = vim.uri_from_bufnr(buffer),
    languageId = vim.bo[buffer].filetype,
    isDirty = vim.bo[buffer].modified,
    selections = { selected or selection() },
    visibleRanges = { range(vim.fn.line("w0") - 1, 0, vim.fn.line("w$") - 1, 0) },
  }
end

local function diagnostics_of(buffer)
  local found = {}
  for _, each in ipairs(vim.diagnostic.get(buffer)) do
    if each.source ~= "sidecar" then
      table.insert(found, {
        range = range(each.lnum, each.col, each.end_lnum or each.lnum, each.end_col or each.col),
        severity = each.severity,
        code = each.code,
        source = each.source,
        message = each.message,
      })
    end
  end
  return { uri = vim.uri_from_bufnr(buffer), diagnostics = found }
end

--- Report the editor to every daemon now; `selected` is a selection by lines.
function M.report(selected)
  if pending then
    pending:stop()
  end
  if selected then
    held_until = vim.uv.now() + HOLD_MS
  end
  if is_file(0) then
    shown = api.nvim_get_current_buf()
  elseif shown and not api.nvim_buf_is_valid(shown) then
    shown = nil
  end
  local files, tabs = {}, {}
  for _, buffer in ipairs(api.nvim_list_bufs()) do
    if api.nvim_buf_is_loaded(buffer) and vim.bo[buffer].buflisted and is_file(buffer) then
      table.insert(files, diagnostics_of(buffer))
      table.insert(tabs, { uri = vim.uri_from_bufnr(buffer), isDirty = vim.bo[buffer].modified })
    end
  end
  local params = { tabs = tabs, diagnostics = files, replacesDiagnostics = true, positionEncoding = "utf-8" }
  if is_file(0) then
    params.active = active_file(selected)
  elseif not shown then
    params.active = vim.NIL
  end
  daemon.each(function(project)
    daemon.notify(project, "sidecar/editor/context", params)
  end)
end

local function report_soon()
  pending = pending or vim.uv.new_timer()
  pending:start(math.max(WAIT_MS, held_until - vim.uv.now()), 0, vim.schedule_wrap(function()
    M.report()
  end))
end

--- Return a range of whole lines, counted from 1.
function M.lines(first, last)
  local text = api.nvim_buf_get_lines(0, last - 1, last, false)[1] or ""
  return range(first - 1, 0, last - 1, #text)
end

--- Follow what the user sees from now on.
function M.follow(group)
  local events = { "BufEnter", "CursorHold", "CursorMoved", "ModeChanged", "DiagnosticChanged", "WinScrolled", "BufModifiedSet" }
  api.nvim_create_autocmd(events, { group = group, callback = report_soon })
end

return M
