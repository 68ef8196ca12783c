// Builds the page into dist/ with relative addresses, so that it works wherever the server puts it.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

/** Puts public/theme.js where index.html wants it, as a plain script that runs before the first paint. */
const themeFirst: Plugin = {
  name: "theme-first",
  transformIndexHtml: { order: "post", handler: (html) => html.replace("<!-- theme -->", '<script src="./theme.js"></script>') },
};

export default defineConfig({
  base: "./",
  plugins: [svelte(), themeFirst],
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    // The server's content policy has no place for data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
});
