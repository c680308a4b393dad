import { defineConfig } from "vitest/config";

export default defineConfig({
  server: { fs: { strict: false } },
  test: { environment: "happy-dom", include: ["test/panel/*.test.js"], testTimeout: 60_000 },
});
