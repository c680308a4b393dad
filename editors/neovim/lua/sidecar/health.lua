-- `:checkhealth sidecar`: whether everything is there, and what to do where it is not.

local M = {}

local function check_program(cmd)
  local health = vim.health
  if vim.fn.executable(cmd[1]) == 0 then
    local advice = 'install the daemon, or say where it is: require("sidecar").setup({ cmd = { "/path/to/sidecar" } })'
    return health.error(("there is no program %q"):format(cmd[1]), advice)
  end
  health.ok(("the daemon is %s"):format(vim.fn.exepath(cmd[1])))
  local started, process = pcall(vim.system, vim.list_extend(vim.deepcopy(cmd), { "doctor" }), { text = true })
  local ran = started and process:wait(30000)
  if not ran or ran.code ~= 0 then
    local said = ran and vim.trim((ran.stdout or "") .. (ran.stderr or "")) or process
    return health.warn("its doctor finds problems:\n" .. said, table.concat(cmd, " ") .. " doctor")
  end
  health.info(vim.trim(ran.stdout))
end

function M.check()
  vim.health.start("sidecar")
  if vim.fn.has("nvim-0.10") == 0 then
    return vim.health.error("Neovim is older than 0.10", "install Neovim 0.10 or later")
  end
  vim.health.ok("Neovim is " .. tostring(vim.version()))
  local buffer = vim.api.nvim_create_buf(false, true)
  if pcall(vim.treesitter.get_parser, buffer, "markdown") then
    vim.health.ok("answers are shown with the Markdown parser")
  else
    vim.health.info("there is no tree-sitter parser for Markdown; answers have the plain highlighting")
  end
  vim.api.nvim_buf_delete(buffer, { force = true })
  local daemon = require("sidecar.daemon")
  check_program(daemon.config.cmd)
  local n = 0
  daemon.each(function(project)
    n = n + 1
    vim.health.ok(("a daemon runs for %s"):format(project.root))
  end)
  if n == 0 then
    vim.health.info("no daemon runs yet; :Sidecar starts one")
  end
end

return M
