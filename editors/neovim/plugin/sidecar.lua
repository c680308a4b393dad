-- The command, and the documents of conversations. Nothing is loaded before the first use.
if vim.fn.has("nvim-0.10") == 0 then
  vim.api.nvim_create_user_command("Sidecar", function()
    local version = vim.version()
    local found = ("%d.%d.%d"):format(version.major, version.minor, version.patch)
    vim.notify("Sidecar needs Neovim 0.10 or later, and this is " .. found, vim.log.levels.ERROR)
  end, { nargs = "*", range = true })
  return
end

vim.api.nvim_create_user_command("Sidecar", function(given)
  require("sidecar").run(given)
end, {
  nargs = "*",
  range = true,
  desc = "Ask, or open the conversation",
  complete = function(lead, line)
    return require("sidecar").complete(lead, line)
  end,
})

vim.api.nvim_create_autocmd("BufReadCmd", {
  group = vim.api.nvim_create_augroup("sidecar", {}),
  pattern = "sidecar-session://*",
  callback = function(event)
    require("sidecar").read_document(event.buf, event.match)
  end,
})
