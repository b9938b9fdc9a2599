// The build is deterministic: the same sources and lock file give the same bytes in dist, which is committed.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

/** The program puts <base> into the page, with the path prefix that it is served under; here the server of Vite does. */
function base(): Plugin {
  return {
    name: 'rosterd-base',
    apply: 'serve',
    transformIndexHtml: () => [{ tag: 'base', attrs: { href: '/' }, injectTo: 'head-prepend' }],
  };
}

const coordinator = process.env.ROSTERD_URL ?? 'http://127.0.0.1:7700';

export default defineConfig({
  base: './',
  plugins: [svelte(), base()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    // A data: address would need a hole in the policy.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    sourcemap: false,
  },
  server: {
    // Sec-Fetch-Site and Origin stay those of the browser: same-origin.
    proxy: { '/api': { target: coordinator, changeOrigin: false }, '/login/oidc': { target: coordinator } },
  },
  test: { include: ['test/**/*.test.ts'], environment: 'node' },
} as Parameters<typeof defineConfig>[0]);
