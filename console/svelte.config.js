import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  // Styles go into files: the console is served under a policy that allows no inline style.
  compilerOptions: { css: 'external', runes: undefined },
};
