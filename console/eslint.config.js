import svelte from 'eslint-plugin-svelte';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

export default ts.config(
  { ignores: ['dist', 'node_modules', 'src/lib/api/types.ts'] },
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser, extraFileExtensions: ['.svelte'], svelteConfig } },
  },
  {
    rules: {
      // Stored values stay text.
      'svelte/no-at-html-tags': 'error',
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'Texts of jobs and workers are never HTML.' },
        { property: 'outerHTML', message: 'Texts of jobs and workers are never HTML.' },
        { property: 'insertAdjacentHTML', message: 'Texts of jobs and workers are never HTML.' },
      ],
      // lib/router makes addresses, since it knows the path prefix.
      'svelte/no-navigation-without-resolve': 'off',
      // A Map or Set that is replaced as a whole need not be reactive.
      'svelte/prefer-svelte-reactivity': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    },
  },
);
