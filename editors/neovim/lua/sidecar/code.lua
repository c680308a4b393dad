-- Questions of the model about code, answered by the other language servers of the buffers.
--
-- A question has its position in the unit of the daemon's client, and each server has a unit of its own; an answer says
-- in which one it counts. Nothing is changed here: a rename comes back as the edit that it would be.

local M = {}

local api = vim.api
local IS_OLD = vim.fn.has("nvim-0.11") == 0
local WAIT_MS, MOST_RESOLVED = 8000, 20
local METHODS = {
  definition = "textDocument/definition",
  references = "textDocument/references",
  documentSymbols = "textDocument/documentSymbol",
  workspaceSymbols = "workspace/symbol",
  hover = "textDocument/hover",
  rename = "textDocument/rename",
  codeActions = "textDocument/codeAction",
}

M.KINDS = vim.tbl_keys(METHODS)

local function send(client, method, params, run, buffer)
  if IS_OLD then
    return client.request(method, params, run, buffer)
  end
  return client:request(method, params, run, buffer)
end

--- Return the buffer of a file, loaded as if it were edited, so that its language servers know it.
local function load(uri)
  local buffer = vim.uri_to_bufnr(uri)
  if not api.nvim_buf_is_loaded(buffer) then
    vim.cmd(("noswapfile call bufload(%d)"):format(buffer))
    if vim.bo[buffer].filetype == "" then
      vim.bo[buffer].filetype = vim.filetype.match({ buf = buffer }) or ""
    end
  end
  return buffer
end

--- Return the place in the unit of `to`; it is in that of `from`.
local function convert(buffer, position, from, to)
  local line = api.nvim_buf_get_lines(buffer, position.line, position.line + 1, false)[1] or ""
  local byte = position.character
  if from ~= "utf-8" then
    byte = vim.str_byteindex(line, byte, from == "utf-16")
  end
  local utf32, utf16 = vim.str_utfindex(line, math.min(byte, #line))
  local units = { ["utf-8"] = byte, ["utf-16"] = utf16, ["utf-32"] = utf32 }
  return { line = position.line, character = units[to] }, { line = position.line, character = 0 }, #line
end

--- Return the params of a question to `client`.
local function params_for(query, buffer, own, client)
  if query.kind == "workspaceSymbols" then
    return { query = query.text }
  end
  local params = { textDocument = { uri = vim.uri_from_bufnr(buffer) } }
  if not query.position then
    return params
  end
  local position, start, length = convert(buffer, query.position, own.offset_encoding, client.offset_encoding)
  params.position = position
  if query.kind == "references" then
    params.context = { includeDeclaration = true }
  elseif query.kind == "rename" then
    params.newName = query.text
  elseif query.kind == "codeActions" then
    local last = { line = position.line, character = length }
    params.range = { start = start, ["end"] = (convert(buffer, last, "utf-8", client.offset_encoding)) }
    params.position = nil
    local found = {}
    for _, each in ipairs(vim.diagnostic.get(buffer, { lnum = position.line })) do
      table.insert(found, each.user_data and each.user_data.lsp or nil)
    end
    params.context = { diagnostics = found }
  end
  return params
end

--- Return the language servers to ask: those of the buffer, else those at work around the folder `uri`.
local function servers(query, buffer, own)
  local found = vim.lsp.get_clients({ bufnr = buffer, method = METHODS[query.kind] })
  return vim.tbl_filter(function(client)
    local root, folder = client.config.root_dir, vim.uri_to_fname(query.uri)
    local is_near = buffer or not root or vim.startswith(root, folder) or vim.startswith(folder, root)
    return client.id ~= own.id and is_near
  end, found)
end

local function is_empty(result)
  return result == nil or result == vim.NIL or (type(result) == "table" and next(result) == nil)
end

--- Ask for the edits of the first code actions that have none yet, and call `run` with all of them.
local function resolve(client, buffer, actions, run)
  local provider = client.server_capabilities.codeActionProvider
  local open = 1
  local function done()
    open = open - 1
    if open == 0 then
      run(actions)
    end
  end
  for at, action in ipairs(actions) do
    if at <= MOST_RESOLVED and not action.edit and type(provider) == "table" and provider.resolveProvider then
      open = open + 1
      local is_sent = send(client, "codeAction/resolve", action, function(_, resolved)
        actions[at] = resolved or action
        done()
      end, buffer)
      if not is_sent then
        done()
      end
    end
  end
  done()
end

--- Join what the servers have answered: the first answer, and the further lists in the same unit.
local function join(answers)
  local joined = vim.empty_dict()
  for _, each in ipairs(answers) do
    if each.problem then
      joined.problem = joined.problem or each.problem
    elseif not is_empty(each.result) then
      if not joined.answer then
        joined.answer, joined.positionEncoding = each.result, each.encoding
      elseif vim.islist(joined.answer) and vim.islist(each.result) and joined.positionEncoding == each.encoding then
        vim.list_extend(joined.answer, each.result)
      end
    end
  end
  if joined.answer then
    joined.problem = nil
  end
  return joined
end

--- Answer `query` of the daemon, whose client is `own`; `run` gets the answer once, after some seconds at the latest.
function M.answer(query, own, run)
  local is_folder = vim.fn.isdirectory(vim.uri_to_fname(query.uri)) == 1
  local buffer = not is_folder and load(query.uri) or nil
  local found = servers(query, buffer, own)
  if #found == 0 then
    return run({ problem = "no language server that runs in Neovim knows this" })
  end
  local answers, open, is_over = {}, #found, false
  local function finish()
    if not is_over then
      is_over = true
      run(join(answers))
    end
  end
  local function take(answer)
    table.insert(answers, answer)
    open = open - 1
    if open == 0 then
      finish()
    end
  end
  for _, client in ipairs(found) do
    local encoding = client.offset_encoding
    local is_sent = send(client, METHODS[query.kind], params_for(query, buffer, own, client), function(problem, result)
      if problem then
        take({ problem = problem.message })
      elseif query.kind == "codeActions" and not is_empty(result) then
        resolve(client, buffer, result, function(actions)
          take({ result = actions, encoding = encoding })
        end)
      else
        take({ result = result, encoding = encoding })
      end
    end, buffer or 0)
    if not is_sent then
      take({ problem = ("%s does not answer"):format(client.name) })
    end
  end
  vim.defer_fn(finish, WAIT_MS)
end

return M
