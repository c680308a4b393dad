-- A question of the agent or of a tool server: a form, field by field, with the lists and inputs of the user's own.
--
-- It opens nothing by itself: the conversation shows it, and `:Sidecar answer` goes through its fields. Escape leaves
-- it as it is, for later. An address is shown and never opened.

local M = {}

local open = {} ---@type table<string, {project: table, params: table}> by the id of the question
local NO_ANSWER = "No answer"

--- Return the names of the fields: the required ones in their order, then the others by name.
local function names_of(schema)
  local names, rest, seen = {}, {}, {}
  for _, name in ipairs(schema.required or {}) do
    table.insert(names, name)
    seen[name] = true
  end
  for name in pairs(schema.properties or {}) do
    if not seen[name] then
      table.insert(rest, name)
    end
  end
  table.sort(rest)
  return vim.list_extend(names, rest)
end

--- Return the choices of a field, each with its value and its label; nil for none.
local function choices_of(field)
  local of = field.type == "array" and field.items or field
  local titled = of.oneOf or of.anyOf
  if titled then
    return vim.tbl_map(function(each)
      return { value = each.const, label = each.title or each.const }
    end, titled)
  end
  if field.type == "boolean" then
    return { { value = true, label = "Yes" }, { value = false, label = "No" } }
  end
  return of.enum and vim.tbl_map(function(each)
    return { value = each, label = each }
  end, of.enum)
end

local function close(id, answer, outcome)
  local form = open[id]
  if form then
    open[id] = nil
    form.params.answer(answer)
    require("sidecar.chat").end_question(form.project, id, outcome)
  end
end

--- Return what was typed as the field wants it, or nil and what is wrong with it.
local function read(field, choices, typed)
  if field.type == "array" then
    local chosen = {}
    for number in typed:gmatch("%d+") do
      local choice = choices[tonumber(number)]
      if not choice then
        return nil, "there is no choice " .. number
      end
      table.insert(chosen, choice.value)
    end
    return chosen
  elseif field.type == "integer" or field.type == "number" then
    local number = tonumber(typed)
    if not number or (field.type == "integer" and number % 1 ~= 0) then
      return nil, ("%q is not a %snumber"):format(typed, field.type == "integer" and "whole " or "")
    end
    return number
  end
  return typed
end

--- Ask for the field number `at` and those behind it, then answer.
local function ask_field(id, names, at, content)
  local form = open[id]
  if not form then
    return -- answered elsewhere meanwhile
  end
  local name = names[at]
  if not name then
    local whole = next(content) and content or vim.empty_dict()
    return close(id, { action = "accept", content = whole }, "answered")
  end
  local field = form.params.schema.properties[name]
  local choices = choices_of(field)
  local title = field.title or name
  if field.description then
    title = ("%s (%s)"):format(title, field.description)
  end
  local function go_on(value)
    content[name] = value
    ask_field(id, names, at + 1, content)
  end
  if choices and field.type ~= "array" then
    local shown = vim.list_extend({}, choices)
    if #names == 1 then
      table.insert(shown, { label = NO_ANSWER })
    end
    local function format(choice)
      return choice.label .. (choice.value ~= nil and choice.value == field.default and "  (the default)" or "")
    end
    return vim.ui.select(shown, { prompt = title, format_item = format }, function(choice)
      if choice and choice.label == NO_ANSWER and choice.value == nil then
        close(id, { action = "decline" }, "not answered")
      elseif choice then
        go_on(choice.value)
      end
    end)
  end
  local default = field.default ~= nil and tostring(field.default) or ""
  if choices then
    local numbers = {}
    for number, choice in ipairs(choices) do
      title = ("%s [%d] %s"):format(title, number, choice.label)
      if type(field.default) == "table" and vim.tbl_contains(field.default, choice.value) then
        table.insert(numbers, tostring(number))
      end
    end
    default = table.concat(numbers, " ")
  end
  vim.ui.input({ prompt = title .. ": ", default = default }, function(typed)
    if not typed then
      return
    end
    local value, problem = read(field, choices, typed)
    if problem then
      require("sidecar.daemon").tell(problem, vim.log.levels.WARN)
      return ask_field(id, names, at, content)
    end
    go_on(value)
  end)
end

--- Show a question; `params` is the daemon's form with its `answer`.
function M.ask(project, params)
  open[params.elicitationId] = { project = project, params = params }
  local lines = {}
  if params.from ~= "agent" then
    table.insert(lines, ("the tool server %s asks"):format(params.from))
  end
  if params.url then
    table.insert(lines, "open this address, if you trust it: " .. params.url)
  end
  for _, name in ipairs(names_of(params.schema)) do
    local field = params.schema.properties[name]
    if field.title and field.title ~= params.message then
      table.insert(lines, field.title)
    end
    for _, choice in ipairs(choices_of(field) or {}) do
      table.insert(lines, "  " .. choice.label)
    end
  end
  table.insert(lines, ":Sidecar answer answers it")
  require("sidecar.chat").show_question(project, params.elicitationId, params.message, lines)
  require("sidecar.daemon").tell(params.message .. " :Sidecar answer answers it", vim.log.levels.WARN)
end

--- Go through the fields of the oldest question, and return whether there is one.
function M.enter()
  local id, form = next(open)
  if not id then
    return false
  end
  local names = names_of(form.params.schema)
  if #names == 1 and choices_of(form.params.schema.properties[names[1]]) then
    ask_field(id, names, 1, {}) -- its list has the answer that is none
    return true
  end
  vim.ui.select({ "Answer", NO_ANSWER }, { prompt = form.params.message }, function(choice)
    if choice == NO_ANSWER then
      close(id, { action = "decline" }, "not answered")
    elseif choice then
      ask_field(id, names, 1, {})
    end
  end)
  return true
end

--- Take back a question that is over: answered elsewhere, or too late.
function M.withdraw(params)
  close(params.elicitationId, { action = "cancel" }, params.action or "over")
end

--- Take back every question of a project.
function M.withdraw_all(project)
  for id, form in pairs(open) do
    if form.project == project then
      close(id, { action = "cancel" }, "over")
    end
  end
end

return M
