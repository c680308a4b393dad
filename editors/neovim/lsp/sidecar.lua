-- What `vim.lsp.enable("sidecar")` starts; `vim.lsp.config("sidecar", { cmd = ... })` changes it.
return require("sidecar").config()
