-- The user commands. Nothing is loaded before the first of them is used.
local function command(name, run, options)
  vim.api.nvim_create_user_command("Sidecar" .. name, function(given)
    require("sidecar")[run](given)
  end, options or {})
end

command("Prompt", "prompt", { nargs = "+", range = true, desc = "Ask; with a range, about these lines" })
command("New", "new", { desc = "Begin another conversation with the next prompt" })
command("Resume", "resume", { desc = "Go on with a stored conversation" })
command("Interrupt", "interrupt", { desc = "Stop the running turn" })
command("Compact", "compact", { desc = "Condense the older part of the conversation" })
command("Undo", "undo", { desc = "Take the last compaction back" })
command("Compare", "compare", { desc = "Compare before and after the last compaction" })
command("Context", "context", { desc = "Say how full the window is, and with which files" })
command("Transcript", "transcript", { desc = "Open the conversation" })

vim.api.nvim_create_autocmd("BufReadCmd", {
  group = vim.api.nvim_create_augroup("sidecar", {}),
  pattern = "sidecar-session://*",
  callback = function(event)
    require("sidecar").read_document(event.buf, event.match)
  end,
})
